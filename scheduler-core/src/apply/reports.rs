//! What an agent saw of the ranks on its node, in the order it saw it. Each report is taken once: one that says what
//! is known already, or speaks of an attempt that state does not know, changes nothing and is answered as done.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use crate::agent::{EndedBy, Fault, RankEvent, Report};
use crate::command::{Answer, Code, Rejection};
use crate::id::NodeId;
use crate::job::{Attempt, AttemptEnd, Ended, Exit, Placement, Stop};
use crate::lifecycle::ending::told;
use crate::lifecycle::{ending, freed, started, stray};
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
    let has_ended = attempt.ended.is_some();
    let has_process = placement.started_at.is_some();
    match &report.event {
        RankEvent::Started => started::started(state, report.attempt, report.rank, report.at, now),
        RankEvent::Exited { exit, by, .. } => {
            let how = (cause(attempt, *by), *exit);
            exited(state, report, how, now);
        }
        // A rank that has a process did not fail to get one.
        RankEvent::LaunchFailed { .. } if has_process || has_ended => {}
        RankEvent::LaunchFailed { fault, what } => {
            let ended = launch_failed(*fault, what, report.at);
            ending::end(state, report.attempt, ended, now);
        }
        RankEvent::Freed => {
            // Nothing of it is left, so it has ended, even if nobody saw how.
            exited(state, report, (AttemptEnd::Exited, Exit::Unknown), now);
            freed::freed(state, report.attempt, report.rank, report.at, now);
        }
        RankEvent::Ready | RankEvent::Unkillable { .. } => {}
        // It is in the next set that the node gets.
        RankEvent::Unknown { .. } => {}
    }
}

/// Takes a report about what state never placed there, or does not have there any more.
fn take_unplaced(state: &mut State, node: NodeId, report: &Report, now: Timestamp) {
    let key = (node, report.attempt, report.rank);
    match &report.event {
        RankEvent::Freed => stray::gone(state, key, report.at, now),
        RankEvent::Unknown { gpus } => stray::found(state, key, gpus, now),
        // Its end was committed in another way, by a restart for example.
        RankEvent::Ready
        | RankEvent::Started
        | RankEvent::Exited { .. }
        | RankEvent::LaunchFailed { .. }
        | RankEvent::Unkillable { .. } => {}
    }
}

fn exited(state: &mut State, report: &Report, how: (AttemptEnd, Exit), now: Timestamp) {
    let (cause, exit) = how;
    let Some(attempt) = state.attempts.get_mut(&report.attempt) else { return };
    if attempt.ended.is_some() {
        return;
    }
    let began = attempt.started_at.or(attempt.go_at).unwrap_or(attempt.placed_at);
    let at = report.at.max(began).min(now);
    if let Some(placement) = attempt.placements.iter_mut().find(|placement| placement.rank == report.rank) {
        placement.exited.get_or_insert((at, exit));
    }
    ending::end(state, report.attempt, Ended { at, cause, exit: Some(exit) }, now);
}

/// What made the attempt end. A stop that nobody committed is no stop, whatever the node believes.
fn cause(attempt: &Attempt, by: EndedBy) -> AttemptEnd {
    match by {
        EndedBy::Itself => AttemptEnd::Exited,
        EndedBy::TimeLimit => AttemptEnd::TimeLimit,
        EndedBy::Stop if attempt.stop.is_some() => AttemptEnd::Stopped,
        EndedBy::Notice if attempt.stop.as_ref().is_some_and(Stop::has_notice) => AttemptEnd::Preempted,
        EndedBy::Stop | EndedBy::Notice => AttemptEnd::Exited,
        EndedBy::Reboot => AttemptEnd::NodeLost,
    }
}

fn launch_failed(fault: Fault, what: &str, at: Timestamp) -> Ended {
    match fault {
        Fault::Node => Ended { at, cause: AttemptEnd::LaunchFailedNode(told(what)), exit: None },
        Fault::Job { code } => {
            Ended { at, cause: AttemptEnd::LaunchFailedJob(told(what)), exit: Some(Exit::Code(code)) }
        }
    }
}
