//! A rank has a process.

use alloc::vec::Vec;

use crate::id::{AttemptId, NodeId, Rank};
use crate::lifecycle::{billing, book, drain};
use crate::state::{State, Timer};
use crate::unit::Timestamp;

/// Takes the start of one rank; the attempt has started with its last one. Nothing after the attempt's end, and
/// nothing twice.
pub fn started(state: &mut State, id: AttemptId, rank: Rank, at: Timestamp, now: Timestamp) {
    let Some(attempt) = state.attempts.get_mut(&id) else { return };
    let (Some(go), None) = (attempt.go_at, &attempt.ended) else { return };
    let Some(placement) = attempt.placements.iter_mut().find(|placement| placement.rank == rank) else {
        return;
    };
    if placement.started_at.is_some() || placement.exited.is_some() {
        return;
    }
    placement.started_at = Some(at.max(go).min(now));
    let nodes: Vec<_> = attempt.placements.iter().map(|placement| placement.node).collect();
    let Some(last) = attempt.placements.iter().map(|p| p.started_at).collect::<Option<Vec<_>>>() else {
        return;
    };
    let all_at = last.into_iter().max().unwrap_or(now);
    let before = attempt.clone();
    attempt.started_at = Some(all_at);
    if let Some(until) =
        attempt.protected_until().filter(|until| *until > now && !attempt.protection.is_zero())
    {
        state.timers.insert((until, Timer::ProtectionOver(id)), ());
    }
    book::started(state, &before, all_at, now);
    billing::started(state, id, &before);
    if let Some(job) = state.jobs.get_mut(&id.job) {
        job.failed_on.clear();
    }
    for node in nodes {
        launches_work(state, node);
    }
    // Its start may be reported so late that its protection is over.
    drain::leave_if_due(state, id, now);
}

/// A launch on the node succeeded: it is trusted again.
fn launches_work(state: &mut State, id: NodeId) {
    let failed = state.nodes.get(&id).is_some_and(|node| node.failed_launches > 0);
    if !failed {
        return;
    }
    if let Some(node) = state.nodes.get_mut(&id) {
        node.failed_launches = 0;
        if let Some(until) = node.backoff_until.take() {
            state.timers.remove(&(until, Timer::BackoffOver(id)));
        }
    }
}
