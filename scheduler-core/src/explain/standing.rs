//! Jobs that don't wait: held, with an attempt, ended.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{Reason, Stage, Token, Who, before, preempted, starting};
use crate::id::{AttemptId, JobId};
use crate::job::{Attempt, AttemptEnd, End, Ended, Exit, HeldBy, Job, Phase, Stop, StopCause};
use crate::node::{Contact, Node};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// Where a job stands, why, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// In one word.
    pub stage: Stage,
    /// Why.
    pub reason: Reason,
    /// What else there is to say, in order.
    pub more: Vec<Reason>,
    /// Since when.
    pub since: Timestamp,
}

impl Standing {
    fn new(stage: Stage, reason: Reason, since: Timestamp) -> Self {
        Self { stage, reason, more: Vec::new(), since }
    }
}

/// Returns where a job stands; none while it waits, which takes the whole line to explain.
#[must_use]
pub fn standing(state: &State, id: JobId, job: &Job, now: Timestamp) -> Option<Standing> {
    match &job.phase {
        Phase::Waiting { .. } => None,
        Phase::Held { since, by } => Some(Standing::new(Stage::Held, held(state, id, job, by), *since)),
        Phase::Ended { at, end, exit } => Some(Standing::new(Stage::Ended, ended(*end, *exit), *at)),
        Phase::Live(no) => {
            let id = AttemptId { job: id, no: *no };
            Some(live(state, id, job, state.attempts.get(&id)?, now))
        }
    }
}

