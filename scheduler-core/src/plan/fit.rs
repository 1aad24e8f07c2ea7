//! Whether a node can hold a shape at all, and whether it takes work now.

use alloc::collections::BTreeSet;

use super::Links;
use crate::id::NodeId;
use crate::job::Job;
use crate::node::{Contact, Gpu, Node};
use crate::spec::Shape;
use crate::state::State;
use crate::unit::{MilliGpus, Timestamp};

/// Cores and memory on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Part {
    /// Cores.
    pub cpus: u64,
    /// Bytes.
    pub memory: u64,
}

impl Part {
    /// Returns all that `node` has.
    pub(crate) fn whole(node: &Node) -> Self {
        node.facts.as_ref().map_or_else(Self::default, |facts| Self {
            cpus: u64::from(facts.cpus),
            memory: facts.memory.get(),
        })
    }

    /// Returns what a job of `shape` takes on `node`: what it asks for, or the part of the node that its GPUs are.
    pub(crate) fn of(shape: &Shape, node: &Node) -> Self {
        let whole = Self::whole(node);
        let gpus = u64::from(shape.gpus_per_node.get());
        let installed = u64::try_from(node.gpus.len()).unwrap_or(u64::MAX).max(1);
        Self {
            cpus: shape.cpus.map_or(share_of(whole.cpus, gpus, installed), u64::from),
            memory: shape.memory.map_or(share_of(whole.memory, gpus, installed), |asked| asked.get()),
        }
    }

    /// Whether `other` fits in this.
    pub(crate) fn holds(self, other: Self) -> bool {
        other.cpus <= self.cpus && other.memory <= self.memory
    }

    /// Returns what is left without `other`; nothing, where more is taken than is there.
    pub(crate) fn less(self, other: Self) -> Self {
        Self { cpus: self.cpus.saturating_sub(other.cpus), memory: self.memory.saturating_sub(other.memory) }
    }
}

/// Returns `gpus` parts of `installed` of `whole`, rounded down, so that all parts together never are more than it.
fn share_of(whole: u64, gpus: u64, installed: u64) -> u64 {
    let part = u128::from(whole) * u128::from(gpus.min(installed)) / u128::from(installed);
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Whether a GPU is of the type that a shape asks for: its name, or a part of it, whatever the case.
pub(crate) fn matches_type(gpu: &Gpu, shape: &Shape) -> bool {
    let Some(wanted) = &shape.gpu_type else { return true };
    let (model, wanted) = (gpu.model.as_str().as_bytes(), wanted.as_str().as_bytes());
    model.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted))
}

/// Whether `node` could hold one rank of `shape` if it were empty and in service, missing GPUs included.
#[must_use]
pub fn could_hold(node: &Node, shape: &Shape) -> bool {
    let matching = node.gpus.iter().filter(|gpu| matches_type(gpu, shape)).count();
    let wanted = usize::try_from(shape.gpus_per_node.get()).unwrap_or(usize::MAX);
    matching >= wanted && Part::whole(node).holds(Part::of(shape, node))
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
        node.contact == Contact::Ready && !job.failed_on.contains(id) && could_hold(node, shape)
    };
    if job.failed_on.is_empty() || !state.nodes.iter().any(is_other) {
        return BTreeSet::new();
    }
    job.failed_on.clone()
}

/// Returns what a job of `shape` is charged on `node`: its GPUs, or the dominant share of the node if its cores or its
/// memory are more, rounded up.
pub(crate) fn rate(shape: &Shape, node: &Node) -> MilliGpus {
    let (whole, part) = (Part::whole(node), Part::of(shape, node));
    let installed = u128::try_from(node.gpus.len()).unwrap_or(u128::MAX) * 1000;
    let share = |part: u64, whole: u64| match whole {
        0 => 0,
        _ => (u128::from(part) * installed).div_ceil(u128::from(whole)),
    };
    let gpus = u128::from(shape.gpus_per_node.get()) * 1000;
    let dominant = gpus.max(share(part.cpus, whole.cpus)).max(share(part.memory, whole.memory));
    MilliGpus::new(u64::try_from(dominant).unwrap_or(u64::MAX))
}
