//! A person ends a job.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::rights;
use crate::budget;
use crate::command::{Answer, Cancel, Code, Rejection};
use crate::id::AttemptId;
use crate::job::{End, Job, Phase, Stop, StopCause};
use crate::lifecycle::ending::told;
use crate::lifecycle::{phase, stop};
use crate::state::State;
use crate::unit::Span;

/// Cancels a job: at once if nothing of it runs, else by a stop of its attempt.
pub(super) fn cancel(state: &mut State, cx: &Context<'_>, cancel: &Cancel) -> Answer {
    let Some(job) = state.jobs.get(&cancel.job) else {
        let what = format!("there is no job {}", cancel.job);
        let fix = String::from("`bursar queue --mine` lists yours");
        return Err(Rejection::new(Code::NotFound, what, "", fix));
    };
    check_right(state, cx, cancel, job)?;
    match &job.phase {
        Phase::Ended { end, .. } => {
            let what = format!("job {} has ended already: {}", cancel.job, end_word(*end));
            let fix = format!("`bursar job show {}` says how", cancel.job);
            Err(Rejection::new(Code::Stale, what, "", fix))
        }
        Phase::Held { .. } | Phase::Waiting { .. } => {
            phase::end(state, cancel.job, (End::Cancelled, None), cx.now, cx.now);
            DONE
        }
        Phase::Live(no) => {
            let id = AttemptId { job: cancel.job, no: *no };
            let (who, _) = rights::person(state, cx)?;
            let grace = if cancel.is_now { Span::ZERO } else { state.meta.settings.cancel_grace };
            let cause = StopCause::Cancel { who: who.clone(), reason: told(&cancel.reason) };
            stop::stop(state, id, Stop { at: cx.now, cause, grace }, cx.now);
            DONE
        }
    }
}

fn check_right(state: &State, cx: &Context<'_>, cancel: &Cancel, job: &Job) -> Result<(), Rejection> {
    let (who, principal) = rights::person(state, cx)?;
    if job.user == *who {
        return Ok(());
    }
    if !principal.is_operator && !budget::owns(state, who, job.budget) {
        return Err(Rejection::new(
            Code::NotAllowed,
            format!("job {} is `{}`'s", cancel.job, job.user),
            "its user, an owner of its budget or of one above, or an operator may cancel it",
            format!("ask `{}`", job.user),
        ));
    }
    if cancel.reason.trim().is_empty() {
        return Err(Rejection::new(
            Code::BadSpec,
            format!("cancelling job {} needs a reason: it is `{}`'s", cancel.job, job.user),
            "its user will read it",
            String::from("add --reason"),
        ));
    }
    Ok(())
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