fn held(state: &State, id: JobId, job: &Job, by: &HeldBy) -> Reason {
    match by {
        HeldBy::Person { who, reason } => {
            let (token, by) = match *who == job.user {
                true => (Token::HeldUser, Who::You),
                false => (Token::HeldOperator, Who::Operator),
            };
            let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Reason::new(token, by, format!("{who} holds it{said}"))
        }
        HeldBy::FailedLaunches { reason } => {
            let text = format!("its launch failed on three nodes, the last one said: {reason}");
            Reason::new(Token::HeldLaunch, Who::You, text)
        }
        HeldBy::Backoff { until } => {
            let times = match job.progress.preemptions {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            let text = format!("it gave way in the free tier {times}, and is tried again by itself");
            Reason::new(Token::HeldBackoff, Who::Nobody, text).until(Some(*until))
        }
        HeldBy::Barren { preemptions } => {
            let text = format!(
                "it was preempted {preemptions} times in a row without a new checkpoint: a shorter interval, or a \
                 longer minimum runtime, lets it get on; then release it"
            );
            Reason::new(Token::HeldBarren, Who::You, text)
        }
        HeldBy::Begin { until } => {
            let text = "its submission says that it is not to begin earlier".to_owned();
            Reason::new(Token::HeldBegin, Who::You, text).until(Some(*until))
        }
        HeldBy::Dependency { never } => {
            Reason::new(Token::HeldDependency, Who::You, before::sentence(state, id, job, *never))
        }
    }
}

fn ended(end: End, exit: Option<Exit>) -> Reason {
    let how = match exit {
        None => String::new(),
        Some(Exit::Code(code)) => format!(" with exit code {code}"),
        Some(Exit::Signal(signal)) => format!(" by signal {signal}"),
        Some(Exit::Unknown) => ", nobody saw how".to_owned(),
    };
    let (token, who, what) = match end {
        End::Completed => (Token::EndedCompleted, Who::Nobody, "it completed".to_owned()),
        End::Failed => (Token::EndedFailed, Who::You, format!("it failed{how}")),
        End::Preempted => {
            (Token::EndedPreempted, Who::You, "its GPUs were taken and it does not resume".to_owned())
        }
        End::TimedOut => (Token::EndedTimedOut, Who::You, "it reached its time limit".to_owned()),
        End::Cancelled => (Token::EndedCancelled, Who::Nobody, "it was cancelled".to_owned()),
        End::Lost => (Token::EndedLost, Who::You, "its node was lost and it does not resume".to_owned()),
        End::Superseded => (Token::EndedSuperseded, Who::Nobody, "another attempt replaced it".to_owned()),
    };
    Reason::new(token, who, what)
}

/// Returns how one attempt ended, whatever became of its job.
pub(super) fn attempt_ended(state: &State, job: &Job, stop: Option<&Stop>, how: &Ended) -> Reason {
    let stopped = || match stop.map(|stop| (&stop.cause, stop)) {
        Some((StopCause::Cancel { .. }, _)) => ended(End::Cancelled, how.exit),
        Some((StopCause::Rank { .. }, stop)) => {
            Reason::new(Token::StoppingRank, Who::You, preempted::why(state, stop))
        }
        Some((
            StopCause::Unwanted | StopCause::Preempt(_) | StopCause::Drain { .. } | StopCause::Requeue { .. },
            _,
        ))
        | None => ended(End::Superseded, how.exit),
    };
    match &how.cause {
        AttemptEnd::Exited if how.exit == Some(Exit::Code(0)) => ended(End::Completed, how.exit),
        AttemptEnd::Exited => ended(End::Failed, how.exit),
        AttemptEnd::TimeLimit => ended(End::TimedOut, how.exit),
        AttemptEnd::Stopped => stopped(),
        AttemptEnd::Preempted => {
            let told =
                stop.and_then(|stop| Some((preempted::token(job, stop)?, preempted::why(state, stop))));
            match told {
                Some((token, why)) => Reason::new(token, Who::Nobody, format!("it was preempted: {why}")),
                None => stopped(),
            }
        }
        AttemptEnd::LaunchFailedNode(what) => {
            let text = format!("its launch failed, and its node is to blame: {what}");
            Reason::new(Token::LaunchNode, Who::Operator, text)
        }
        AttemptEnd::LaunchFailedJob(what) => Reason::new(
            Token::LaunchJob,
            Who::You,
            format!("its launch failed, and the job is to blame: {what}"),
        ),
        AttemptEnd::NodeLost => {
            let text = "its node restarted or was lost: a failure, not a preemption".to_owned();
            Reason::new(Token::EndedLost, Who::Operator, text)
        }
    }
}

fn live(state: &State, id: AttemptId, job: &Job, attempt: &Attempt, now: Timestamp) -> Standing {
    if let Some(stop) = &attempt.stop {
        return Standing::new(Stage::Stopping, stopping(state, job, attempt, stop), stop.at);
    }
    let Some(started) = attempt.started_at else {
        let mut reasons = starting::reasons(state, id, attempt).into_iter();
        let first = reasons.next().expect("what has not started waits for something");
        let more = reasons.chain(draining(state, attempt)).collect();
        return Standing { more, ..Standing::new(Stage::Starting, first, attempt.placed_at) };
    };
    let stage = Stage::Running;
    let (running, since) = running(job, attempt, started, now);
    let more = draining(state, attempt);
    match unreachable(state, attempt) {
        None => Standing { more, ..Standing::new(stage, running, since) },
        Some(node) => {
            let text = format!("it runs on {node}, which is unreachable; its GPUs stay its own");
            let reason = Reason::new(Token::RunningUnreachable, Who::Operator, text);
            let more = [vec![running], more].concat();
            Standing { more, ..Standing::new(stage, reason, started) }
        }
    }
}

fn running(job: &Job, attempt: &Attempt, started: Timestamp, now: Timestamp) -> (Reason, Timestamp) {
    let until = attempt.protected_until();
    let (token, text, since) = match until {
        None => {
            let text =
                "it runs in the free tier, not charged, and gives way as soon as a funded job needs its GPUs";
            (Token::RunningFree, text, started)
        }
        Some(_) if attempt.is_protected(now) => {
            (Token::RunningProtected, "nobody may take its GPUs before its minimum runtime is over", started)
        }
        Some(over) => {
            let text = "its minimum runtime is over; it runs on, charged, until a job that goes before it needs its GPUs";
            (Token::RunningInterruptible, text, over)
        }
    };
    let is_ahead = until.filter(|over| now < *over);
    let who = if job.terms.tier == Tier::Free { Who::You } else { Who::Nobody };
    (Reason::new(token, who, text.to_owned()).until(is_ahead), since)
}

fn stopping(state: &State, job: &Job, attempt: &Attempt, stop: &Stop) -> Reason {
    let kill = stop.killed_at();
    if let Some(token) = preempted::token(job, stop) {
        let who = if matches!(stop.cause, StopCause::Drain { .. }) { Who::Operator } else { Who::Nobody };
        return Reason::new(token, who, preempted::why(state, stop)).until(Some(kill));
    }
    let (token, text) = match &stop.cause {
        StopCause::Cancel { .. } => (Token::StoppingCancel, preempted::why(state, stop)),
        StopCause::Rank { rank } => {
            let lost = attempt.placements.iter().find(|placement| placement.rank == *rank);
            let node = lost.and_then(|placement| state.nodes.get(&placement.node));
            let on = node.map_or_else(String::new, |node| format!(" on {}", node.name));
            let how = match attempt.first_end.as_ref().map(|end| (&end.cause, end.exit)) {
                Some((AttemptEnd::NodeLost, _)) => "was lost with its node".to_owned(),
                Some((AttemptEnd::LaunchFailedNode(what) | AttemptEnd::LaunchFailedJob(what), _)) => {
                    format!("could not be launched ({what})")
                }
                Some((AttemptEnd::TimeLimit, _)) => "reached its time limit".to_owned(),
                Some((_, Some(exit))) => starting::exit(exit),
                Some((_, None)) | None => "has ended".to_owned(),
            };
            (Token::StoppingRank, format!("rank {rank}{on} {how}, so the others end too"))
        }
        StopCause::Unwanted | StopCause::Preempt(_) | StopCause::Drain { .. } | StopCause::Requeue { .. } => {
            (Token::StoppingUnwanted, preempted::why(state, stop))
        }
    };
    Reason::new(token, Who::Nobody, text).until(Some(kill))
}

fn nodes<'a>(state: &'a State, attempt: &'a Attempt) -> impl Iterator<Item = &'a Node> {
    attempt.placements.iter().filter_map(|placement| state.nodes.get(&placement.node))
}

/// Returns what a drain of one of its nodes means to an attempt that was told nothing yet.
fn draining(state: &State, attempt: &Attempt) -> Vec<Reason> {
    let mut drained = nodes(state, attempt).filter_map(|node| Some((node, node.drain.as_ref()?)));
    let Some((node, drain)) = drained.next() else { return Vec::new() };
    let until = attempt.protected_until();
    let (text, until) = match drain.is_active {
        true => {
            (format!("{} drains ({}): it leaves when its protection ends", node.name, drain.reason), until)
        }
        false => {
            let text = format!(
                "{} is to be drained ({}): then it leaves, or when its protection ends if that is later",
                node.name, drain.reason
            );
            (text, Some(until.map_or(drain.begins_at, |until| until.max(drain.begins_at))))
        }
    };
    vec![Reason::new(Token::RunningDraining, Who::Operator, text).until(until)]
}

fn unreachable<'a>(state: &'a State, attempt: &'a Attempt) -> Option<&'a crate::id::Name> {
    nodes(state, attempt)
        .find(|node| matches!(node.contact, Contact::Unreachable { .. }))
        .map(|node| &node.name)
}
