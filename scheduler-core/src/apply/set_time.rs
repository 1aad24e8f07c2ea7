//! An operator sets cluster time (DESIGN 8.2): forward at once, backward never.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::{requests, rights};
use crate::command::{Answer, Code, Rejection, SetTime};
use crate::state::{State, TimeJump};
use crate::unit::{Span, Timestamp};

/// Notes the step; whoever applies the entry brings state there, so that what is due until then happens in order.
pub(super) fn set_time(state: &mut State, cx: &Context<'_>, set: &SetTime) -> Answer {
    rights::operator(state, cx)?;
    if set.reason.trim().is_empty() {
        let what = String::from("setting the time needs a reason");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("add --reason")));
    }
    if let Some(to) = set.to {
        check(cx.now, to)?;
        let jump = TimeJump { from: cx.now, to };
        requests::carry_over(state, jump.span());
        state.meta.time_jump = Some(jump);
    }
    state.meta.time_alarm = None;
    DONE
}

/// Refuses a step that time never takes.
///
/// # Errors
/// When it is backward, or further forward than anything lasts.
pub fn check(now: Timestamp, to: Timestamp) -> Result<(), Rejection> {
    if to < now {
        return Err(Rejection::new(
            Code::BadSpec,
            format!("cluster time is {} past that already", now.since(to)),
            "time never goes back: what was protected and charged by it would be so twice",
            String::from(
                "leave it: it is slewed towards the replicas' wall clocks by itself, at most 1 in 1,000; \
                 `bursar cluster time set now --reason …` says that it is right as it is",
            ),
        ));
    }
    if to.since(now) > Span::MAX {
        let what = format!("that is {} ahead, more than ten years", to.since(now));
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("look at the year")));
    }
    Ok(())
}
