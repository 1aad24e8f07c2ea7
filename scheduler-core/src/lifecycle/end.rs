//! The table of ends (DESIGN 5): what becomes of a job when an attempt ends.

use crate::id::AttemptNo;
use crate::job::{AttemptEnd, End, Ended, Exit, HeldBy, Progress, Stop, StopCause, Terms};
use crate::lifecycle::ending::doubled;
use crate::settings::Settings;
use crate::spec::Tier;
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
    /// It is held: until somebody releases it, or for a time.
    Hold(HeldBy),
    /// It has ended.
    End(End),
}

/// What the table looks at.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The job's contract.
    pub terms: &'a Terms,
    /// Its preemptions and checkpoints, this end counted.
    pub progress: &'a Progress,
    /// The figures of the control plane.
    pub settings: &'a Settings,
    /// How many retries were used before this end.
    pub retries_used: u16,
    /// On how many different nodes launches failed since it last started, this one included; at most one a launch.
    pub failed_nodes: usize,
    /// The number of the attempt that ended.
    pub attempt: AttemptNo,
    /// How many of its attempts were placed within the last [`RECENT`].
    pub recent: usize,
    /// Whether it ever could have had a process.
    pub had_go: bool,
    /// The committed stop of the attempt, if there was one.
    pub stop: Option<&'a Stop>,
    /// How it ended.
    pub ended: &'a Ended,
}

/// Returns what becomes of the job.
#[must_use]
pub fn next(case: &Case<'_>) -> Next {
    let is_often = case.attempt.get() >= ATTEMPTS_MAX
        // Who gave way cannot help it.
        || case.recent >= RECENT_MAX && case.ended.cause != AttemptEnd::Preempted;
    match by_cause(case) {
        Next::Wait { .. } if is_often => Next::End(End::Failed),
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
        AttemptEnd::Preempted => preempted(case),
        AttemptEnd::LaunchFailedNode(what) if case.failed_nodes >= FAILED_NODES_MAX => {
            Next::Hold(HeldBy::FailedLaunches { reason: what.clone() })
        }
        AttemptEnd::LaunchFailedNode(_) => Next::Wait { is_retry: false },
        AttemptEnd::LaunchFailedJob(_) => Next::End(End::Failed),
        AttemptEnd::NodeLost if case.terms.resumable => Next::Wait { is_retry: false },
        AttemptEnd::NodeLost => Next::End(End::Lost),
    }
}

/// It gave way. What never had a process lost nothing, and a person who wanted it started again gets that in any case.
fn preempted(case: &Case<'_>) -> Next {
    let is_requeued = case.stop.is_some_and(|stop| matches!(stop.cause, StopCause::Requeue { .. }));
    let is_taken = case.stop.is_some_and(|stop| matches!(stop.cause, StopCause::Preempt(_)));
    let progress = case.progress;
    match case.terms.tier {
        _ if is_requeued => Next::Wait { is_retry: false },
        _ if case.had_go && !case.terms.resumable => Next::End(End::Preempted),
        Tier::Free if is_taken => {
            let settings = case.settings;
            let times = u32::from(progress.preemptions);
            let wait = doubled(settings.free_backoff, settings.free_backoff_max, times);
            Next::Hold(HeldBy::Backoff { until: case.ended.at.plus(wait) })
        }
        Tier::Funded
            if case.had_go
                && progress.saved.is_some()
                && u32::from(progress.barren) >= case.settings.barren_max =>
        {
            Next::Hold(HeldBy::Barren { preemptions: progress.barren })
        }
        Tier::Free | Tier::Funded => Next::Wait { is_retry: false },
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
