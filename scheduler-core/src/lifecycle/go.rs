//! An attempt goes: all its GPUs are proven empty and with it, and every rank is ready.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::id::{AttemptId, NodeId, Rank};
use crate::job::{Attempt, Placement};
use crate::lifecycle::ending::next_generation;
use crate::lifecycle::{book, gpu, need};
use crate::state::{State, Timer};
use crate::unit::Timestamp;

/// Lets an attempt go if nothing is missing any more, and says so. With one rank its agent's readiness is not waited
/// for: it starts as soon as it can. Charge runs from here.
pub fn go_at_once(state: &mut State, id: AttemptId, now: Timestamp) -> bool {
    let Some(attempt) = state.attempts.get(&id) else { return false };
    let is_open = attempt.go_at.is_none() && attempt.ended.is_none();
    if !is_open || attempt.placements.iter().any(|placement| is_missing(state, id, attempt, placement)) {
        return false;
    }
    let before = attempt.clone();
    state.timers.remove(&(before.start_by, Timer::StartBy(id)));
    book::went(state, &before, now);
    if let Some(attempt) = state.attempts.get_mut(&id) {
        attempt.go_at = Some(now);
    }
    true
}

/// Lets an attempt go that was placed before, if nothing is missing any more: what its agents were told has changed.
pub fn go_if_ready(state: &mut State, id: AttemptId, now: Timestamp) {
    if !go_at_once(state, id, now) {
        return;
    }
    if let Some(attempt) = state.attempts.get_mut(&id) {
        for placement in &mut attempt.placements {
            placement.generation = next_generation(placement.generation);
        }
    }
}

/// Takes a rank's word that its node has everything ready; only with several ranks, and once.
pub fn ready(state: &mut State, id: AttemptId, rank: Rank, at: Timestamp, now: Timestamp) {
    let Some(attempt) = state.attempts.get_mut(&id) else { return };
    if attempt.go_at.is_some() || attempt.ended.is_some() || attempt.placements.len() < 2 {
        return;
    }
    let placed_at = attempt.placed_at;
    if let Some(placement) = attempt.placements.iter_mut().find(|placement| placement.rank == rank) {
        placement.ready_at.get_or_insert(at.max(placed_at).min(now));
    }
    go_if_ready(state, id, now);
}

/// Something on `node` is proven empty: whoever waited for it may go now.
pub fn go_on(state: &mut State, node: NodeId, now: Timestamp) {
    let Some(record) = state.nodes.get(&node) else { return };
    let waits = |id: &AttemptId| state.attempts.get(id).is_some_and(|attempt| attempt.go_at.is_none());
    let waiting: Vec<AttemptId> = need::attempts_on(record).into_iter().filter(waits).collect();
    for id in waiting {
        go_if_ready(state, id, now);
    }
}

/// Returns the nodes that an attempt without go still waits for.
#[must_use]
pub fn missing(state: &State, id: AttemptId) -> BTreeSet<NodeId> {
    let Some(attempt) = state.attempts.get(&id) else { return BTreeSet::new() };
    let missing = attempt.placements.iter().filter(|placement| is_missing(state, id, attempt, placement));
    missing.map(|placement| placement.node).collect()
}

fn is_missing(state: &State, id: AttemptId, attempt: &Attempt, placement: &Placement) -> bool {
    let is_ready = attempt.placements.len() == 1 || placement.ready_at.is_some();
    let has_room = || {
        let job = state.jobs.get(&id.job);
        job.is_some_and(|job| need::is_free_for(state, placement.node, &job.terms.shape))
    };
    !is_ready || !gpu::are_with(state, placement.node, &placement.slots, id) || !has_room()
}
