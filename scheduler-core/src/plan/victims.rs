//! Who may be taken for whom (DESIGN 6, Place 2): the attempts of a pool that nobody protects, and the rights to them.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::idle::{Idle, is_heard};
use super::known::{Has, Known};
use super::price::{Cost, price};
use super::round::Owner;
use super::{Line, Links};
use crate::budget::DEPTH_MAX;
use crate::decision::{Price, Right, UseOf};
use crate::id::{AttemptId, BudgetId, Name, NodeId, Slot};
use crate::job::{Attempt, Job};
use crate::lifecycle::lane::Part;
use crate::lifecycle::need::need;
use crate::spec::{Tier, Turn};
use crate::state::State;
use crate::unit::Timestamp;

/// An attempt that may give way.
#[derive(Debug)]
pub(super) struct Victim<'a> {
    pub id: AttemptId,
    /// None if it is only decided.
    pub attempt: Option<&'a Attempt>,
    pub turn: Turn,
    /// Whether it is one of those that the short lane is for.
    is_lane: bool,
    pub price: Price,
    pub cost: Cost,
    /// All its GPUs.
    pub gpus: u32,
    /// What it has on each of its nodes; closed ones help nobody.
    has: Cow<'a, [Has]>,
    /// Its leaf's, by number.
    group: usize,
}

/// An attempt that is out of the way by a date.
#[derive(Debug)]
pub(super) struct Ahead<'a> {
    pub id: AttemptId,
    pub job: &'a Job,
    pub price: Price,
    /// The GPUs that are free by then.
    pub on: Vec<(NodeId, Vec<Slot>)>,
}

/// The attempts of one leaf and tier.
#[derive(Debug)]
struct Group {
    leaf: BudgetId,
    tier: Tier,
    /// From the root to the leaf; empty if that is gone.
    path: Vec<BudgetId>,
    members: Vec<usize>,
}

/// Those who have something on each node, by its place: one list for all nodes, and where each one's part begins.
#[derive(Debug, Default)]
struct OnNodes {
    begins: Vec<usize>,
    list: Vec<usize>,
}

impl OnNodes {
    fn of(victims: &[Victim<'_>], idle: &Idle<'_>) -> Self {
        let places = || {
            victims
                .iter()
                .enumerate()
                .flat_map(|(number, victim)| victim.held(idle).map(move |(at, _)| (at, number)))
        };
        let mut begins = vec![0; idle.nodes.len() + 1];
        places().for_each(|(at, _)| begins[at + 1] += 1);
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut list = vec![0; begins.last().copied().unwrap_or(0)];
        let mut next = begins.clone();
        for (at, number) in places() {
            list[next[at]] = number;
            next[at] += 1;
        }
        Self { begins, list }
    }

    fn at(&self, at: usize) -> &[usize] {
        &self.list[self.begins[at]..self.begins[at + 1]]
    }
}

/// All of a pool, in order of their ids.
#[derive(Debug)]
pub(super) struct Victims<'a> {
    list: Vec<Victim<'a>>,
    is_taken: Vec<bool>,
    left: usize,
    groups: Vec<Group>,
    on: OnNodes,
    /// Use of the free tier by leaf, which no decision of a plan changes as long as funded jobs are placed.
    free_use: BTreeMap<BudgetId, UseOf>,
}

/// What one job may take, by the numbers of this moment.
#[derive(Debug, Default)]
pub(super) struct Rights {
    /// By leaf and tier: the right, but for the turn and the lane, and the use.
    groups: Vec<Option<(Option<Right>, UseOf)>>,
    /// The right by the short lane, if there is one.
    lane: Option<Right>,
    turn: Turn,
    /// By victim: its leaf's place in order of preference, those of equal use in one; none if it may not be taken.
    ranks: Vec<Option<u32>>,
    /// By node: how many GPUs there are if everybody leaves whom it may take.
    could_have: Vec<usize>,
}

impl Rights {
    /// Whether an attempt may be taken.
    pub(super) fn may_take(&self, victim: usize) -> bool {
        self.rank(victim).is_some()
    }

