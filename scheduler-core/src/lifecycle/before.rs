//! What jobs wait for before they stand in line: a moment, and the ends of others.
//!
//! A job can only wait for numbers that were given before its own, so nobody ever waits for himself.

use alloc::vec::Vec;

use crate::id::JobId;
use crate::job::{Before, End, HeldBy, Job, Met, Need, Phase};
use crate::lifecycle::{array, forget, phase};
use crate::spec::{After, Wants};
use crate::state::State;
use crate::unit::Timestamp;

/// Returns what is known now of a job that must have ended; none if it is not known at all: its number was never
/// given, or it ended longer ago than results are kept.
#[must_use]
pub fn need(state: &State, after: &After) -> Option<Need> {
    let known = forget::is_known(state, after.job);
    let met = match forget::result(state, after.job) {
        Some((end, _)) => met(after.wants, end),
        None if known => Met::Open,
        None => return None,
    };
    Some(Need { job: after.job, wants: after.wants, met })
}

/// A job that waits for others enters state.
pub fn enter(state: &mut State, id: JobId, before: &Before) {
    for need in before.needs.iter().filter(|need| need.met == Met::Open) {
        state.dependents.insert((need.job, id), ());
    }
}

/// A job waits for nobody any more: it has ended, or somebody wants it to run anyway.
pub fn leave(state: &mut State, id: JobId) {
    let needs = job(state, id).map(|job| job.before.needs.clone()).unwrap_or_default();
    for need in needs.iter().filter(|need| need.met == Met::Open) {
        state.dependents.remove(&(need.job, id));
    }
}

/// A person wants a job in line now, whatever it waits for.
pub fn waive(state: &mut State, id: JobId) {
    leave(state, id);
    if let Some(job) = job_mut(state, id) {
        job.before = Before::default();
    }
}

/// A job has ended: who waited for it may stand in line now, or never will.
pub fn ended(state: &mut State, id: JobId, end: End, now: Timestamp) {
    for who in waiting_for(state, id) {
        settle(state, who, id, |wants| Some(met(wants, end)), now);
    }
}

/// An array has not ended and will not complete: one of its tasks ended otherwise.
pub fn cannot_complete(state: &mut State, id: JobId, now: Timestamp) {
    for who in waiting_for(state, id) {
        settle(state, who, id, |wants| (wants == Wants::Success).then_some(Met::Never), now);
    }
}

fn waiting_for(state: &State, id: JobId) -> Vec<JobId> {
    let waiting = state.dependents.range((id, JobId::new(0))..=(id, JobId::new(u32::MAX)));
    waiting.map(|((_, who), ())| *who).collect()
}

/// Takes what became of a job's need, if that is decided.
fn settle(
    state: &mut State,
    who: JobId,
    needed: JobId,
    decide: impl Fn(Wants) -> Option<Met>,
    now: Timestamp,
) {
    let Some(job) = job_mut(state, who) else { return };
    let Some(need) = job.before.needs.iter_mut().find(|need| need.job == needed) else { return };
    let Some(met) = decide(need.wants) else { return };
    need.met = met;
    state.dependents.remove(&(needed, who));
    move_on(state, who, now);
}

/// Puts a job in line that waited for others, if it need not wait any more.
fn move_on(state: &mut State, id: JobId, now: Timestamp) {
    let Some(job) = job(state, id) else { return };
    let Phase::Held { by: by @ HeldBy::Dependency { .. }, .. } = &job.phase else { return };
    match job.before.holds(now) {
        None => release(state, id, now),
        Some(next) if next != *by => hold(state, id, next, now),
        Some(_) => {}
    }
}

/// Puts a job in line, or lets an array make its tasks.
pub fn release(state: &mut State, id: JobId, now: Timestamp) {
    if state.arrays.contains(&id) { array::open(state, id, now) } else { phase::wait(state, id, now) }
}

/// Keeps a job out of line, or an array from making tasks.
pub fn hold(state: &mut State, id: JobId, by: HeldBy, now: Timestamp) {
    if state.arrays.contains(&id) { array::hold(state, id, by, now) } else { phase::hold(state, id, by, now) }
}

fn job(state: &State, id: JobId) -> Option<&Job> {
    state.jobs.get(&id).or_else(|| state.arrays.get(&id).map(|array| &array.job))
}

fn job_mut(state: &mut State, id: JobId) -> Option<&mut Job> {
    match state.arrays.get_mut(&id) {
        Some(array) => Some(&mut array.job),
        None => state.jobs.get_mut(&id),
    }
}

/// Returns whether `end` is what was wanted.
const fn met(wants: Wants, end: End) -> Met {
    match (wants, end) {
        (Wants::End, _) | (Wants::Success, End::Completed) => Met::Yes,
        (
            Wants::Success,
            End::Failed | End::Preempted | End::TimedOut | End::Cancelled | End::Lost | End::Superseded,
        ) => Met::Never,
    }
}
