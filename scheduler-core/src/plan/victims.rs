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
use crate::lifecycle::need::{Need, need};
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
    /// Its GPUs that help somebody: on nodes that take work.
    pub on: Vec<Held<'a>>,
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

/// What an attempt has on one node.
#[derive(Debug)]
pub(super) struct Held<'a> {
    pub node: NodeId,
    /// The node's place among those that take work.
    pub at: usize,
    pub slots: Cow<'a, [Slot]>,
    /// What it gives back with its GPUs.
    pub gives: Need,
    /// No GPU of it here costs less.
    pub each: Cost,
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

/// All of a pool, in order of their ids.
#[derive(Debug)]
pub(super) struct Victims<'a> {
    list: Vec<Victim<'a>>,
    is_taken: Vec<bool>,
    left: usize,
    groups: Vec<Group>,
    /// Those with GPUs on each node, by its place.
    on: Vec<Vec<usize>>,
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
        let on = vec![Vec::new(); idle.nodes.len()];
        let (list, is_taken, groups) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = Self { list, is_taken, left: 0, groups, on, free_use: BTreeMap::new() };
        let mut numbers: BTreeMap<(BudgetId, Tier), usize> = BTreeMap::new();
        // Who takes work hears, and most nodes do.
        let takes_work =
            |attempt: &Attempt| attempt.placements.iter().all(|p| idle.position(p.node).is_some());
        for (id, attempt) in state.attempts.iter() {
            if attempt.is_leaving() || attempt.is_protected(now) || attempt.pool != *pool {
                continue;
            }
            let (Some(has), Some(job)) = (known.attempts.get(id), state.jobs.get(&id.job)) else { continue };
            if !takes_work(attempt) && !is_heard(state, links, attempt) {
                continue;
            }
            let price = price(state, links, *id, (attempt, job), now);
            let cost = Cost::of(attempt.tier, job.terms.resumable, &price);
            let on = helping(has, cost, idle);
            if on.is_empty() {
                continue;
            }
            let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
            let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
            let group = *numbers.entry((attempt.budget, attempt.tier)).or_insert_with(|| {
                all.groups.push(Group::of(state, attempt.budget, attempt.tier));
                all.groups.len() - 1
            });
            let attempt = Some(attempt);
            let (turn, is_lane) = (job.terms.turn, Part::of(&job.terms) == Part::Lane);
            all.push(Victim { id: *id, attempt, turn, is_lane, price, cost, gpus, on, group });
        }
        all
    }

    /// Returns attempts that are out of the way by a date, as far as they have GPUs on nodes of `idle`.
    pub(super) fn by_date(list: Vec<Ahead<'a>>, idle: &Idle<'a>) -> Self {
        let on = vec![Vec::new(); idle.nodes.len()];
        let group =
            Group { leaf: BudgetId::new(0), tier: Tier::Funded, path: Vec::new(), members: Vec::new() };
        let (groups, free_use) = (vec![group], BTreeMap::new());
        let mut all = Self { list: Vec::new(), is_taken: Vec::new(), left: 0, groups, on, free_use };
        for Ahead { id, job, price, on } in list {
            let cost = Cost::of(job.terms.tier, job.terms.resumable, &price);
            let held = on.into_iter().filter_map(|(node, slots)| {
                let at = idle.position(node)?;
                let gives = need(&job.terms.shape, idle.nodes[at].node);
                Some(Held { node, at, each: cost.each(slots.len()), slots: slots.into(), gives })
            });
            let on: Vec<Held<'_>> = held.collect();
            let gpus = on.iter().map(|held| held.slots.len()).sum::<usize>();
            let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
            let turn = job.terms.turn;
            all.push(Victim { id, attempt: None, turn, is_lane: false, price, cost, gpus, on, group: 0 });
        }
        all
    }

    fn push(&mut self, victim: Victim<'a>) {
        let number = self.list.len();
        for held in &victim.on {
            self.on[held.at].push(number);
        }
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

    /// Returns those with GPUs on the node at a place.
    pub(super) fn on(&self, at: usize) -> &[usize] {
        &self.on[at]
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
            if !victim.on.iter().any(|held| nodes.contains(&held.node)) {
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
            victim.on.iter().for_each(|held| could_have[held.at] += held.slots.len());
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
            for held in &self.list[*number].on {
                idle.gives_way(held.node, &held.slots, held.gives);
            }
        }
    }
}

impl Victim<'_> {
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

/// Returns what an attempt has on nodes that take work.
fn helping<'a>(has: &'a [Has], cost: Cost, idle: &Idle<'_>) -> Vec<Held<'a>> {
    let here = has.iter().filter_map(|has| {
        let at = idle.position(has.node)?;
        let slots = Cow::Borrowed(has.slots.as_slice());
        Some(Held { node: has.node, at, each: cost.each(slots.len()), slots, gives: has.gives })
    });
    here.collect()
}
