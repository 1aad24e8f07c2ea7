//! The words for things: stable in JSON, the same on every screen.

use scheduler_core::budget;
use scheduler_core::id::{BudgetId, NodeId};
use scheduler_core::job::{AttemptEnd, End, Exit, StopCause};
use scheduler_core::principal::Actor;
use scheduler_core::spec::{TermSource, Tier};
use scheduler_core::state::State;

/// Returns the word for a job's end.
#[must_use]
pub fn end(end: End) -> &'static str {
    match end {
        End::Completed => "completed",
        End::Failed => "failed",
        End::Preempted => "preempted",
        End::TimedOut => "timed-out",
        End::Cancelled => "cancelled",
        End::Lost => "lost",
        End::Superseded => "superseded",
    }
}

/// Returns the word for an attempt's end.
#[must_use]
pub fn attempt_end(end: &AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Exited => "exited",
        AttemptEnd::TimeLimit => "time-limit",
        AttemptEnd::Stopped => "stopped",
        AttemptEnd::LaunchFailedNode(_) => "launch-failed-node",
        AttemptEnd::LaunchFailedJob(_) => "launch-failed-job",
        AttemptEnd::NodeLost => "node-lost",
    }
}

/// Returns what else an attempt's end says.
#[must_use]
pub fn attempt_detail(end: &AttemptEnd) -> Option<String> {
    match end {
        AttemptEnd::LaunchFailedNode(what) | AttemptEnd::LaunchFailedJob(what) => Some(what.clone()),
        AttemptEnd::Exited | AttemptEnd::TimeLimit | AttemptEnd::Stopped | AttemptEnd::NodeLost => None,
    }
}

/// Returns why an attempt is being stopped.
#[must_use]
pub fn stop(cause: &StopCause) -> String {
    match cause {
        StopCause::Cancel { who, reason } if reason.is_empty() => format!("cancelled by {who}"),
        StopCause::Cancel { who, reason } => format!("cancelled by {who}: {reason}"),
        StopCause::Unwanted => "no longer wanted".to_owned(),
    }
}

/// Returns an exit in words.
#[must_use]
pub fn exit(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::Unknown => "exit unknown".to_owned(),
    }
}

/// Returns the word for a tier.
#[must_use]
pub fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Funded => "funded",
        Tier::Free => "free",
    }
}

/// Returns where a term came from.
#[must_use]
pub fn source(source: TermSource) -> &'static str {
    match source {
        TermSource::Submission => "submission",
        TermSource::BudgetDefault => "budget default",
        TermSource::Unsaid => "not said",
    }
}

/// Returns who acted.
#[must_use]
pub fn actor(actor: &Actor) -> String {
    match actor {
        Actor::Principal(name) => name.to_string(),
        Actor::Agent(node) => format!("agent of node {node}"),
        Actor::Replica(replica) => format!("replica {replica}"),
    }
}

/// Returns a node's name.
#[must_use]
pub fn node_name(state: &State, node: NodeId) -> String {
    state.nodes.get(&node).map_or_else(|| format!("node {node}"), |node| node.name.to_string())
}

/// Returns a budget's path; the root's name for the root.
#[must_use]
pub fn budget_path(state: &State, id: BudgetId) -> String {
    budget::label(state, id)
}
