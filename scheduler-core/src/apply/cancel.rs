//! A person ends a job.

use super::context::Context;
use super::entry::DONE;
use super::over_array;
use super::over_job::{self, Wish};
use crate::command::{Answer, Cancel};
use crate::id::AttemptId;
use crate::job::{End, Phase, Stop, StopCause};
use crate::lifecycle::ending::told;
use crate::lifecycle::{array, phase, stop};
use crate::state::State;
use crate::unit::Span;

/// Cancels a job: at once if nothing of it runs, else by a stop of its attempt.
pub(super) fn cancel(state: &mut State, cx: &Context<'_>, cancel: &Cancel) -> Answer {
    let wish = Wish { job: cancel.job, verb: "cancel", reason: &cancel.reason };
    if let Some((id, array, place)) = array::unmade(state, cancel.job) {
        over_job::check_say(state, cx, wish, &array.job)?;
        array::skip(state, id, place, cx.now);
        return DONE;
    }
    let (who, job) = over_job::check(state, cx, wish)?;
    if state.arrays.contains(&cancel.job) {
        return over_array::cancel(state, cx, cancel);
    }
    match job.phase {
        Phase::Ended { end, .. } => Err(over_job::has_ended(cancel.job, end)),
        Phase::Held { .. } | Phase::Waiting { .. } => {
            phase::end(state, cancel.job, (End::Cancelled, None), cx.now, cx.now);
            DONE
        }
        Phase::Live(no) => {
            let id = AttemptId { job: cancel.job, no };
            let grace = if cancel.is_now { Span::ZERO } else { state.meta.settings.cancel_grace };
            let cause = StopCause::Cancel { who: who.clone(), reason: told(&cancel.reason) };
            stop::stop(state, id, Stop { at: cx.now, cause, grace }, cx.now);
            DONE
        }
    }
}
