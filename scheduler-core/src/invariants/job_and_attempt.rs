//! The phase of a job and the table of attempts say the same: a live job has exactly one attempt that has not ended,
//! which is the one it names; a job that isn't live has none. An attempt that is over is in its job's past.

use alloc::format;
use alloc::string::String;

use super::Change;
use crate::id::{AttemptId, JobId};
use crate::job::{Attempt, AttemptEnd, Exit, Job, Phase, StopCause};
use crate::lifecycle::phase;
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.jobs.iter().try_for_each(|(id, job)| check_job(state, *id, job))?;
    state.attempts.iter().try_for_each(|(id, attempt)| check_attempt(state, *id, attempt))
}

pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    change.jobs.iter().try_for_each(|(id, job)| check_job(change.after, **id, job))?;
    change.attempts.iter().try_for_each(|(id, attempt)| check_attempt(change.after, **id, attempt))
}

fn check_job(state: &State, id: JobId, job: &Job) -> Result<(), String> {
    let live = match job.phase {
        Phase::Live(no) => Some(AttemptId { job: id, no }),
        Phase::Held { .. } | Phase::Waiting { .. } | Phase::Ended { .. } => None,
    };
    let is_live = |id: &&AttemptId| state.attempts.get(*id).is_some_and(|attempt| attempt.ended.is_none());
    let mut found = phase::attempts_of(state, id).filter(is_live);
    let (first, second) = (found.next().copied(), found.next());
    if first != live || second.is_some() {
        return Err(format!(
            "job {id} is {:?}, its attempts that have not ended: {first:?} {second:?}",
            job.phase
        ));
    }
    if let Some(late) = phase::attempts_of(state, id).find(|attempt| attempt.no >= job.next_attempt) {
        return Err(format!("attempt {late} has a number that job {id} did not give yet"));
    }
    if job.past.windows(2).any(|pair| pair[0].no >= pair[1].no) {
        return Err(format!("the past attempts of job {id} are not in order"));
    }
    Ok(())
}

fn check_attempt(state: &State, id: AttemptId, attempt: &Attempt) -> Result<(), String> {
    if !state.jobs.contains(&id.job) {
        return Err(format!("attempt {id} is of no job"));
    }
    if !state.decisions.contains(&attempt.decision) {
        return Err(format!("attempt {id} was placed by decision {}, which is not kept", attempt.decision));
    }
    if !attempt.placements.iter().any(|placement| attempt.has(placement)) {
        return Err(format!("attempt {id} has no GPU any more and is still in its table"));
    }
    if attempt.placements.iter().any(|placement| placement.freed_at.is_some() && placement.exited.is_none()) {
        return Err(format!("a rank of attempt {id} runs on GPUs that were proven empty"));
    }
    check_ranks(id, attempt)
}

/// An attempt ends with the last of its ranks, as the first that ended wrongly did; one without go has none.
fn check_ranks(id: AttemptId, attempt: &Attempt) -> Result<(), String> {
    if attempt.go_at.is_none() {
        let has_begun = attempt.is_leaving() || attempt.placements.iter().any(|p| p.exited.is_some());
        return if has_begun { Err(format!("attempt {id} has no go, and ends or ended")) } else { Ok(()) };
    }
    let are_over = attempt.placements.iter().all(|placement| placement.exited.is_some());
    let Some(ended) = &attempt.ended else {
        let is_rank_stopped =
            attempt.stop.as_ref().is_some_and(|s| matches!(s.cause, StopCause::Rank { .. }));
        if are_over || is_rank_stopped && attempt.first_end.is_none() {
            return Err(format!("attempt {id} has not ended, its ranks say something else"));
        }
        return Ok(());
    };
    let is_as_said = match &attempt.first_end {
        Some(first) => (&first.cause, first.exit) == (&ended.cause, ended.exit),
        None => (&ended.cause, ended.exit) == (&AttemptEnd::Exited, Some(Exit::Code(0))),
    };
    if are_over && is_as_said {
        return Ok(());
    }
    Err(format!("attempt {id} ended as {ended:?}, its first wrong end is {:?}", attempt.first_end))
}
