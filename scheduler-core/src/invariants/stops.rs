//! An attempt that is protected is stopped by a person's word alone; and what has ended stays as it ended.

use alloc::format;
use alloc::string::String;

use crate::id::AttemptId;
use crate::job::{Attempt, AttemptEnd, StopCause};
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.attempts.iter().try_for_each(|(id, attempt)| check(*id, attempt))
}

pub(super) fn step(before: &State, after: &State) -> Result<(), String> {
    let mut attempts = after.attempts.touched_since(&before.attempts);
    attempts.try_for_each(|(id, attempt)| check(*id, attempt))
}

/// Ends are final: of attempts that are still there, and of jobs.
pub(super) fn final_step(before: &State, after: &State) -> Result<(), String> {
    for (id, attempt) in after.attempts.touched_since(&before.attempts) {
        let was = before.attempts.get(id).and_then(|attempt| attempt.ended.as_ref());
        if was.is_some() && was != attempt.ended.as_ref() {
            return Err(format!("attempt {id} had ended as {was:?}, now {:?}", attempt.ended));
        }
    }
    for (id, job) in after.jobs.touched_since(&before.jobs) {
        let was = before.jobs.get(id).map(|job| &job.phase);
        if was.is_some_and(|was| was.is_ended() && *was != job.phase) {
            return Err(format!("job {id} had ended as {was:?}, now {:?}", job.phase));
        }
    }
    Ok(())
}

fn check(id: AttemptId, attempt: &Attempt) -> Result<(), String> {
    if let (Some(ended), None) = (&attempt.ended, &attempt.stop)
        && ended.cause == AttemptEnd::Stopped
    {
        return Err(format!("attempt {id} ended by a stop that nobody committed"));
    }
    let Some(stop) = &attempt.stop else { return Ok(()) };
    match &stop.cause {
        StopCause::Cancel { .. } | StopCause::Requeue { .. } | StopCause::Rank { .. } => Ok(()),
        // An operator may cut protection, and then it is said by how much.
        StopCause::Drain { cuts, .. } if !cuts.is_zero() => Ok(()),
        StopCause::Unwanted | StopCause::Preempt(_) | StopCause::Drain { .. } => {
            let at_stop = Attempt { ended: None, ..attempt.clone() };
            if at_stop.is_protected(stop.at) {
                Err(format!("attempt {id} was protected when its stop was committed"))
            } else {
                Ok(())
            }
        }
    }
}
