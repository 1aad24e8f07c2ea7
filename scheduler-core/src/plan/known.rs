//! What nodes and attempts have, kept from one round to the next: a round looks at what changed since the last one.
//!
//! All of it follows from the state alone, not from clock or links, so that a plan is the same with it and without.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::fit::Room;
use super::idle::{held_by, with_holder};
use crate::id::{AttemptId, NodeId, Slot};
use crate::job::Attempt;
use crate::lifecycle::need::{Need, attempts_on, need};
use crate::lifecycle::reserve::{both, over_by};
use crate::node::Node;
use crate::state::State;
use crate::table::{Boxed, Table};
use crate::unit::Timestamp;

/// What the last round knew of nodes and attempts, for the next one. It may be of any state, also of another one.
#[derive(Debug, Clone, Default)]
pub struct Known {
    pub(super) nodes: BTreeMap<NodeId, There>,
    /// Of those that neither stop nor have ended: what they have, by node.
    pub(super) attempts: BTreeMap<AttemptId, Vec<Has>>,
    seen_nodes: Table<NodeId, Node, Boxed>,
    seen_attempts: Table<AttemptId, Attempt, Boxed>,
}

/// What is on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct There {
    /// Idle GPUs, in order.
    pub idle: Vec<Slot>,
    /// GPUs of attempts that have ended, as far as nobody was promised them.
    pub ended: Vec<Slot>,
    /// Those who were told to stop: whether they will depends on who hears it.
    pub stopping: Vec<AttemptId>,
    /// Cores and memory that are with nobody now.
    pub now: Room,
    /// And that are without all that leaves.
    pub later: Room,
    /// When the last of those who are protected here is so no more, at the latest.
    pub protected_until: Timestamp,
}

/// What an attempt has on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Has {
    pub node: NodeId,
    /// As far as they answer, and are promised to nobody else; its cores are there without any.
    pub slots: Vec<Slot>,
    /// What it gives back with them.
    pub gives: Need,
}

impl Known {
    /// Returns what follows from `state`.
    pub(crate) fn of(state: &State) -> Self {
        let mut known = Self::default();
        known.update(state);
        known
    }

    /// Brings it to `state`.
    pub(super) fn update(&mut self, state: &State) {
        let (nodes, attempts) = self.touched(state);
        for id in nodes {
            match state.nodes.get(&id) {
                Some(node) => self.nodes.insert(id, There::of(state, id, node)),
                None => self.nodes.remove(&id),
            };
        }
        for id in attempts {
            match state.attempts.get(&id).filter(|attempt| !attempt.is_leaving()) {
                Some(attempt) => self.attempts.insert(id, has(state, id, attempt)),
                None => self.attempts.remove(&id),
            };
        }
        // Last: whoever was interrupted begins again from what it knew.
        (self.seen_nodes, self.seen_attempts) = (state.nodes.clone(), state.attempts.clone());
    }

    /// Returns what may not be as it was: nodes and attempts that are others now or gone, and those that hold or are held
    /// by them.
    fn touched(&self, state: &State) -> (BTreeSet<NodeId>, BTreeSet<AttemptId>) {
        let (mut nodes, mut attempts) = (BTreeSet::new(), BTreeSet::new());
        let now = state.nodes.touched_since(&self.seen_nodes);
        for (id, node) in now.chain(self.seen_nodes.touched_since(&state.nodes)) {
            nodes.insert(*id);
            attempts.extend(attempts_on(node));
        }
        let now = state.attempts.touched_since(&self.seen_attempts);
        for (id, attempt) in now.chain(self.seen_attempts.touched_since(&state.attempts)) {
            attempts.insert(*id);
            nodes.extend(attempt.placements.iter().map(|placement| placement.node));
        }
        (nodes, attempts)
    }
}

impl There {
    fn of(state: &State, node_id: NodeId, node: &Node) -> Self {
        let (mut there, mut stays) = (Need::default(), Need::default());
        let (mut ended, mut stopping, mut protected_until) = (Vec::new(), Vec::new(), Timestamp::ZERO);
        for id in attempts_on(node) {
            let Some((attempt, job)) = state.attempts.get(&id).zip(state.jobs.get(&id.job)) else { continue };
            let need = need(&job.terms.shape, node);
            if !node.gpus.iter().any(|gpu| gpu.next == Some(id)) {
                there = both(there, need);
            }
            if attempt.ended.is_some() {
                ended.extend(held_by((node_id, node), (id, attempt)));
            } else if attempt.stop.is_some() {
                stopping.push(id);
            } else {
                stays = both(stays, need);
                protected_until = protected_until.max(over_by(attempt));
            }
        }
        ended.sort_unstable();
        let (now, later) = (Room::of(node, there), Room::of(node, stays));
        Self { idle: with_holder(node, None), ended, stopping, now, later, protected_until }
    }
}

fn has(state: &State, id: AttemptId, attempt: &Attempt) -> Vec<Has> {
    let Some(job) = state.jobs.get(&id.job) else { return Vec::new() };
    let here = attempt.placements.iter().filter_map(|placement| {
        let node = state.nodes.get(&placement.node)?;
        let slots = held_by((placement.node, node), (id, attempt));
        Some(Has { node: placement.node, slots, gives: need(&job.terms.shape, node) })
    });
    here.collect()
}
