//! The only place where a job changes its phase, so that the indexes that follow from it cannot be forgotten.

use crate::id::{AttemptId, AttemptNo, JobId};
use crate::job::{End, Exit, HeldBy, Job, Phase};
use crate::lifecycle::{array, before, dates, want};
use crate::state::{InLine, Kind, State, Timer};
use crate::unit::Timestamp;

/// Takes a new job into state, in the phase it has.
pub fn admit(state: &mut State, id: JobId, job: Job) {
    if job.phase.is_waiting() {
        state.line.insert(place_of(id, &job), Kind::of(&job));
    }
    if let Some(until) = released_at(&job.phase) {
        state.timers.insert((until, Timer::Release(id)), ());
    }
    before::enter(state, id, &job.before);
    if job.array.is_none() {
        state.meta.live_jobs = state.meta.live_jobs.saturating_add(1);
    }
    state.jobs.insert(id, job);
    want::update(state, id);
}

/// Puts a job in line again.
pub fn wait(state: &mut State, id: JobId, now: Timestamp) {
    enter(state, id, Phase::Waiting { since: now });
}

/// Holds a job: nobody considers it until it is released.
pub fn hold(state: &mut State, id: JobId, by: HeldBy, now: Timestamp) {
    enter(state, id, Phase::Held { since: now, by });
}

/// Puts a job in line again that is held for a time, if that is over.
pub fn release_if_due(state: &mut State, id: JobId, now: Timestamp) {
    let job = state.jobs.get(&id).or_else(|| state.arrays.get(&id).map(|array| &array.job));
    let until = job.and_then(|job| released_at(&job.phase));
    if until.is_some_and(|until| until <= now) {
        before::release(state, id, now);
    }
}

/// Gives a job its attempt.
pub fn go_live(state: &mut State, id: JobId, no: AttemptNo) {
    enter(state, id, Phase::Live(no));
}

/// Ends a job for good, at `at`; `now` is the entry's time.
pub fn end(state: &mut State, id: JobId, how: (End, Option<Exit>), at: Timestamp, now: Timestamp) {
    let (end, exit) = how;
    enter(state, id, Phase::Ended { at, end, exit });
    before::leave(state, id);
    before::ended(state, id, end, now);
    array::task_ended(state, id, end, now);
    retire_if_over(state, id, now);
}

/// Starts the time for which a job is only kept to be looked at, if it has ended and holds no GPU any more.
pub fn retire_if_over(state: &mut State, id: JobId, now: Timestamp) {
    let is_over = state.jobs.get(&id).is_some_and(|job| job.phase.is_ended());
    if is_over && attempts_of(state, id).next().is_none() {
        state.ended.insert((now, id), ());
    }
}

/// Returns a job's attempts that still have GPUs, ended ones too.
pub fn attempts_of(state: &State, id: JobId) -> impl Iterator<Item = &AttemptId> {
    let first = AttemptId { job: id, no: AttemptNo::new(0) };
    let last = AttemptId { job: id, no: AttemptNo::new(u16::MAX) };
    state.attempts.range(first..=last).map(|(id, _)| id)
}

/// Returns where a waiting job stands in line.
#[must_use]
pub fn place_of(id: JobId, job: &Job) -> InLine {
    InLine {
        budget: job.budget,
        tier: job.terms.tier,
        turn: job.terms.turn,
        submitted_at: job.submitted_at,
        job: id,
    }
}

fn enter(state: &mut State, id: JobId, phase: Phase) {
    let Some(job) = state.jobs.get_mut(&id) else { return };
    let before = core::mem::replace(&mut job.phase, phase);
    let place = place_of(id, job);
    // A task has a place of its array's.
    let is_counted = job.array.is_none();
    let kind = Kind::of(job);
    let (was_live, is_live) = (!before.is_ended(), !job.phase.is_ended());
    let after = job.phase.clone();
    let (was_waiting, is_waiting) = (before.is_waiting(), job.phase.is_waiting());
    if was_waiting && !is_waiting {
        state.line.remove(&place);
        dates::end(state, id);
    }
    if is_waiting && !was_waiting {
        state.line.insert(place, kind);
    }
    for (phase, is_now) in [(&before, false), (&after, true)] {
        let Some(until) = released_at(phase) else { continue };
        if is_now {
            state.timers.insert((until, Timer::Release(id)), ());
        } else {
            state.timers.remove(&(until, Timer::Release(id)));
        }
    }
    if was_live && !is_live && is_counted {
        state.meta.live_jobs = state.meta.live_jobs.saturating_sub(1);
    }
    want::update(state, id);
}

/// Returns when a job is released by itself, if it is held until then.
#[must_use]
pub fn released_at(phase: &Phase) -> Option<Timestamp> {
    match phase {
        Phase::Held { by: HeldBy::Backoff { until } | HeldBy::Begin { until }, .. } => Some(*until),
        Phase::Held { .. } | Phase::Waiting { .. } | Phase::Live(_) | Phase::Ended { .. } => None,
    }
}
