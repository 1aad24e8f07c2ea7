//! A person keeps a job out of line.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::over_array;
use super::over_job::{self, Wish};
use crate::command::{Answer, Code, JobWord, Rejection};
use crate::id::{AttemptId, Name};
use crate::job::{HeldBy, Phase, Stop, StopCause};
use crate::lifecycle::ending::told;
use crate::lifecycle::{phase, stop};
use crate::state::State;
use crate::unit::Span;

/// Holds a waiting job, or one that waits for its GPUs: that one gives its place up. What was held for another reason is
/// now held by this person; what a person above its user held stays so until one of those releases it.
pub(super) fn hold(state: &mut State, cx: &Context<'_>, word: &JobWord) -> Answer {
    let wish = Wish { job: word.job, verb: "hold", reason: &word.reason };
    let (who, job) = over_job::check(state, cx, wish)?;
    if state.arrays.contains(&word.job) {
        return over_array::hold(state, cx, word);
    }
    let by = HeldBy::Person { who: who.clone(), reason: told(&word.reason) };
    match &job.phase {
        Phase::Waiting { .. } => {}
        Phase::Held { by: HeldBy::Person { who: holder, .. }, .. }
            if *holder != job.user && !over_job::is_above(state, who, job) =>
        {
            return Err(held_already(word, holder));
        }
        Phase::Held { by: HeldBy::Backoff { until }, .. } => {
            return Err(backs_off(word, until.since(cx.now)));
        }
        Phase::Held { .. } => {}
        Phase::Ended { end, .. } => return Err(over_job::has_ended(word.job, *end)),
        Phase::Live(no) => {
            let id = AttemptId { job: word.job, no: *no };
            if state.attempts.get(&id).is_none_or(|attempt| attempt.go_at.is_some()) {
                return Err(runs(word));
            }
            let cause = StopCause::Requeue { who: who.clone(), reason: told(&word.reason) };
            stop::stop(state, id, Stop { at: cx.now, cause, grace: Span::ZERO }, cx.now);
        }
    }
    // One that was started over and over has ended for good.
    if state.jobs.get(&word.job).is_some_and(|job| !job.phase.is_ended()) {
        phase::hold(state, word.job, by, cx.now);
    }
    DONE
}

fn held_already(word: &JobWord, holder: &Name) -> Rejection {
    Rejection::new(
        Code::Stale,
        format!("job {} is held already, by `{holder}`", word.job),
        "it stays so until they, or somebody above its user, release it",
        format!("ask `{holder}`"),
    )
}

fn runs(word: &JobWord) -> Rejection {
    Rejection::new(
        Code::Stale,
        format!("job {} runs; only a job that waits can be held", word.job),
        "holding keeps a job out of line, it takes no GPU back",
        format!("`bursar job requeue {0}` and then hold it, or `bursar job cancel {0}`", word.job),
    )
}

/// The refusal of a word about a free-tier job that waits after preemptions: to hold and release it would be a way
/// around that.
pub(super) fn backs_off(word: &JobWord, left: Span) -> Rejection {
    Rejection::new(
        Code::Stale,
        format!("job {} is tried again by itself, in {left}", word.job),
        "in the free tier a job waits longer after each preemption",
        String::from("wait, or submit it with a minimum runtime"),
    )
}

/// The refusal of a word about a job that is not held.
pub(super) fn not_held(word: &JobWord) -> Rejection {
    let what = format!("job {} is not held", word.job);
    Rejection::new(Code::Stale, what, "", String::new())
}
