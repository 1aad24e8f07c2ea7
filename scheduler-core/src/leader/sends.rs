//! Which nodes' assignments changed since they were last sent.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::id::{AttemptId, NodeId, Rank};
use crate::job::Attempt;
use crate::lifecycle::need;
use crate::state::{State, Stray};
use crate::table::{Boxed, Table, digest_of};

/// What was sent, by node, as one number; and the tables that it was made from, to look only at what changed since.
#[derive(Debug, Default)]
pub(super) struct Sends {
    sent: BTreeMap<NodeId, u64>,
    attempts: Table<AttemptId, Attempt, Boxed>,
    strays: Table<(NodeId, AttemptId, Rank), Stray>,
}

impl Sends {
    pub(super) fn new(state: &State) -> Self {
        Self { sent: BTreeMap::new(), attempts: state.attempts.clone(), strays: state.strays.clone() }
    }

    /// Returns the nodes whose set may be another one than before, among few that are not.
    pub(super) fn touched(&mut self, state: &State) -> BTreeSet<NodeId> {
        let mut nodes = BTreeSet::new();
        let both = [(&state.attempts, &self.attempts), (&self.attempts, &state.attempts)];
        for (_, attempt) in both.into_iter().flat_map(|(of, since)| of.touched_since(since)) {
            nodes.extend(attempt.placements.iter().map(|placement| placement.node));
        }
        let both = [(&state.strays, &self.strays), (&self.strays, &state.strays)];
        for (key, _) in both.into_iter().flat_map(|(of, since)| of.touched_since(since)) {
            nodes.insert(key.0);
        }
        self.attempts = state.attempts.clone();
        self.strays = state.strays.clone();
        nodes
    }

    /// Returns whether `node` has to be sent its set, and takes it as sent.
    pub(super) fn is_due(&mut self, state: &State, node: NodeId) -> bool {
        let now = digest_of_node(state, node);
        self.sent.insert(node, now) != Some(now)
    }

    /// Whatever was sent to `node` may be lost: the next set is sent even if it is the same.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.sent.remove(&node);
    }
}

/// Returns a number that changes with the set of a node: the attempts that have GPUs there or are promised some, each
/// with its generation, go, stop and end.
fn digest_of_node(state: &State, id: NodeId) -> u64 {
    let here = state.nodes.get(&id).map(need::attempts_on).unwrap_or_default();
    let mut digest: u64 = 0;
    for holder in here {
        let Some(attempt) = state.attempts.get(&holder) else { continue };
        for placement in attempt.placements.iter().filter(|placement| placement.node == id) {
            let order = (attempt.go_at.is_some(), &attempt.stop, attempt.ended.is_some());
            let rank = (placement.rank, placement.generation, placement.freed_at.is_some());
            let item = digest_of(&(holder, rank, order));
            digest = digest.rotate_left(1).wrapping_add(item);
        }
    }
    let first = AttemptId { job: Default::default(), no: Default::default() };
    let strays = state.strays.range((id, first, Rank::new(0))..);
    for (key, stray) in strays.take_while(|(key, _)| key.0 == id) {
        digest = digest.rotate_left(1).wrapping_add(digest_of(&(key, stray)));
    }
    digest
}
