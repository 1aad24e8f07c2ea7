//! What jobs say of their progress: checkpoints, and signs that they work. It prices preemptions and is never an order.

use crate::id::AttemptId;
use crate::job::{Attempt, AttemptEnd, Ended, PastAttempt, StopCause};
use crate::lifecycle::{billing, phase};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// Takes a durable checkpoint of a started attempt, if it is newer than the known one. One of the future is no
/// checkpoint; one from before the start counts as of the start. The first is a sign of progress too.
pub fn saved(state: &mut State, id: AttemptId, at: Timestamp, now: Timestamp) {
    let Some((attempt, started)) = running(state, id) else { return };
    let before = attempt.saved_at;
    let at = at.max(started);
    if at > now || before.is_some_and(|before| at <= before) {
        return;
    }
    if let Some(attempt) = state.attempts.get_mut(&id) {
        attempt.saved_at = Some(at);
    }
    if let Some(job) = state.jobs.get_mut(&id.job) {
        let progress = &mut job.progress;
        if let Some(before) = before {
            progress.note_interval(at.since(before));
        }
        // A report of an earlier attempt may come after the next one's first.
        progress.saved = progress.saved.max(Some((id.no, at)));
        progress.barren = 0;
    }
    signed(state, id, at, now);
}

/// Takes the first sign of progress of a started attempt. From the second run on that measures a restart: the first one
/// resumes nothing, and its time to the first checkpoint says nothing of what starting again costs.
pub fn signed(state: &mut State, id: AttemptId, at: Timestamp, now: Timestamp) {
    let Some((attempt, started)) = running(state, id) else { return };
    let at = at.max(started);
    if at > now || attempt.signed_at.is_some() {
        return;
    }
    if let Some(attempt) = state.attempts.get_mut(&id) {
        attempt.signed_at = Some(at);
    }
    let restart = at.since(started);
    if !resumes(state, id) {
        return;
    }
    if let Some(job) = state.jobs.get_mut(&id.job) {
        job.progress.note_restart(restart);
    }
    billing::restarted(state, id, restart);
}

/// Counts a preemption that cost the job something. A free-tier job's counts also before its go: it is tried less often
/// from then on.
pub fn note_preemption(state: &mut State, id: AttemptId, attempt: &Attempt, ended: &Ended) {
    let is_taken = match attempt.stop.as_ref().map(|stop| &stop.cause) {
        Some(StopCause::Preempt(_)) => attempt.go_at.is_some() || attempt.tier == Tier::Free,
        Some(StopCause::Drain { .. }) => attempt.go_at.is_some(),
        _ => false,
    };
    if !is_taken || ended.cause != AttemptEnd::Preempted {
        return;
    }
    if let Some(job) = state.jobs.get_mut(&id.job) {
        let progress = &mut job.progress;
        progress.preemptions = progress.preemptions.saturating_add(1);
        progress.barren = if attempt.saved_at.is_some() { 0 } else { progress.barren.saturating_add(1) };
    }
}

/// Whether an earlier attempt of the job has run.
fn resumes(state: &State, id: AttemptId) -> bool {
    let ran_before = |past: &PastAttempt| past.no < id.no && past.started_at.is_some();
    let mut earlier = phase::attempts_of(state, id.job).filter(|other| other.no < id.no);
    state.jobs.get(&id.job).is_some_and(|job| job.past.iter().any(ran_before))
        || earlier.any(|id| state.attempts.get(id).is_some_and(|attempt| attempt.started_at.is_some()))
}

fn running(state: &State, id: AttemptId) -> Option<(&Attempt, Timestamp)> {
    let attempt = state.attempts.get(&id).filter(|attempt| attempt.ended.is_none())?;
    Some((attempt, attempt.started_at?))
}
