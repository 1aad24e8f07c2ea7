//! Who has a say over a job: its user; with a reason an owner of its budget or of one above, or an operator.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::rights;
use crate::budget;
use crate::command::{Code, Rejection};
use crate::id::{JobId, Name};
use crate::job::{End, Job};
use crate::lifecycle::array;
use crate::state::State;

/// What a person wants of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    /// Which.
    pub job: JobId,
    /// The word for it: "cancel".
    pub verb: &'a str,
    /// Why, as told.
    pub reason: &'a str,
}

/// Returns who asks and the job, or refuses.
pub(super) fn check<'s, 'c>(
    state: &'s State,
    cx: &Context<'c>,
    wish: Wish<'_>,
) -> Result<(&'c Name, &'s Job), Rejection> {
    let id = wish.job;
    let array = || state.arrays.get(&id).map(|array| &array.job);
    let Some(job) = state.jobs.get(&id).or_else(array) else { return Err(none(state, wish)) };
    check_say(state, cx, wish, job)
}

/// The refusal of a word about a job that is not there.
fn none(state: &State, wish: Wish<'_>) -> Rejection {
    let Wish { job: id, verb, .. } = wish;
    match array::unmade(state, id) {
        Some((of, array, place)) => {
            let index = array.indexes.at(place).unwrap_or(place);
            Rejection::new(
                Code::Stale,
                format!("the turn of task {of}[{index}] has not come: there is nothing to {verb} yet"),
                &format!("at most {} tasks of this array are in line or run at once", array.width()),
                format!("`bursar job {verb} {of}` means the whole array"),
            )
        }
        None => {
            let what = format!("there is no job {id}");
            let fix = String::from("`bursar queue --mine` lists yours");
            Rejection::new(Code::NotFound, what, "", fix)
        }
    }
}

/// Returns who asks and the job, or refuses whoever has no say over it.
pub(super) fn check_say<'s, 'c>(
    state: &'s State,
    cx: &Context<'c>,
    wish: Wish<'_>,
    job: &'s Job,
) -> Result<(&'c Name, &'s Job), Rejection> {
    let Wish { job: id, verb, reason } = wish;
    let (who, _) = rights::person(state, cx)?;
    if job.user == *who {
        return Ok((who, job));
    }
    if !is_above(state, who, job) {
        return Err(Rejection::new(
            Code::NotAllowed,
            format!("job {id} is `{}`'s", job.user),
            &format!("its user, an owner of its budget or of one above, or an operator may {verb} it"),
            format!("ask `{}`", job.user),
        ));
    }
    if reason.trim().is_empty() {
        return Err(Rejection::new(
            Code::BadSpec,
            format!("to {verb} job {id} you must say why: it is `{}`'s", job.user),
            "its user will read it",
            String::from("add --reason"),
        ));
    }
    Ok((who, job))
}

/// Whether `who` owns the job's budget or one above, or is an operator.
pub(super) fn is_above(state: &State, who: &Name, job: &Job) -> bool {
    budget::is_operator(state, who) || budget::owns(state, who, job.budget)
}

/// The refusal of a word that comes too late.
pub(super) fn has_ended(job: JobId, end: End) -> Rejection {
    let what = format!("job {job} has ended already: {}", end_word(end));
    Rejection::new(Code::Stale, what, "", format!("`bursar job show {job}` says how"))
}

fn end_word(end: End) -> &'static str {
    match end {
        End::Completed => "completed",
        End::Failed => "failed",
        End::Preempted => "preempted",
        End::TimedOut => "timed-out",
        End::Cancelled => "cancelled",
        End::Lost => "lost",
        End::Superseded => "superseded",
    }
}