    /// Returns of each attempt whether it may be taken; nothing if nobody may be.
    pub(super) fn may_take_each(&self) -> Vec<bool> {
        self.ranks.iter().map(Option::is_some).collect()
    }

    fn rank(&self, victim: usize) -> Option<u32> {
        self.ranks.get(victim).copied().flatten()
    }

    /// Whether nobody may be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    /// Returns how many GPUs a node has if everybody leaves whom it may take; `open` if nobody does.
    pub(super) fn could_have(&self, at: usize, open: usize) -> usize {
        self.could_have.get(at).copied().unwrap_or(open)
    }

    /// Compares two of equal cost: the higher use gives way first, then the lower id.
    pub(super) fn prefer(&self, one: usize, other: usize) -> Ordering {
        (self.rank(one), one).cmp(&(self.rank(other), other))
    }

    /// Compares two sets of equal cost, each in order of preference: by the first who is in one of them only.
    pub(super) fn prefer_set(&self, one: &[usize], other: &[usize]) -> Ordering {
        let differs = one.iter().zip(other).map(|(a, b)| self.prefer(*a, *b)).find(|order| order.is_ne());
        differs.unwrap_or(one.len().cmp(&other.len()))
    }
}

impl<'a> Victims<'a> {
    /// Returns the attempts of `pool` that nobody protects, that do not stop, and that have GPUs on nodes of `idle`.
    ///
    /// `known` is what follows from the same state.
    pub(super) fn of(
        state: &'a State,
        known: &'a Known,
        pool: &Name,
        links: &Links,
        idle: &Idle<'a>,
        now: Timestamp,
    ) -> Self {
        let mut all = Self::none();
        let mut numbers: BTreeMap<(BudgetId, Tier), usize> = BTreeMap::new();
        // Who takes work hears, and most nodes do.
        let takes_work =
            |attempt: &Attempt| attempt.placements.iter().all(|p| idle.position(p.node).is_some());
        // Known are those who do not leave, in the same order.
        let stay = state.attempts.iter().filter(|(_, attempt)| !attempt.is_leaving());
        for ((id, attempt), (of, has)) in stay.zip(&known.attempts) {
            debug_assert_eq!(id, of, "what is known of attempts is of this state");
            if attempt.is_protected(now) || attempt.pool != *pool {
                continue;
            }
            let Some(job) = state.jobs.get(&id.job) else { continue };
            if !takes_work(attempt) && !is_heard(state, links, attempt) {
                continue;
            }
            let has = Cow::Borrowed(has.as_slice());
            if !has.iter().any(|has| idle.position(has.node).is_some()) {
                continue;
            }
            let price = price(state, links, *id, (attempt, job), now);
            let cost = Cost::of(attempt.tier, job.terms.resumable, &price);
            let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
            let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
            let group = *numbers.entry((attempt.budget, attempt.tier)).or_insert_with(|| {
                all.groups.push(Group::of(state, attempt.budget, attempt.tier));
                all.groups.len() - 1
            });
            let attempt = Some(attempt);
            let (turn, is_lane) = (job.terms.turn, Part::of(&job.terms) == Part::Lane);
            all.push(Victim { id: *id, attempt, turn, is_lane, price, cost, gpus, has, group });
        }
        all.on = OnNodes::of(&all.list, idle);
        all
    }

    /// Returns attempts that are out of the way by a date, as far as they have GPUs on nodes of `idle`.
    pub(super) fn by_date(list: Vec<Ahead<'a>>, idle: &Idle<'a>) -> Self {
        let group =
            Group { leaf: BudgetId::new(0), tier: Tier::Funded, path: Vec::new(), members: Vec::new() };
        let mut all = Self { groups: vec![group], ..Self::none() };
        for Ahead { id, job, price, on } in list {
            let cost = Cost::of(job.terms.tier, job.terms.resumable, &price);
            let has = on.into_iter().filter_map(|(node, slots)| {
                let at = idle.position(node)?;
                Some(Has { node, slots, gives: need(&job.terms.shape, idle.nodes[at].node) })
            });
            let has: Vec<Has> = has.collect();
            let gpus = has.iter().map(|has| has.slots.len()).sum::<usize>();
            let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
            let turn = job.terms.turn;
            let has = Cow::Owned(has);
            all.push(Victim { id, attempt: None, turn, is_lane: false, price, cost, gpus, has, group: 0 });
        }
        all.on = OnNodes::of(&all.list, idle);
        all
    }

