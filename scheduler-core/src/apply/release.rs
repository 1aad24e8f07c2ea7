//! A person puts a held job in line again.

use alloc::format;

use super::context::Context;
use super::entry::DONE;
use super::hold::{backs_off, not_held};
use super::over_array;
use super::over_job::{self, Wish};
use crate::command::{Answer, Code, JobWord, Rejection};
use crate::job::{HeldBy, Phase};
use crate::lifecycle::{before, phase};
use crate::state::State;

/// Releases a job at the place of its first submission. One that waits after preemptions in the free tier releases
/// itself, and one that somebody above its user held is released by somebody there. One that its submission holds does
/// not wait for that any more; one that was held besides goes on waiting for it.
pub(super) fn release(state: &mut State, cx: &Context<'_>, word: &JobWord) -> Answer {
    let wish = Wish { job: word.job, verb: "release", reason: &word.reason };
    let (who, job) = over_job::check(state, cx, wish)?;
    if state.arrays.contains(&word.job) {
        return over_array::release(state, cx, word);
    }
    let by = match &job.phase {
        Phase::Held { by, .. } => by,
        Phase::Waiting { .. } | Phase::Live(_) => return Err(not_held(word)),
        Phase::Ended { end, .. } => return Err(over_job::has_ended(word.job, *end)),
    };
    match by {
        HeldBy::Person { who: holder, .. } if *holder != job.user && !over_job::is_above(state, who, job) => {
            Err(Rejection::new(
                Code::NotAllowed,
                format!("job {} was held by `{holder}`", word.job),
                "somebody above its user held it, so somebody there releases it",
                format!("ask `{holder}`"),
            ))
        }
        HeldBy::Backoff { until } => Err(backs_off(word, until.since(cx.now))),
        HeldBy::Person { .. } | HeldBy::FailedLaunches { .. } | HeldBy::Barren { .. } => {
            let still = job.before.holds(cx.now);
            if let Some(job) = state.jobs.get_mut(&word.job) {
                job.progress.barren = 0;
            }
            match still {
                Some(by) => phase::hold(state, word.job, by, cx.now),
                None => phase::wait(state, word.job, cx.now),
            }
            DONE
        }
        HeldBy::Begin { .. } | HeldBy::Dependency { .. } => {
            before::waive(state, word.job);
            phase::wait(state, word.job, cx.now);
            DONE
        }
    }
}
