//! Who leaves, and when the last of them is gone at the latest.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::decision::{Start, Take};
use crate::id::{AttemptId, JobId, NodeId, Slot};
use crate::job::Attempt;
use crate::lifecycle::need;
use crate::state::State;
use crate::unit::Timestamp;

/// Returns the attempts that give way to a decision.
#[must_use]
pub fn taken(start: &Start) -> BTreeSet<AttemptId> {
    start.takes.iter().map(|take| take.attempt).collect()
}

/// Returns the attempt that a GPU is with, if that one leaves: its stop is committed, or it has ended.
#[must_use]
pub fn leaver(state: &State, node: NodeId, slot: Slot) -> Option<&Attempt> {
    let attempt = state.attempts.get(&holder(state, node, slot)?)?;
    attempt.is_leaving().then_some(attempt)
}

/// Returns the attempt that a GPU is with; none if that is a stray of its number.
fn holder(state: &State, node: NodeId, slot: Slot) -> Option<AttemptId> {
    let holder = state.nodes.get(&node)?.gpus.get(usize::from(slot.get()))?.holder?;
    state.attempts.get(&holder)?.placement_of(node, slot).map(|_| holder)
}

/// Returns when a job that is placed now has all its GPUs at the latest, if whatever leaves for it, or leaves anyway,
/// uses its whole grace.
#[must_use]
pub fn latest_go(state: &State, start: &Start, now: Timestamp) -> Timestamp {
    latest_go_of(state, (start.job, &start.on, &start.takes), |_| false, now)
}

/// Nodes, each with the GPUs there.
pub type On = [(NodeId, Vec<Slot>)];

/// The same of a job on those GPUs, for which those leave, if others are certain to leave that state knows nothing of.
#[must_use]
pub fn latest_go_of(
    state: &State,
    (job, on, takes): (JobId, &On, &[Take]),
    also: impl Fn(&AttemptId) -> bool,
    now: Timestamp,
) -> Timestamp {
    let mut latest = now;
    let grace = |id: &AttemptId| state.jobs.get(&id.job).map(|job| now.plus(job.terms.grace));
    for take in takes {
        let has_go = state.attempts.get(&take.attempt).is_some_and(|attempt| attempt.go_at.is_some());
        latest = grace(&take.attempt).filter(|_| has_go).map_or(latest, |at| latest.max(at));
    }
    let leaves_by = |id: &AttemptId| match state.attempts.get(id)?.leaves_by() {
        None if also(id) => grace(id),
        known => known,
    };
    let shape = state.jobs.get(&job).map(|job| &job.terms.shape);
    for (node, slots) in on {
        let holders = slots.iter().filter_map(|slot| holder(state, *node, *slot));
        latest = holders.filter_map(|id| leaves_by(&id)).fold(latest, Timestamp::max);
        // Its cores and memory may be with others than its GPUs.
        if shape.is_some_and(|shape| !need::is_free_for(state, *node, shape)) {
            let here = state.nodes.get(node).map(need::holders).unwrap_or_default();
            latest = here.iter().filter_map(leaves_by).fold(latest, Timestamp::max);
        }
    }
    latest
}
