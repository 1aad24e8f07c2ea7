//! What an agent saw of the ranks on its node, in the order it saw it. Each report is taken once: one that says what
//! is known already, or speaks of an attempt that state does not know, changes nothing and is answered as done.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use crate::agent::{EndedBy, Fault, RankEvent, Report};
use crate::command::{Answer, Code, Rejection};
use crate::id::NodeId;
use crate::job::{Attempt, AttemptEnd, Ended, Exit, Placement};
use crate::lifecycle::ending::told;
use crate::lifecycle::{ending, freed, go, progress, rank, service, started, stray};
use crate::node::Cordon;
use crate::state::State;
use crate::unit::Timestamp;

/// The most reports of one command.
const REPORTS_MAX: usize = 4_096;

/// Takes the reports of a node.
pub(super) fn reports(state: &mut State, cx: &Context<'_>, node: NodeId, reports: &[Report]) -> Answer {
    if reports.len() > REPORTS_MAX {
        let what = format!("{} reports in one command; at most {REPORTS_MAX}", reports.len());
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("split them")));
    }
    for report in reports {
        take(state, node, report, cx.now);
    }
    DONE
}

fn take(state: &mut State, node: NodeId, report: &Report, now: Timestamp) {
    let is_here = |placement: &&Placement| placement.rank == report.rank && placement.node == node;
    let placed =
        state.attempts.get(&report.attempt).and_then(|a| Some((a, a.placements.iter().find(is_here)?)));
    let Some((attempt, placement)) = placed else {
        take_unplaced(state, node, report, now);
        return;
    };
    let (id, rank) = (report.attempt, report.rank);
    match &report.event {
        RankEvent::Ready => go::ready(state, id, rank, report.at, now),
        RankEvent::Started => started::started(state, id, rank, report.at, now),
        RankEvent::Exited { exit, by, saved_at } => {
            let cause = cause(attempt, *by);
            if let Some(saved_at) = saved_at {
                progress::saved(state, id, (*saved_at).min(report.at), now);
            }
            rank::ended(state, id, rank, Ended { at: report.at, cause, exit: Some(*exit) }, now);
        }
        // A rank that has a process did not fail to get one.
        RankEvent::LaunchFailed { .. } if placement.started_at.is_some() => {}
        RankEvent::LaunchFailed { fault, what } => {
            launch_failed(state, report, (*fault, what), now);
        }
        RankEvent::Unkillable { what } => unkillable(state, node, report, what, now),
        RankEvent::Freed => {
            // Nothing of it is left, so it has ended, even if nobody saw how.
            rank::ended(state, id, rank, unseen(attempt, report.at), now);
            freed::freed(state, id, rank, report.at, now);
        }
        // It is in the next set that the node gets.
        RankEvent::Unknown { .. } => {}
    }
}

/// Takes a report about what state never placed there, or does not have there any more.
fn take_unplaced(state: &mut State, node: NodeId, report: &Report, now: Timestamp) {
    let key = (node, report.attempt, report.rank);
    match &report.event {
        RankEvent::Freed => {
            stray::gone(state, key, report.at, now);
            // It may have been of an attempt's number, and counted with that one's cores.
            go::go_on(state, node, now);
        }
        RankEvent::Unknown { gpus } => stray::found(state, key, gpus, now),
        RankEvent::Unkillable { what } if state.strays.contains(&key) => {
            fence(state, node, report, what, now)
        }
        // Its end was committed in another way, by a restart for example.
        RankEvent::Ready
        | RankEvent::Started
        | RankEvent::Exited { .. }
        | RankEvent::LaunchFailed { .. }
        | RankEvent::Unkillable { .. } => {}
    }
}

/// What made a rank end. A stop that nobody committed is no stop, whatever the node believes; and one whose notice was
/// overtaken by a cancel is one without.
fn cause(attempt: &Attempt, by: EndedBy) -> AttemptEnd {
    match (by, &attempt.stop) {
        (EndedBy::Itself, _) => AttemptEnd::Exited,
        (EndedBy::TimeLimit, _) => AttemptEnd::TimeLimit,
        (EndedBy::Reboot, _) => AttemptEnd::NodeLost,
        (EndedBy::Stop | EndedBy::Notice, None) => AttemptEnd::Exited,
        (EndedBy::Stop | EndedBy::Notice, Some(stop)) if stop.has_notice() => AttemptEnd::Preempted,
        (EndedBy::Stop | EndedBy::Notice, Some(_)) => AttemptEnd::Stopped,
    }
}

/// How a rank ended that is gone and that nobody saw end.
fn unseen(attempt: &Attempt, at: Timestamp) -> Ended {
    Ended { at, cause: cause(attempt, EndedBy::Stop), exit: Some(Exit::Unknown) }
}

/// A rank never had a process. Before the go the attempt ends at once, else as any rank does that ends wrongly.
fn launch_failed(state: &mut State, report: &Report, (fault, what): (Fault, &str), now: Timestamp) {
    let id = report.attempt;
    let is_open = |attempt: &&Attempt| attempt.ended.is_none();
    let Some(attempt) = state.attempts.get(&id).filter(is_open) else { return };
    let Some(placement) = attempt.placements.iter().find(|p| p.rank == report.rank) else { return };
    if placement.exited.is_some() {
        return;
    }
    let (has_go, is_stopped, node) = (attempt.go_at.is_some(), attempt.stop.is_some(), placement.node);
    let ended = match fault {
        Fault::Node => {
            // A launch that a stop came before says nothing about the node.
            if !is_stopped {
                ending::launch_failed_on(state, id, node, now);
            }
            Ended { at: report.at, cause: AttemptEnd::LaunchFailedNode(told(what)), exit: None }
        }
        Fault::Job { code } => {
            let cause = AttemptEnd::LaunchFailedJob(told(what));
            Ended { at: report.at, cause, exit: Some(Exit::Code(code)) }
        }
    };
    if has_go {
        rank::ended(state, id, report.rank, ended, now);
    } else {
        ending::end(state, id, ended, now);
    }
}

/// Processes of a rank are there long after the kill: it counts as ended, its GPUs stay with it until they are proven
/// empty, and its node gets no new work until an operator says so.
fn unkillable(state: &mut State, node: NodeId, report: &Report, what: &str, now: Timestamp) {
    fence(state, node, report, what, now);
    let Some(attempt) = state.attempts.get(&report.attempt) else { return };
    let mut ended = unseen(attempt, report.at);
    let limit = state.jobs.get(&report.attempt.job).and_then(|job| job.terms.time_limit);
    let is_over = |started: Timestamp| limit.is_some_and(|limit| started.plus(limit) <= report.at);
    if attempt.stop.is_none() && attempt.started_at.is_some_and(is_over) {
        ended.cause = AttemptEnd::TimeLimit;
    }
    rank::ended(state, report.attempt, report.rank, ended, now);
}

fn fence(state: &mut State, node: NodeId, report: &Report, what: &str, now: Timestamp) {
    let reason = told(&format!("job {} cannot be ended: {what}", report.attempt));
    service::fence(state, node, Cordon { who: None, reason, since: now }, now);
}
