//! The leader says where it took cluster time from, when no replica had kept it (DESIGN 8.2).

use super::context::Context;
use super::entry::DONE;
use crate::command::{Answer, ResumeTime, TimeSource};
use crate::lifecycle::ending::told;
use crate::state::{State, TimeAlarm};

/// Raises the alarm if nobody vouched for it; it stays until an operator says what time it is.
pub(super) fn resume_time(state: &mut State, cx: &Context<'_>, resume: &ResumeTime) -> Answer {
    match resume.from {
        TimeSource::LastEntry => {
            state.meta.time_alarm = Some(TimeAlarm { since: cx.now, what: told(&resume.what) });
        }
        // An event: an older alarm is of the time before, which this one goes on from.
        TimeSource::Agents | TimeSource::WallClock => {}
    }
    DONE
}
