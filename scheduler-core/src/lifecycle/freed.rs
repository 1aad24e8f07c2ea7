//! The GPUs of a rank are proven empty; with the last rank the attempt leaves its table for the job's past.

use alloc::vec::Vec;

use crate::id::{AttemptId, Rank};
use crate::job::{Attempt, PastAttempt};
use crate::lifecycle::{book, go, gpu, phase};
use crate::state::State;
use crate::unit::Timestamp;

/// A job shows so many of its past attempts.
pub const PAST_MAX: usize = 100;

/// Takes the proof that a rank's GPUs are empty; nothing twice. As long as other ranks of the attempt run that is only
/// remembered: a gang has its GPUs whole, until it has ended.
pub fn freed(state: &mut State, id: AttemptId, rank: Rank, at: Timestamp, now: Timestamp) {
    let Some(attempt) = state.attempts.get_mut(&id) else { return };
    let Some(placement) = attempt.placements.iter_mut().find(|placement| placement.rank == rank) else {
        return;
    };
    if placement.freed_at.is_some() {
        return;
    }
    match (&attempt.ended, placement.exited) {
        (None, None) => {}
        (None, Some((exited_at, _))) => placement.freed_at = Some(at.max(exited_at).min(now)),
        (Some(_), _) => {
            empty(state, id, rank, at, now);
            leave_if_over(state, id, now);
        }
    }
}

/// An attempt has ended: the GPUs of those ranks that were gone before are empty.
pub fn freed_before(state: &mut State, id: AttemptId, now: Timestamp) {
    let placements = state.attempts.get(&id).map(|attempt| attempt.placements.as_slice());
    let freed = placements.unwrap_or_default().iter().filter_map(|p| Some((p.rank, p.freed_at?)));
    let freed: Vec<_> = freed.collect();
    for (rank, at) in freed {
        empty(state, id, rank, at, now);
    }
}

fn empty(state: &mut State, id: AttemptId, rank: Rank, at: Timestamp, now: Timestamp) {
    let Some(attempt) = state.attempts.get_mut(&id) else { return };
    let Some(ended_at) = attempt.ended.as_ref().map(|ended| ended.at) else { return };
    let at = at.max(ended_at).min(now);
    let pool = attempt.pool.clone();
    let Some(placement) = attempt.placements.iter_mut().find(|placement| placement.rank == rank) else {
        return;
    };
    placement.freed_at = Some(at);
    let (node, slots) = (placement.node, placement.slots.clone());
    for (slot, next) in gpu::release(state, node, &slots, id) {
        book::emptied(state, &pool, (node, slot), next, at);
    }
    go::go_on(state, node, now);
}

/// Moves an attempt that has no GPU any more to its job's past.
pub fn leave_if_over(state: &mut State, id: AttemptId, now: Timestamp) {
    let is_over = |attempt: &Attempt| {
        attempt.ended.is_some() && attempt.placements.iter().all(|placement| placement.freed_at.is_some())
    };
    if !state.attempts.get(&id).is_some_and(is_over) {
        return;
    }
    let Some(past) = state.attempts.remove(&id).and_then(|attempt| past(id, attempt)) else { return };
    let mut forgotten = None;
    if let Some(job) = state.jobs.get_mut(&id.job) {
        // An earlier attempt may be proven empty after a later one.
        let place = job.past.partition_point(|other| other.no < past.no);
        job.past.insert(place, past);
        if job.past.len() > PAST_MAX {
            forgotten = Some(job.past.remove(0).decision);
        }
    }
    if let Some(decision) = forgotten {
        state.decisions.remove(&decision);
    }
    phase::retire_if_over(state, id.job, now);
}

fn past(id: AttemptId, attempt: Attempt) -> Option<PastAttempt> {
    let ended = attempt.ended.clone()?;
    Some(PastAttempt {
        no: id.no,
        nodes: attempt.placements.iter().map(|placement| placement.node).collect(),
        gpus: book::gpu_count(&attempt),
        decision: attempt.decision,
        placed_at: attempt.placed_at,
        go_at: attempt.go_at,
        started_at: attempt.started_at,
        saved_at: attempt.saved_at,
        stop: attempt.stop.clone(),
        charged: book::charge(&attempt, &ended),
        ended,
    })
}
