//! The table of ends (DESIGN 5): what becomes of a job when an attempt ends.

use alloc::string::String;

use crate::id::AttemptNo;
use crate::job::{AttemptEnd, End, Ended, Exit, Stop, StopCause, Terms};
use crate::unit::Span;

/// After launches failed on so many different nodes, by the nodes' fault, the job is held.
pub const FAILED_NODES_MAX: usize = 3;
/// A job that took so many attempts has failed: something starts it over and over.
pub const ATTEMPTS_MAX: u16 = 10_000;
/// A job that took so many within [`RECENT`] has failed: whatever ends it at once would go on doing so.
pub const RECENT_MAX: usize = 20;
/// See [`RECENT_MAX`].
pub const RECENT: Span = Span::from_mins(1);

/// What becomes of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It waits again, at the place of its first submission.
    Wait {
        /// Whether this used up a retry.
        is_retry: bool,
    },
    /// It is held: launches failed on too many nodes. With what the last one said.
    Hold(String),
    /// It has ended.
    End(End),
}

/// What the table looks at.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The job's contract.
    pub terms: &'a Terms,
    /// How many retries were used before this end.
    pub retries_used: u16,
    /// On how many different nodes launches failed since it last started, this one included.
    pub failed_nodes: usize,
    /// The number of the attempt that ended.
    pub attempt: AttemptNo,
    /// How many of its attempts were placed within the last [`RECENT`].
    pub recent: usize,
    /// The committed stop of the attempt, if there was one.
    pub stop: Option<&'a Stop>,
    /// How it ended.
    pub ended: &'a Ended,
}

/// Returns what becomes of the job.
#[must_use]
pub fn next(case: &Case<'_>) -> Next {
    match by_cause(case) {
        Next::Wait { .. } if case.attempt.get() >= ATTEMPTS_MAX || case.recent >= RECENT_MAX => {
            Next::End(End::Failed)
        }
        next => next,
    }
}

fn by_cause(case: &Case<'_>) -> Next {
    let is_cancelled = case.stop.is_some_and(|stop| matches!(stop.cause, StopCause::Cancel { .. }));
    match &case.ended.cause {
        AttemptEnd::Exited if case.ended.exit == Some(Exit::Code(0)) => Next::End(End::Completed),
        AttemptEnd::TimeLimit => Next::End(End::TimedOut),
        // A person wanted its end, so nothing below starts it again, however the attempt came to its end.
        _ if is_cancelled => Next::End(End::Cancelled),
        AttemptEnd::Exited if is_requeue(case) => Next::Wait { is_retry: true },
        AttemptEnd::Exited => failed(case),
        AttemptEnd::Stopped => match case.stop {
            Some(_) => Next::End(End::Superseded),
            None => failed(case),
        },
        AttemptEnd::Preempted if case.terms.resumable => Next::Wait { is_retry: false },
        AttemptEnd::Preempted => Next::End(End::Preempted),
        AttemptEnd::LaunchFailedNode(what) if case.failed_nodes >= FAILED_NODES_MAX => {
            Next::Hold(what.clone())
        }
        AttemptEnd::LaunchFailedNode(_) => Next::Wait { is_retry: false },
        AttemptEnd::LaunchFailedJob(_) => Next::End(End::Failed),
        AttemptEnd::NodeLost if case.terms.resumable => Next::Wait { is_retry: false },
        AttemptEnd::NodeLost => Next::End(End::Lost),
    }
}

fn is_requeue(case: &Case<'_>) -> bool {
    match (case.terms.requeue_code, case.ended.exit) {
        (Some(code), Some(Exit::Code(exit))) => code == exit,
        _ => false,
    }
}

fn failed(case: &Case<'_>) -> Next {
    if case.retries_used < case.terms.retries {
        Next::Wait { is_retry: true }
    } else {
        Next::End(End::Failed)
    }
}
