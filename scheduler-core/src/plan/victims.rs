//! Who may be taken for whom (DESIGN 6, Place 2): the attempts of a pool that nobody protects, and the rights to them.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::idle::{Idle, held_by, is_heard};
use super::price::{Cost, price};
use super::{Line, Links};
use crate::decision::{Price, Right, UseOf};
use crate::id::{AttemptId, BudgetId, Name, NodeId, Slot};
use crate::job::Attempt;
use crate::lifecycle::need::{Need, need};
use crate::spec::{Tier, Turn};
use crate::state::State;
use crate::unit::Timestamp;

/// An attempt that may give way.
#[derive(Debug)]
pub(super) struct Victim<'a> {
    pub id: AttemptId,
    pub attempt: &'a Attempt,
    pub turn: Turn,
    pub price: Price,
    pub cost: Cost,
    /// All its GPUs.
    pub gpus: u32,
    /// Its GPUs that help somebody: on nodes that take work.
    pub on: Vec<(NodeId, Vec<Slot>, Need)>,
}

/// All of a pool, in order of their ids.
#[derive(Debug)]
pub(super) struct Victims<'a> {
    list: Vec<Victim<'a>>,
    is_taken: Vec<bool>,
    by_leaf: BTreeMap<(BudgetId, Tier), Vec<usize>>,
    /// By node, those with GPUs there.
    on: BTreeMap<NodeId, Vec<usize>>,
    /// Use of the free tier by leaf, which no decision of a plan changes as long as funded jobs are placed.
    free_use: BTreeMap<BudgetId, UseOf>,
}

/// What one job may take, by the numbers of this moment.
#[derive(Debug, Default)]
pub(super) struct Rights {
    of: BTreeMap<usize, (Right, UseOf)>,
}

impl Rights {
    /// Returns by which right an attempt may be taken, if by one.
    pub(super) fn right(&self, victim: usize) -> Option<Right> {
        self.of.get(&victim).map(|(right, _)| *right)
    }

    /// Returns who may be taken, in order of their ids.
    pub(super) fn victims(&self) -> impl Iterator<Item = usize> + '_ {
        self.of.keys().copied()
    }

    /// Whether nobody may be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Compares two of equal cost: the higher use gives way first, then the lower id.
    pub(super) fn prefer(&self, one: usize, other: usize) -> Ordering {
        let used = |victim: usize| self.of.get(&victim).map(|(_, used)| *used);
        match (used(one), used(other)) {
            (Some(a), Some(b)) => b.cmp_use(&a).then(one.cmp(&other)),
            (_, _) => one.cmp(&other),
        }
    }

    /// Compares two sets of equal cost: by the first in order of preference who is in one of them only.
    pub(super) fn prefer_set(&self, one: &[usize], other: &[usize]) -> Ordering {
        let ordered = |set: &[usize]| {
            let mut ordered = set.to_vec();
            ordered.sort_by(|a, b| self.prefer(*a, *b));
            ordered
        };
        let (one, other) = (ordered(one), ordered(other));
        let differs = one.iter().zip(&other).map(|(a, b)| self.prefer(*a, *b)).find(|order| order.is_ne());
        differs.unwrap_or(one.len().cmp(&other.len()))
    }
}

impl<'a> Victims<'a> {
    /// Returns nobody.
    pub(super) fn none() -> Self {
        let (list, is_taken) = (Vec::new(), Vec::new());
        Self { list, is_taken, by_leaf: BTreeMap::new(), on: BTreeMap::new(), free_use: BTreeMap::new() }
    }

    /// Returns the attempts of `pool` that nobody protects, that do not stop, and that have GPUs on nodes of `idle`.
    pub(super) fn of(state: &'a State, pool: &Name, links: &Links, idle: &Idle<'a>, now: Timestamp) -> Self {
        let mut all = Self::none();
        for (id, attempt) in state.attempts.iter().filter(|(_, attempt)| attempt.pool == *pool) {
            if !may_give_way(attempt, now) || !is_heard(state, links, attempt) {
                continue;
            }
            let Some(job) = state.jobs.get(&id.job) else { continue };
            let on = helping(*id, attempt, idle, |node| need(&job.terms.shape, node));
            if on.is_empty() {
                continue;
            }
            let price = price(state, links, *id, (attempt, job), now);
            let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
            let cost = Cost::of(attempt.tier, job.terms.resumable, &price);
            let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
            all.push(Victim { id: *id, attempt, turn: job.terms.turn, price, cost, gpus, on });
        }
        all
    }

    fn push(&mut self, victim: Victim<'a>) {
        let number = self.list.len();
        for (node, _, _) in &victim.on {
            self.on.entry(*node).or_default().push(number);
        }
        self.by_leaf.entry((victim.attempt.budget, victim.attempt.tier)).or_default().push(number);
        self.list.push(victim);
        self.is_taken.push(false);
    }

    /// Whether nobody is left.
    pub(super) fn is_empty(&self) -> bool {
        self.by_leaf.is_empty()
    }

    pub(super) fn get(&self, number: usize) -> &Victim<'a> {
        &self.list[number]
    }

    /// Returns those with GPUs on `node`.
    pub(super) fn on(&self, node: NodeId) -> &[usize] {
        self.on.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Returns what the head of `line`, of `leaf` and with `turn`, may take: the free tier always; of its own budget
    /// what has a later turn; of another one what is on a side whose use is above its own side's by the margin.
    pub(super) fn rights(&mut self, line: &mut Line<'_>, leaf: BudgetId, turn: Turn) -> Rights {
        let mut rights = Rights::default();
        let leaves: Vec<(BudgetId, Tier)> = self.by_leaf.keys().copied().collect();
        for key in leaves {
            let (theirs, tier) = key;
            let right = match tier {
                Tier::Free => Some(Right::FreeTier),
                Tier::Funded if theirs == leaf => Some(Right::Turn),
                Tier::Funded => line.right_to(theirs),
            };
            let Some(right) = right else { continue };
            let used = match tier {
                Tier::Funded => line.used(theirs),
                Tier::Free => *self.free_use.entry(theirs).or_insert_with(|| line.used_free(theirs)),
            };
            let of_leaf = self.by_leaf[&key].iter().filter(|victim| !self.is_taken[**victim]);
            let may = |victim: &&usize| right != Right::Turn || self.list[**victim].turn > turn;
            rights.of.extend(of_leaf.filter(may).map(|victim| (*victim, (right, used))));
        }
        rights
    }

    /// Those of `takes` give way: whatever of their GPUs the start does not use comes free for the next.
    pub(super) fn take(&mut self, takes: &[usize], idle: &mut Idle<'a>) {
        for number in takes {
            self.is_taken[*number] = true;
            let victim = &self.list[*number];
            for (node, slots, gives) in &victim.on {
                idle.gives_way(*node, slots, *gives);
            }
        }
    }
}

/// Whether an attempt may give way to anybody: live, told nothing yet, and not protected.
fn may_give_way(attempt: &Attempt, now: Timestamp) -> bool {
    attempt.ended.is_none() && attempt.stop.is_none() && !attempt.is_protected(now)
}

fn helping(
    id: AttemptId,
    attempt: &Attempt,
    idle: &Idle<'_>,
    need: impl Fn(&crate::node::Node) -> Need,
) -> Vec<(NodeId, Vec<Slot>, Need)> {
    let mut on = vec![];
    for placement in &attempt.placements {
        let Some(spare) = idle.nodes.get(&placement.node) else { continue };
        let slots = held_by((placement.node, spare.node), (id, attempt));
        if !slots.is_empty() {
            on.push((placement.node, slots, need(spare.node)));
        }
    }
    on
}
