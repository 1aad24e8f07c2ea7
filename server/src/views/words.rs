//! The words for things: stable in JSON, the same on every screen.

use scheduler_core::bill::{BillCause, Restart};
use scheduler_core::budget;
use scheduler_core::command::SetPool;
use scheduler_core::decision::{Basis, Right};
use scheduler_core::id::{BudgetId, Name, NodeId};
use scheduler_core::job::{AttemptEnd, End, Exit, StopCause};
use scheduler_core::node::Node;
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
        AttemptEnd::Preempted => "preempted",
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
        AttemptEnd::Exited
        | AttemptEnd::TimeLimit
        | AttemptEnd::Stopped
        | AttemptEnd::Preempted
        | AttemptEnd::NodeLost => None,
    }
}

/// Returns why an attempt is being stopped.
#[must_use]
pub fn stop(cause: &StopCause) -> String {
    match cause {
        StopCause::Cancel { who, reason } => format!("cancelled by {who}{}", because(reason)),
        StopCause::Unwanted => "no longer wanted".to_owned(),
        StopCause::Preempt(taken) => format!("gives way to {} ({})", taken.by, right(&taken.right)),
        StopCause::Drain { who, reason, .. } => format!("its node is drained by {who}{}", because(reason)),
        StopCause::Requeue { who, reason } => format!("requeued by {who}{}", because(reason)),
        StopCause::Rank { rank } => format!("rank {rank} has ended"),
    }
}

/// Returns what follows a word that somebody gave a reason for.
#[must_use]
pub fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// Returns the word for the right by which an attempt is taken.
#[must_use]
pub fn right(right: &Right) -> &'static str {
    match right {
        Right::FreeTier => "free-tier",
        Right::Turn => "turn",
        Right::Share { .. } => "share",
        Right::Claim { .. } => "claim",
        Right::Lane { .. } => "lane",
    }
}

/// Returns how the time that a preemption loses is known.
#[must_use]
pub fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Reported => "reported",
        Basis::Declared => "declared",
        Basis::Unknown => "unknown",
    }
}

/// Returns what a preemption was for.
#[must_use]
pub fn bill_cause(cause: BillCause) -> &'static str {
    match cause {
        BillCause::Share => "share",
        BillCause::Turn => "turn",
        BillCause::FreeTier => "free-tier",
        BillCause::Claim => "claim",
        BillCause::Lane => "lane",
        BillCause::Drain => "drain",
        BillCause::Operator => "operator",
    }
}

/// Returns how the cost of starting again is known.
#[must_use]
pub fn restart_basis(restart: Restart) -> &'static str {
    match restart {
        Restart::Measured(_) => "measured",
        Restart::Expected(_) => "expected",
        Restart::None => "none",
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

/// Returns where a node is: `block-1/rack-3`; nothing if nobody said.
#[must_use]
pub fn topology(node: &Node) -> String {
    node.topology.iter().map(Name::as_str).collect::<Vec<_>>().join("/")
}

/// Returns a place in words.
#[must_use]
pub fn path(topology: &[Name]) -> String {
    match topology {
        [] => "no group".to_owned(),
        levels => levels.iter().map(Name::as_str).collect::<Vec<_>>().join("/"),
    }
}

/// Returns what an operator said of a pool.
#[must_use]
pub fn pool(set: &SetPool) -> String {
    if set.clusters.is_empty() && set.weights.is_empty() {
        return "is no pool of its own any more".to_owned();
    }
    let clusters: Vec<&str> = set.clusters.iter().map(Name::as_str).collect();
    let weights: Vec<String> = set.weights.iter().map(|(kind, weight)| format!("{kind} {weight}")).collect();
    let clusters = if clusters.is_empty() { "its own cluster".to_owned() } else { clusters.join(", ") };
    match weights.as_slice() {
        [] => format!("has {clusters}, where every GPU counts one"),
        weights => format!("has {clusters}; weights: {}", weights.join(", ")),
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