    fn none() -> Self {
        let (list, is_taken, groups) = (Vec::new(), Vec::new(), Vec::new());
        Self { list, is_taken, left: 0, groups, on: OnNodes::default(), free_use: BTreeMap::new() }
    }

    fn push(&mut self, victim: Victim<'a>) {
        let number = self.list.len();
        self.groups[victim.group].members.push(number);
        self.list.push(victim);
        self.is_taken.push(false);
        self.left += 1;
    }

    /// Whether nobody is left.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub(super) fn get(&self, number: usize) -> &Victim<'a> {
        &self.list[number]
    }

    /// Returns those with something on the node at a place.
    pub(super) fn on(&self, at: usize) -> &[usize] {
        self.on.at(at)
    }

    /// Returns the numbers of all, those that were taken too.
    pub(super) fn numbers(&self) -> core::ops::Range<usize> {
        0..self.list.len()
    }

    /// Returns by which of `rights` an attempt may be taken, if by one.
    pub(super) fn right(&self, rights: &Rights, victim: usize) -> Option<Right> {
        let victim = &self.list[victim];
        let (right, _) = rights.groups.get(victim.group).copied().flatten()?;
        victim.gives(right, rights.lane, rights.turn)
    }

    /// Returns what the head of `line`, of `leaf` and with `turn`, may take: the free tier always; of its own budget
    /// what has a later turn; of another one what is on a side whose use is above its own side's by the margin. By the
    /// short lane everything; above its burst limit, by its share, only from whoever is above theirs.
    pub(super) fn rights(
        &mut self,
        line: &mut Line<'_>,
        idle: &Idle<'_>,
        Owner { budget: leaf, turn, lane }: Owner,
    ) -> Rights {
        let mut sides: BTreeMap<BudgetId, Option<Right>> = BTreeMap::new();
        let is_over = line.is_over(leaf);
        let lane = lane.map(|lane| Right::Lane { occupied: lane.occupied, part: lane.part });
        let mut groups = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let right = match group.tier {
                Tier::Free => Some(Right::FreeTier),
                Tier::Funded if group.leaf == leaf => Some(Right::Turn),
                // Whoever it would take from would go before it.
                Tier::Funded if is_over && !line.is_over(group.leaf) => None,
                Tier::Funded => line.right_to(&group.path, &mut sides),
            };
            let is_left = |victim: &usize| {
                !self.is_taken[*victim] && self.list[*victim].gives(right, lane, turn).is_some()
            };
            let has_any = (right.is_some() || lane.is_some()) && group.members.iter().any(is_left);
            let free_use = &mut self.free_use;
            groups.push(has_any.then(|| match group.tier {
                Tier::Funded => (right, line.used(group.leaf)),
                Tier::Free => {
                    (right, *free_use.entry(group.leaf).or_insert_with(|| line.used_free(group.leaf)))
                }
            }));
        }
        if groups.iter().all(Option::is_none) {
            return Rights::default();
        }
        let mut rights = Rights { groups, lane, turn, ..Rights::default() };
        rights.ranks = self.ranks(&rights);
        self.with_room(rights, idle)
    }

    /// Returns what a job whose date has come may take: on the nodes of its date everything that nobody protects.
    pub(super) fn claims(
        &mut self,
        line: &mut Line<'_>,
        idle: &Idle<'_>,
        nodes: &BTreeSet<NodeId>,
        claim: Right,
    ) -> Rights {
        let mut groups = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let (right, used) = match group.tier {
                Tier::Free => (Right::FreeTier, line.used_free(group.leaf)),
                Tier::Funded => (claim, line.used(group.leaf)),
            };
            groups.push(Some((Some(right), used)));
        }
        let mut rights = Rights { groups, ..Rights::default() };
        rights.ranks = self.ranks(&rights);
        for (victim, rank) in self.list.iter().zip(&mut rights.ranks) {
            if !victim.has.iter().any(|has| nodes.contains(&has.node)) {
                *rank = None;
            }
        }
        self.with_room(rights, idle)
    }

    /// Returns what a job may take that looks ahead: everything here, those of the highest use first among equals.
    pub(super) fn all(&self, uses: &[UseOf], idle: &Idle<'_>) -> Rights {
        let mut order: Vec<usize> = self.numbers().collect();
        order.sort_by(|a, b| uses[*b].cmp_use(&uses[*a]));
        let mut ranks = vec![None; order.len()];
        let mut rank = 0;
        for (at, victim) in order.iter().enumerate() {
            if at > 0 && uses[order[at - 1]].cmp_use(&uses[*victim]).is_ne() {
                rank += 1;
            }
            ranks[*victim] = Some(rank);
        }
        self.with_room(Rights { ranks, ..Rights::default() }, idle)
    }

    fn with_room(&self, mut rights: Rights, idle: &Idle<'_>) -> Rights {
        let mut could_have: Vec<usize> = idle.nodes.iter().map(super::idle::Spare::open).collect();
        for (victim, _) in self.list.iter().zip(&rights.ranks).filter(|(_, rank)| rank.is_some()) {
            victim.held(idle).for_each(|(at, has)| could_have[at] += has.slots.len());
        }
        rights.could_have = could_have;
        rights
    }

    fn ranks(&self, rights: &Rights) -> Vec<Option<u32>> {
        let with_right = rights.groups.iter().enumerate().filter_map(|(at, group)| Some((at, (*group)?)));
        let mut ordered: Vec<(usize, (Option<Right>, UseOf))> = with_right.collect();
        ordered.sort_by(|(_, (_, a)), (_, (_, b))| b.cmp_use(a));
        let mut ranks = vec![None; self.list.len()];
        let mut rank = 0;
        let mut before: Option<UseOf> = None;
        for (group, (right, used)) in ordered {
            if before.is_some_and(|before| before.cmp_use(&used).is_ne()) {
                rank += 1;
            }
            before = Some(used);
            for victim in &self.groups[group].members {
                let may = self.list[*victim].gives(right, rights.lane, rights.turn).is_some();
                ranks[*victim] = (may && !self.is_taken[*victim]).then_some(rank);
            }
        }
        ranks
    }

    /// Those of `takes` give way: whatever of their GPUs the start does not use comes free for the next.
    pub(super) fn take(&mut self, takes: &[usize], idle: &mut Idle<'a>) {
        for number in takes {
            self.is_taken[*number] = true;
            self.left -= 1;
            for has in self.list[*number].has.iter() {
                idle.gives_way(has.node, &has.slots, has.gives);
            }
        }
    }
}

