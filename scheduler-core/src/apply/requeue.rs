//! A person wants a running job to save, stop, and start again.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::over_array;
use super::over_job::{self, Wish};
use crate::command::{Answer, Code, JobWord, Rejection};
use crate::id::AttemptId;
use crate::job::{Phase, Stop, StopCause};
use crate::lifecycle::ending::told;
use crate::lifecycle::stop;
use crate::state::State;

/// Tells a job's attempt to leave, as a preemption does; the job waits again, whether it resumes or not. One that waits
/// for its GPUs gives its place up at once.
pub(super) fn requeue(state: &mut State, cx: &Context<'_>, word: &JobWord) -> Answer {
    let wish = Wish { job: word.job, verb: "requeue", reason: &word.reason };
    let (who, job) = over_job::check(state, cx, wish)?;
    if state.arrays.contains(&word.job) {
        return over_array::requeue(state, cx, word);
    }
    let grace = job.terms.grace;
    match &job.phase {
        Phase::Ended { end, .. } => Err(over_job::has_ended(word.job, *end)),
        Phase::Waiting { .. } | Phase::Held { .. } => {
            let what = format!("job {} does not run", word.job);
            Err(Rejection::new(Code::Stale, what, "it has not started", String::new()))
        }
        Phase::Live(no) => {
            let id = AttemptId { job: word.job, no: *no };
            if state.attempts.get(&id).is_none_or(|attempt| attempt.stop.is_some()) {
                return Err(stops(word));
            }
            let cause = StopCause::Requeue { who: who.clone(), reason: told(&word.reason) };
            stop::stop(state, id, Stop { at: cx.now, cause, grace }, cx.now);
            DONE
        }
    }
}

fn stops(word: &JobWord) -> Rejection {
    Rejection::new(
        Code::Stale,
        format!("job {} is stopping already", word.job),
        "a stop that was ordered stands",
        format!("`bursar job show {}` says what for", word.job),
    )
}
