//! Jobs that don't wait: held, with an attempt, ended.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use super::{Reason, Stage, Token, Who};
use crate::decision::Right;
use crate::id::{AttemptId, JobId};
use crate::job::{Attempt, End, Exit, HeldBy, Job, Phase, StopCause};
use crate::node::Contact;
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
    /// Since when.
    pub since: Timestamp,
}

/// Returns where a job stands; none while it waits, which takes the whole line to explain.
#[must_use]
pub fn standing(state: &State, id: JobId, job: &Job, now: Timestamp) -> Option<Standing> {
    match &job.phase {
        Phase::Waiting { .. } => None,
        Phase::Held { since, by } => {
            Some(Standing { stage: Stage::Held, reason: held(job, by), since: *since })
        }
        Phase::Ended { at, end, exit } => {
            Some(Standing { stage: Stage::Ended, reason: ended(*end, *exit), since: *at })
        }
        Phase::Live(no) => {
            let attempt = state.attempts.get(&AttemptId { job: id, no: *no })?;
            Some(live(state, job, attempt, now))
        }
    }
}

fn held(job: &Job, by: &HeldBy) -> Reason {
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
            let text = "it gave way in the free tier before, and is tried again by itself".to_owned();
            Reason::new(Token::HeldBackoff, Who::Nobody, text).until(Some(*until))
        }
        HeldBy::Barren { preemptions } => {
            let text = format!("it was preempted {preemptions} times in a row without a new checkpoint");
            Reason::new(Token::HeldBarren, Who::You, text)
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

fn live(state: &State, job: &Job, attempt: &Attempt, now: Timestamp) -> Standing {
    if let Some(stop) = &attempt.stop {
        return Standing { stage: Stage::Stopping, reason: stopping(&stop.cause), since: stop.at };
    }
    let Some(started) = attempt.started_at else {
        let text = "it is placed, and the agent of its node starts it".to_owned();
        let reason = Reason::new(Token::StartingAgent, Who::Nobody, text).until(Some(attempt.start_by));
        return Standing { stage: Stage::Starting, reason, since: attempt.placed_at };
    };
    let stage = Stage::Running;
    if let Some(node) = unreachable(state, attempt) {
        let text = format!("it runs on {node}, which is unreachable; its GPUs stay its own");
        let reason = Reason::new(Token::RunningUnreachable, Who::Operator, text);
        return Standing { stage, reason, since: started };
    }
    let until = attempt.protected_until();
    let (token, text, since) = match until {
        None => (Token::RunningFree, "it runs in the free tier, unprotected", started),
        Some(_) if attempt.is_protected(now) => {
            (Token::RunningProtected, "nobody may take its GPUs before its minimum runtime is over", started)
        }
        Some(over) => {
            let text = "its minimum runtime is over; it runs on, charged, as no GPUs are taken back yet";
            (Token::RunningInterruptible, text, over)
        }
    };
    let is_ahead = until.filter(|over| now < *over);
    let who = if job.terms.tier == Tier::Free { Who::You } else { Who::Nobody };
    Standing { stage, reason: Reason::new(token, who, text.to_owned()).until(is_ahead), since }
}

fn stopping(cause: &StopCause) -> Reason {
    match cause {
        StopCause::Cancel { who, reason } => {
            let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Reason::new(Token::StoppingCancel, Who::Nobody, format!("{who} cancelled it{said}"))
        }
        StopCause::Unwanted => {
            let text =
                "this attempt is over for the control plane, and its process is being ended".to_owned();
            Reason::new(Token::StoppingUnwanted, Who::Nobody, text)
        }
        StopCause::Preempt(taken) => {
            let token = match taken.right {
                Right::FreeTier => Token::PreemptedFree,
                Right::Turn => Token::PreemptedTurn,
                Right::Share { .. } => Token::PreemptedShare,
            };
            Reason::new(token, Who::Nobody, format!("it gives way to {}", taken.by))
        }
        StopCause::Drain { who, reason, .. } => {
            let text = format!("{who} drains its node: {reason}");
            Reason::new(Token::PreemptedDrain, Who::Operator, text)
        }
        StopCause::Requeue { who, reason } => {
            let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            Reason::new(Token::StoppingRequeue, Who::Nobody, format!("{who} starts it again{said}"))
        }
        StopCause::Rank { rank } => {
            let text = format!("rank {rank} has ended, so the others end too");
            Reason::new(Token::StoppingRank, Who::Nobody, text)
        }
    }
}

fn unreachable<'a>(state: &'a State, attempt: &Attempt) -> Option<&'a crate::id::Name> {
    let nodes = attempt.placements.iter().filter_map(|placement| state.nodes.get(&placement.node));
    nodes.filter(|node| matches!(node.contact, Contact::Unreachable { .. })).map(|node| &node.name).next()
}
