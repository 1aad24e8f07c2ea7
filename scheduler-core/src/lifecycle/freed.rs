//! The GPUs of a rank are proven empty; with the last rank the attempt leaves its table for the job's past.

use crate::id::{AttemptId, Rank};
use crate::job::{Attempt, PastAttempt};
use crate::ledger::Class;
use crate::lifecycle::{book, gpu, phase};
use crate::state::State;
use crate::unit::Timestamp;

/// A job shows so many of its past attempts.
pub const PAST_MAX: usize = 100;

/// Takes the proof that a rank's GPUs are empty, after the attempt's end; nothing twice.
pub fn freed(state: &mut State, id: AttemptId, rank: Rank, at: Timestamp, now: Timestamp) {
    let Some(attempt) = state.attempts.get_mut(&id) else { return };
    let Some(ended_at) = attempt.ended.as_ref().map(|ended| ended.at) else { return };
    let Some(placement) = attempt.placements.iter_mut().find(|placement| placement.rank == rank) else {
        return;
    };
    if placement.freed_at.is_some() {
        return;
    }
    let at = at.max(ended_at).min(now);
    placement.freed_at = Some(at);
    let (pool, placement) = (attempt.pool.clone(), placement.clone());
    gpu::release(state, placement.node, &placement.slots, id);
    book::free_from(state, &pool, (placement.node, &placement.slots), Class::Overhead, at);
    leave_if_over(state, id, now);
}

fn leave_if_over(state: &mut State, id: AttemptId, now: Timestamp) {
    let is_over = |attempt: &Attempt| attempt.placements.iter().all(|placement| placement.freed_at.is_some());
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
    let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
    Some(PastAttempt {
        no: id.no,
        nodes: attempt.placements.iter().map(|placement| placement.node).collect(),
        gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
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
