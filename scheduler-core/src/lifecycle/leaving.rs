//! Who leaves, and when the last of them is gone at the latest.

use alloc::collections::BTreeSet;

use crate::decision::Start;
use crate::id::{AttemptId, NodeId, Slot};
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
    let holder = state.nodes.get(&node)?.gpus.get(usize::from(slot.get()))?.holder?;
    let attempt = state.attempts.get(&holder)?;
    (attempt.is_leaving() && attempt.placement_of(node, slot).is_some()).then_some(attempt)
}

/// Returns when a job that is placed now has all its GPUs at the latest, if whatever leaves for it, or leaves anyway,
/// uses its whole grace.
#[must_use]
pub fn latest_go(state: &State, start: &Start, now: Timestamp) -> Timestamp {
    let mut latest = now;
    for take in &start.takes {
        let has_go = state.attempts.get(&take.attempt).is_some_and(|attempt| attempt.go_at.is_some());
        if let Some(job) = state.jobs.get(&take.attempt.job).filter(|_| has_go) {
            latest = latest.max(now.plus(job.terms.grace));
        }
    }
    let shape = state.jobs.get(&start.job).map(|job| &job.terms.shape);
    for (node, slots) in &start.on {
        let leavers = slots.iter().filter_map(|slot| leaver(state, *node, *slot));
        latest = leavers.filter_map(Attempt::leaves_by).fold(latest, Timestamp::max);
        // Its cores and memory may be with others than its GPUs.
        if shape.is_some_and(|shape| !need::is_free_for(state, *node, shape)) {
            let here = state.nodes.get(node).map(need::holders).unwrap_or_default();
            let here = here.iter().filter_map(|id| state.attempts.get(id));
            latest = here.filter_map(Attempt::leaves_by).fold(latest, Timestamp::max);
        }
    }
    latest
}