impl Victim<'_> {
    /// Returns what it has on nodes that take work, each with its place among them.
    pub(super) fn held(&self, idle: &Idle<'_>) -> impl Iterator<Item = (usize, &Has)> {
        self.has.iter().filter_map(|has| Some((idle.position(has.node)?, has)))
    }

    /// Returns what it has on one node.
    pub(super) fn held_on(&self, node: NodeId) -> Option<&Has> {
        self.has.iter().find(|has| has.node == node)
    }

    /// Returns by which right it gives way, if its budget does by one: of the taker's own with a later turn alone; and
    /// the jobs of the short lane leave one another alone.
    fn gives(&self, of_budget: Option<Right>, lane: Option<Right>, turn: Turn) -> Option<Right> {
        let right = of_budget.filter(|right| *right != Right::Turn || self.turn > turn);
        right.or_else(|| lane.filter(|_| !self.is_lane))
    }
}

impl Group {
    fn of(state: &State, leaf: BudgetId, tier: Tier) -> Self {
        let mut path = vec![leaf];
        let mut at = state.budgets.get(&leaf);
        while let Some(parent) = at.and_then(|budget| budget.parent).filter(|_| path.len() <= DEPTH_MAX) {
            path.push(parent);
            at = state.budgets.get(&parent);
        }
        if at.is_none() {
            path.clear();
        }
        path.reverse();
        Self { leaf, tier, path, members: Vec::new() }
    }
}
