//! Safe mode: running work goes on, agents report, cancels and reads work, no plan is adopted.

use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::rights;
use crate::command::{Answer, Code, Rejection};
use crate::id::LogIndex;
use crate::state::{SafeMode, State};
use crate::unit::Timestamp;

/// Enters safe mode; what was broken first stays the reason.
pub(super) fn enter(state: &mut State, index: LogIndex, now: Timestamp, what: &str) {
    if state.meta.safe_mode.is_none() {
        let what = what.chars().take(1_000).collect();
        state.meta.safe_mode = Some(SafeMode { since: now, index, what });
    }
}

/// A person ends it.
pub(super) fn end(state: &mut State, cx: &Context<'_>, reason: &str) -> Answer {
    rights::operator(state, cx)?;
    if reason.trim().is_empty() {
        let what = String::from("ending safe mode needs a reason");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("add --reason")));
    }
    state.meta.safe_mode = None;
    DONE
}
