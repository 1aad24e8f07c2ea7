//! A pool as all who wait there see it alike: what each GPU is with, found out once for however many look.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::right::{Leaf, Uses};
use crate::id::{AttemptId, BudgetId, Name, NodeId};
use crate::job::Attempt;
use crate::lifecycle::lane::{Lane, Part};
use crate::lifecycle::reserve::{self, Reserved};
use crate::node::{Gpu, Node};
use crate::plan::{Links, is_heard};
use crate::queue::{is_with_stray, promised_until};
use crate::spec::{Tier, Turn};
use crate::state::State;
use crate::unit::Timestamp;

/// One pool at one moment.
#[derive(Debug)]
pub(crate) struct Board<'a> {
    pub(super) state: &'a State,
    pub(super) links: &'a Links,
    pub(super) now: Timestamp,
    pub(super) uses: Uses<'a>,
    pub(super) lane: Option<Lane>,
    pub(super) reserved: BTreeMap<NodeId, Reserved>,
    /// Its nodes, and what their GPUs are with, in order.
    pub(super) nodes: Vec<(NodeId, &'a Node, Vec<With>)>,
    /// The attempts that nobody protects, in no order.
    pub(super) past: Vec<Past>,
    /// Whose those are that are funded.
    pub(super) leaves: Vec<Leaf>,
}

/// What one GPU is with.
#[derive(Debug, Clone, Copy)]
pub(super) enum With {
    Nobody,
    /// Promised, or with an attempt that has not started; until when it is protected at the latest.
    Promised(Option<Timestamp>),
    /// With a process that nobody placed.
    Stray,
    /// With an attempt that leaves.
    Leaving,
    Protected(Timestamp),
    /// With an attempt that nobody protects, by its number.
    Past(usize),
}

/// An attempt that nobody protects.
#[derive(Debug)]
pub(super) struct Past {
    pub id: AttemptId,
    /// Whose it is, by number; none in the free tier.
    pub leaf: Option<usize>,
    /// Whether it is one of those that the short lane is for.
    pub is_lane: bool,
    /// Whether all its nodes would hear that it is to leave.
    pub is_heard: bool,
}

impl<'a> Board<'a> {
    /// Looks at every GPU of a pool.
    pub(crate) fn of(state: &'a State, pool: &'a Name, links: &'a Links, now: Timestamp) -> Self {
        let mut board = Self {
            state,
            links,
            now,
            uses: Uses::new(state, pool, now),
            lane: Lane::of(state, pool, now),
            reserved: if state.dates.is_empty() { BTreeMap::new() } else { reserve::in_pool(state, pool) },
            nodes: Vec::new(),
            past: Vec::new(),
            leaves: Vec::new(),
        };
        let mut numbers = Numbers::default();
        for (id, node) in state.nodes.iter().filter(|(_, node)| node.pool == *pool) {
            let with = node.gpus.iter().map(|gpu| board.with(&mut numbers, node, gpu)).collect();
            board.nodes.push((*id, node, with));
        }
        board
    }

    /// Returns the uses of the pool's budgets.
    pub(crate) fn uses(&self) -> &Uses<'a> {
        &self.uses
    }

    fn with(&mut self, numbers: &mut Numbers, node: &Node, gpu: &Gpu) -> With {
        if let Some(until) = promised_until(self.state, gpu) {
            return With::Promised(until);
        }
        let Some(holder) = gpu.holder else { return With::Nobody };
        let attempt = self.state.attempts.get(&holder);
        let Some(attempt) = attempt.filter(|_| !is_with_stray(self.state, node, gpu)) else {
            return With::Stray;
        };
        if attempt.ended.is_some() || attempt.stop.is_some() {
            return With::Leaving;
        }
        if attempt.tier == Tier::Funded && attempt.is_protected(self.now) {
            let latest = attempt.start_by.plus(attempt.protection);
            return match attempt.started_at {
                Some(_) => With::Protected(attempt.protected_until().unwrap_or(latest)),
                None => With::Promised(Some(latest)),
            };
        }
        let number = numbers.attempts.get(&holder).copied();
        With::Past(number.unwrap_or_else(|| self.past(numbers, holder, attempt)))
    }

    fn past(&mut self, numbers: &mut Numbers, id: AttemptId, attempt: &Attempt) -> usize {
        let job = self.state.jobs.get(&id.job);
        let turn = job.map_or(Turn::Normal, |job| job.terms.turn);
        let leaf = (attempt.tier == Tier::Funded).then(|| {
            *numbers.leaves.entry((attempt.budget, turn)).or_insert_with(|| {
                self.leaves.push(self.uses.leaf(attempt.budget, turn));
                self.leaves.len() - 1
            })
        });
        let is_lane = job.is_some_and(|job| Part::of(&job.terms) == Part::Lane);
        let is_heard = is_heard(self.state, self.links, attempt);
        self.past.push(Past { id, leaf, is_lane, is_heard });
        numbers.attempts.insert(id, self.past.len() - 1);
        self.past.len() - 1
    }
}

/// The numbers that were given.
#[derive(Default)]
struct Numbers {
    attempts: BTreeMap<AttemptId, usize>,
    leaves: BTreeMap<(BudgetId, Turn), usize>,
}
