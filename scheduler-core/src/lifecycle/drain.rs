//! A node gets empty: each attempt leaves when its protection ends, or sooner where an operator cuts it.

use alloc::vec::Vec;

use crate::id::{AttemptId, NodeId};
use crate::job::{Attempt, Stop, StopCause};
use crate::lifecycle::{need, service, stop, watch};
use crate::node::{Drain, Node, Urgency};
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// Orders a drain, in place of one that was ordered before. It begins at once if its time has come.
pub fn order(state: &mut State, node: NodeId, drain: Drain, now: Timestamp) {
    let is_due = drain.begins_at <= now;
    watch::changing_drain(state, node, |state| {
        service::change(state, node, now, |record| {
            record.drain = Some(Drain { is_active: is_due, ..drain });
        });
    });
    look(state, node, now);
}

/// Ends a drain, or takes one back that has not begun. What was told to leave leaves.
pub fn end(state: &mut State, node: NodeId, now: Timestamp) {
    watch::changing_drain(state, node, |state| {
        service::change(state, node, now, |record| record.drain = None);
    });
}

/// Its time has come: it begins, or what is left is told to leave before the deadline.
pub fn due(state: &mut State, node: NodeId, now: Timestamp) {
    let begins = |drain: &Drain| !drain.is_active && drain.begins_at <= now;
    if state.nodes.get(&node).and_then(|record| record.drain.as_ref()).is_some_and(begins) {
        watch::changing_drain(state, node, |state| {
            service::change(state, node, now, |record| {
                if let Some(drain) = &mut record.drain {
                    drain.is_active = true;
                }
            });
        });
    }
    look(state, node, now);
}

/// Whether a drain waits for an attempt to leave.
#[must_use]
pub fn concerns(state: &State, id: AttemptId) -> bool {
    let is_draining = |node: &NodeId| state.nodes.get(node).is_some_and(Node::is_draining);
    let attempt = state.attempts.get(&id).filter(|attempt| !attempt.is_leaving());
    attempt.is_some_and(|attempt| attempt.placements.iter().any(|p| is_draining(&p.node)))
}

/// Tells everybody on a node to leave who has to by now.
fn look(state: &mut State, node: NodeId, now: Timestamp) {
    let Some(record) = state.nodes.get(&node).filter(|record| record.is_draining()) else { return };
    let here: Vec<AttemptId> = need::attempts_on(record).into_iter().collect();
    for id in here {
        leave_if_due(state, id, now);
    }
}

/// Tells an attempt to leave if a node of it is drained and nothing keeps it there any more.
pub fn leave_if_due(state: &mut State, id: AttemptId, now: Timestamp) {
    if let Some(order) = order_for(state, id, now) {
        stop::stop(state, id, order, now);
    }
}

fn order_for(state: &State, id: AttemptId, now: Timestamp) -> Option<Stop> {
    let attempt = state.attempts.get(&id).filter(|attempt| !attempt.is_leaving())?;
    let grace = state.jobs.get(&id.job)?.terms.grace;
    let drains = attempt.placements.iter().filter_map(|placement| {
        state.nodes.get(&placement.node)?.drain.as_ref().filter(|drain| drain.is_active)
    });
    drains.filter_map(|drain| stop_for(drain, attempt, grace, now)).next()
}

fn stop_for(drain: &Drain, attempt: &Attempt, grace: Span, now: Timestamp) -> Option<Stop> {
    // What has no go lost nothing, so nothing is cut.
    let is_protected = attempt.go_at.is_some() && attempt.is_protected(now);
    let is_due = match drain.urgency {
        _ if !is_protected => true,
        Urgency::Normal => false,
        Urgency::Deadline(deadline) => deadline.minus(grace) <= now,
        Urgency::Now => true,
    };
    let left = || attempt.protected_until().map_or(attempt.protection, |until| until.since(now));
    let cuts = if is_protected { left() } else { Span::ZERO };
    // One that was ordered shortly before its deadline still has the node empty by then.
    let grace = match drain.urgency {
        Urgency::Deadline(deadline) => grace.min(deadline.since(now)),
        Urgency::Normal | Urgency::Now => grace,
    };
    let cause = StopCause::Drain { who: drain.who.clone(), reason: drain.reason.clone(), cuts };
    is_due.then_some(Stop { at: now, cause, grace })
}
