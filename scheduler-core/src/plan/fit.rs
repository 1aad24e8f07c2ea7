//! Whether a node takes work now, and what it has left.

use alloc::collections::{BTreeMap, BTreeSet};

use super::Links;
use crate::id::{Name, NodeId};
use crate::job::Job;
use crate::lifecycle::need::{Need, could_hold, need};
use crate::mutant::{self, Mutant};
use crate::node::{Contact, Node};
use crate::spec::Shape;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// Cores and memory of one node that nobody took. Below zero where attempts that leave have them for a last moment
/// besides those that come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Room {
    cpus: i64,
    memory: i128,
}

impl Room {
    /// Returns what `node` has and its attempts leave.
    pub(super) fn of(node: &Node, taken: Need) -> Self {
        let whole = node.facts.as_ref().map_or_else(Self::default, |facts| Self {
            cpus: facts.cpus.into(),
            memory: facts.memory.get().into(),
        });
        whole.less(taken)
    }

    /// Whether one node's part of `shape` fits in.
    pub(super) fn holds(self, shape: &Shape, node: &Node) -> bool {
        self.fits(need(shape, node))
    }

    /// Whether `asked` fits in.
    pub(super) fn fits(self, asked: Need) -> bool {
        i64::from(asked.cpus) <= self.cpus && i128::from(asked.memory.get()) <= self.memory
    }

    /// Whether there is more of anything than in another.
    pub(super) fn has_more_than(self, other: Self) -> bool {
        other.cpus < self.cpus || other.memory < self.memory
    }

    /// Returns what is left without `taken`.
    pub(super) fn less(self, taken: Need) -> Self {
        Self {
            cpus: self.cpus.saturating_sub(taken.cpus.into()),
            memory: self.memory.saturating_sub(taken.memory.get().into()),
        }
    }

    /// Returns what is there once `given` is back.
    pub(super) fn more(self, given: Need) -> Self {
        Self {
            cpus: self.cpus.saturating_add(given.cpus.into()),
            memory: self.memory.saturating_add(given.memory.get().into()),
        }
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
    /// Somebody keeps new work from it, or something there can't be ended.
    Cordoned {
        /// Since when.
        since: Timestamp,
    },
    /// It gets empty.
    Draining {
        /// Since when.
        since: Timestamp,
    },
    /// Launches failed on it.
    Backoff {
        /// When it is tried again.
        until: Timestamp,
    },
}

/// Returns why `node` takes no new work at `now`; none if it does. A drain to come does not shut it: see
/// [`closes_at`].
#[must_use]
pub fn shut(id: NodeId, node: &Node, links: &Links, now: Timestamp) -> Option<Shut> {
    if let Some(unheard) = unheard(id, node, links) {
        return Some(unheard);
    }
    if let Some(cordon) = &node.cordon {
        return Some(Shut::Cordoned { since: cordon.since });
    }
    if let Some(drain) = node.drain.as_ref().filter(|drain| drain.is_active || drain.begins_at <= now) {
        return Some(Shut::Draining { since: drain.begins_at });
    }
    node.backoff_until.filter(|until| now < *until).map(|until| Shut::Backoff { until })
}

/// Returns why nothing that is ordered reaches `node`; none if it does.
pub(super) fn unheard(id: NodeId, node: &Node, links: &Links) -> Option<Shut> {
    match node.contact {
        Contact::Joined => return Some(Shut::Joined),
        Contact::Unreachable { since } => return Some(Shut::Unreachable { since }),
        Contact::Ready => {}
    }
    if node.facts.is_none() {
        return Some(Shut::Joined);
    }
    (!links.has(id)).then_some(Shut::Silent)
}

/// Returns when a drain that has not begun closes `node`: until then it lets in what is over by then.
#[must_use]
pub fn closes_at(node: &Node) -> Option<Timestamp> {
    node.drain.as_ref().filter(|drain| !drain.is_active).map(|drain| drain.begins_at)
}

/// Whether work that has its GPUs at `latest_go` at the latest is certain to be past its protection when `node`
/// closes. `certain` is the time from then to the end of its protection at the latest; none in the free tier, which
/// may come and go.
pub(super) fn is_over_in_time(node: &Node, latest_go: Timestamp, certain: Option<Span>) -> bool {
    let certain = certain.filter(|_| !mutant::is(Mutant::WindowIgnored));
    match (closes_at(node), certain) {
        (Some(closes), Some(certain)) => latest_go.plus(certain) <= closes,
        (None, _) | (_, None) => true,
    }
}

/// Returns when the next node that is backed off takes work again, if one is.
#[must_use]
pub fn next_opening(state: &State, now: Timestamp) -> Option<Timestamp> {
    state.nodes.values().filter_map(|node| node.backoff_until).filter(|until| now < *until).min()
}

/// Returns the nodes that a job may not be tried on: those that it excludes, and where its launch failed before, as long as a cluster of its has others
/// that could hold it and that nobody wants empty. Else the backoff of those nodes is brake enough, or a cluster with one
/// node would never try again.
pub(crate) fn barred(state: &State, job: &Job) -> BTreeSet<NodeId> {
    let shape = &job.terms.shape;
    let exclude = &job.terms.exclude;
    if job.failed_on.is_empty() {
        return exclude.clone();
    }
    let is_other = |(id, node): &(&NodeId, &Node)| {
        let is_in_cluster = job.terms.cluster.as_ref().is_none_or(|cluster| *cluster == node.cluster);
        let is_open = node.contact == Contact::Ready && node.cordon.is_none() && !node.is_draining();
        is_in_cluster
            && is_open
            && !job.failed_on.contains(id)
            && !exclude.contains(id)
            && could_hold(shape, node)
    };
    let wanted = usize::try_from(shape.nodes).unwrap_or(usize::MAX).max(1);
    let mut others: BTreeMap<&Name, usize> = BTreeMap::new();
    for (_, node) in state.nodes.iter().filter(is_other) {
        *others.entry(&node.cluster).or_default() += 1;
    }
    if others.values().all(|count| *count < wanted) {
        return exclude.clone();
    }
    job.failed_on.union(exclude).copied().collect()
}
