//! Whether a node takes work now, and what it has left.

use alloc::collections::BTreeSet;

use super::Links;
use crate::id::NodeId;
use crate::job::Job;
use crate::lifecycle::need::{Need, could_hold, need};
use crate::node::{Contact, Node};
use crate::spec::Shape;
use crate::state::State;
use crate::unit::{Bytes, Timestamp};

/// Cores and memory of one node that nobody took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Room(Need);

impl Room {
    /// Returns what `node` has and its attempts leave.
    pub(crate) fn of(node: &Node, taken: Need) -> Self {
        let whole = node
            .facts
            .as_ref()
            .map_or_else(Need::default, |facts| Need { cpus: facts.cpus, memory: facts.memory });
        Self(whole).less(taken)
    }

    /// Whether one node's part of `shape` fits in.
    pub(crate) fn holds(self, shape: &Shape, node: &Node) -> bool {
        let asked = need(shape, node);
        asked.cpus <= self.0.cpus && asked.memory <= self.0.memory
    }

    /// Returns what is left without `taken`; nothing, where more is taken than is there.
    pub(crate) fn less(self, taken: Need) -> Self {
        Self(Need {
            cpus: self.0.cpus.saturating_sub(taken.cpus),
            memory: Bytes::new(self.0.memory.get().saturating_sub(taken.memory.get())),
        })
    }
}

/// Why a node takes no new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shut {
    /// It joined and has not said what it is yet.
    Joined,
    /// The control plane has not heard of it for long.
    Unreachable {
        /// Since when.
        since: Timestamp,
    },
    /// It has no live link to the leader.
    Silent,
    /// Launches failed on it.
    Backoff {
        /// When it is tried again.
        until: Timestamp,
    },
}

/// Returns why `node` takes no new work at `now`; none if it does.
#[must_use]
pub fn shut(id: NodeId, node: &Node, links: &Links, now: Timestamp) -> Option<Shut> {
    match node.contact {
        Contact::Joined => return Some(Shut::Joined),
        Contact::Unreachable { since } => return Some(Shut::Unreachable { since }),
        Contact::Ready => {}
    }
    if node.facts.is_none() {
        return Some(Shut::Joined);
    }
    if !links.has(id) {
        return Some(Shut::Silent);
    }
    node.backoff_until.filter(|until| now < *until).map(|until| Shut::Backoff { until })
}

/// Returns when the next node that is backed off takes work again, if one is.
#[must_use]
pub fn next_opening(state: &State, now: Timestamp) -> Option<Timestamp> {
    state.nodes.values().filter_map(|node| node.backoff_until).filter(|until| now < *until).min()
}

/// Returns the nodes that a job may not be tried on: where its launch failed before, as long as another ready node
/// could hold it. Else the backoff of those nodes is brake enough, or a cluster with one node would never try again.
pub(crate) fn barred(state: &State, job: &Job) -> BTreeSet<NodeId> {
    let shape = &job.terms.shape;
    let is_other = |(id, node): (&NodeId, &Node)| {
        node.contact == Contact::Ready && !job.failed_on.contains(id) && could_hold(shape, node)
    };
    if job.failed_on.is_empty() || !state.nodes.iter().any(is_other) {
        return BTreeSet::new();
    }
    job.failed_on.clone()
}
