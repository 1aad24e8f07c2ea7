//! An attempt that is protected is stopped by a person's word alone, never for another job; and what has ended stays as
//! it ended.

use alloc::format;
use alloc::string::String;

use super::Change;
use crate::id::AttemptId;
use crate::job::{Attempt, AttemptEnd, Stop, StopCause};
use crate::spec::Tier;
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.attempts.iter().try_for_each(|(id, attempt)| check(*id, attempt))
}

pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    change.attempts.iter().try_for_each(|(id, attempt)| check(**id, attempt))
}

/// Whoever gives way to another with this very command was not protected a moment before: also what had no go, and is
/// gone from the table with its stop.
pub(super) fn preempted_step(change: &Change<'_>) -> Result<(), String> {
    let after = change.after;
    for (id, was) in &change.attempts_before {
        if was.stop.is_some() || was.ended.is_some() {
            continue;
        }
        let past = || after.jobs.get(&id.job)?.past.iter().find(|past| past.no == id.no)?.stop.as_ref();
        let stop = after.attempts.get(*id).map_or_else(past, |is| is.stop.as_ref());
        let is_preempted = stop.is_some_and(|stop| matches!(stop.cause, StopCause::Preempt(_)));
        if is_preempted && was.is_protected(after.meta.time) {
            return Err(format!("attempt {id} was protected, and its GPUs were taken"));
        }
    }
    Ok(())
}

/// Ends are final: of attempts that are still there, and of jobs.
pub(super) fn final_step(change: &Change<'_>) -> Result<(), String> {
    let before = change.before;
    for (id, attempt) in &change.attempts {
        let was = before.attempts.get(*id).and_then(|attempt| attempt.ended.as_ref());
        if was.is_some() && was != attempt.ended.as_ref() {
            return Err(format!("attempt {id} had ended as {was:?}, now {:?}", attempt.ended));
        }
    }
    for (id, job) in &change.jobs {
        let was = before.jobs.get(*id).map(|job| &job.phase);
        if was.is_some_and(|was| was.is_ended() && *was != job.phase) {
            return Err(format!("job {id} had ended as {was:?}, now {:?}", job.phase));
        }
    }
    Ok(())
}

fn check(id: AttemptId, attempt: &Attempt) -> Result<(), String> {
    let is_stopped = |ended: &AttemptEnd| matches!(ended, AttemptEnd::Stopped | AttemptEnd::Preempted);
    let ends = [&attempt.ended, &attempt.first_end];
    if attempt.stop.is_none() && ends.into_iter().flatten().any(|ended| is_stopped(&ended.cause)) {
        return Err(format!("attempt {id} ended by a stop that nobody committed"));
    }
    attempt.stop.as_ref().map_or(Ok(()), |stop| check_stop(id, attempt, stop))
}

fn check_stop(id: AttemptId, attempt: &Attempt, stop: &Stop) -> Result<(), String> {
    let at_stop = Attempt { ended: None, ..attempt.clone() };
    let is_protected = at_stop.is_protected(stop.at);
    match &stop.cause {
        StopCause::Cancel { .. } | StopCause::Requeue { .. } | StopCause::Rank { .. } => Ok(()),
        // An operator may cut protection, and then it is said by how much.
        StopCause::Drain { cuts, .. } if !cuts.is_zero() => {
            if *cuts > attempt.protection || attempt.tier == Tier::Free {
                return Err(format!("{cuts} of the protection of attempt {id} were cut, it has less"));
            }
            Ok(())
        }
        StopCause::Unwanted | StopCause::Preempt(_) | StopCause::Drain { .. } if is_protected => {
            Err(format!("attempt {id} was protected when its stop was committed"))
        }
        StopCause::Unwanted | StopCause::Preempt(_) | StopCause::Drain { .. } => Ok(()),
    }
}
