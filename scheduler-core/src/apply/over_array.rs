//! What people say about a whole array: each of its tasks is told, and those to come.

use alloc::format;

use super::context::Context;
use super::entry::DONE;
use super::hold::not_held;
use super::over_job::{self, Wish};
use super::{cancel, hold, release, requeue};
use crate::command::{Answer, Cancel, Code, JobWord, Rejection};
use crate::id::{JobId, Name};
use crate::job::{HeldBy, Job, Phase};
use crate::lifecycle::ending::told;
use crate::lifecycle::{array, before};
use crate::state::State;

/// Cancels every task: those to come are never made.
pub(super) fn cancel(state: &mut State, cx: &Context<'_>, cancel: &Cancel) -> Answer {
    still_lives(state, cancel.job)?;
    array::skip_rest(state, cancel.job, cx.now);
    for job in array::live(state, cancel.job) {
        cancel::cancel(state, cx, &Cancel { job, ..cancel.clone() })?;
    }
    DONE
}

/// Makes no more tasks, and holds those that wait; those that run go on.
pub(super) fn hold(state: &mut State, cx: &Context<'_>, word: &JobWord) -> Answer {
    still_lives(state, word.job)?;
    let wish = Wish { job: word.job, verb: "hold", reason: &word.reason };
    let (who, job) = over_job::check(state, cx, wish)?;
    check_holder(state, job, who, word.job)?;
    let by = HeldBy::Person { who: who.clone(), reason: told(&word.reason) };
    array::hold(state, word.job, by, cx.now);
    for job in array::live(state, word.job) {
        // One that runs goes on, one that is tried again by itself is.
        let _ = hold::hold(state, cx, &JobWord { job, ..word.clone() });
    }
    DONE
}

/// Makes tasks again, and releases those that are held.
pub(super) fn release(state: &mut State, cx: &Context<'_>, word: &JobWord) -> Answer {
    still_lives(state, word.job)?;
    let wish = Wish { job: word.job, verb: "release", reason: &word.reason };
    let (who, job) = over_job::check(state, cx, wish)?;
    check_holder(state, job, who, word.job)?;
    let still = match &job.phase {
        Phase::Held { by: HeldBy::Begin { .. } | HeldBy::Dependency { .. }, .. } => {
            before::waive(state, word.job);
            None
        }
        Phase::Held { .. } => job.before.holds(cx.now),
        Phase::Waiting { .. } | Phase::Live(_) | Phase::Ended { .. } => {
            return if release_tasks(state, cx, word) { DONE } else { Err(not_held(word)) };
        }
    };
    match still {
        Some(by) => array::hold(state, word.job, by, cx.now),
        None => array::open(state, word.job, cx.now),
    }
    release_tasks(state, cx, word);
    DONE
}

/// Releases the tasks that are held; says whether there was one.
fn release_tasks(state: &mut State, cx: &Context<'_>, word: &JobWord) -> bool {
    let mut any = false;
    for job in array::live(state, word.job) {
        any |= release::release(state, cx, &JobWord { job, ..word.clone() }).is_ok();
    }
    any
}

/// Tells every task that runs to save, stop and start again.
pub(super) fn requeue(state: &mut State, cx: &Context<'_>, word: &JobWord) -> Answer {
    still_lives(state, word.job)?;
    let mut any = false;
    for job in array::live(state, word.job) {
        any |= requeue::requeue(state, cx, &JobWord { job, ..word.clone() }).is_ok();
    }
    if any {
        return DONE;
    }
    let what = format!("no task of array {} runs, or all that run stop already", word.job);
    Err(Rejection::new(Code::Stale, what, "", format!("`bursar job show {}` sums its tasks up", word.job)))
}

fn still_lives(state: &State, id: JobId) -> Result<(), Rejection> {
    match state.arrays.get(&id).map(|array| &array.job.phase) {
        Some(Phase::Ended { end, .. }) => Err(over_job::has_ended(id, *end)),
        _ => Ok(()),
    }
}

/// Refuses the user of an array that somebody above them holds.
fn check_holder(state: &State, job: &Job, who: &Name, id: JobId) -> Result<(), Rejection> {
    match &job.phase {
        Phase::Held { by: HeldBy::Person { who: holder, .. }, .. }
            if *holder != job.user && !over_job::is_above(state, who, job) =>
        {
            Err(Rejection::new(
                Code::NotAllowed,
                format!("array {id} was held by `{holder}`"),
                "somebody above its user held it, so somebody there releases it",
                format!("ask `{holder}`"),
            ))
        }
        _ => Ok(()),
    }
}
