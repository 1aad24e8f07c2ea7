//! An operator wants a node empty.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::node_word;
use crate::command::{Answer, Code, DrainNode, Rejection};
use crate::lifecycle::drain;
use crate::lifecycle::ending::told;
use crate::node::{Drain, Urgency};
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// A maintenance window begins within this time.
const AHEAD_MAX: Span = Span::from_hours(365 * 24);

/// Orders a drain, in place of one that was ordered before: from its begin on a node gets no new work, and what is on it
/// leaves as protection ends; sooner, where the order says so.
pub(super) fn drain(state: &mut State, cx: &Context<'_>, order: &DrainNode) -> Answer {
    let (who, node) = node_word::check(state, cx, order.node)?;
    node_word::check_reason("drain", node, &order.reason)?;
    let begins_at = order.begins_at.unwrap_or(cx.now).max(cx.now);
    check_times(cx.now, begins_at, order.urgency)?;
    let drain = Drain {
        who: who.clone(),
        reason: told(&order.reason),
        ordered_at: cx.now,
        begins_at,
        is_active: false,
        urgency: order.urgency,
    };
    drain::order(state, order.node, drain, cx.now);
    DONE
}

fn check_times(now: Timestamp, begins_at: Timestamp, urgency: Urgency) -> Result<(), Rejection> {
    if begins_at > now.plus(AHEAD_MAX) {
        let what = format!("the drain would begin in {}", begins_at.since(now));
        let fix = String::from("at most a year ahead");
        return Err(Rejection::new(Code::BadSpec, what, "", fix));
    }
    match urgency {
        Urgency::Deadline(deadline) if deadline <= now || deadline < begins_at => Err(Rejection::new(
            Code::BadSpec,
            String::from("the deadline of the drain is before its begin"),
            "nothing could leave in time",
            String::from("a later --deadline, or --now"),
        )),
        Urgency::Deadline(_) | Urgency::Normal | Urgency::Now => Ok(()),
    }
}
