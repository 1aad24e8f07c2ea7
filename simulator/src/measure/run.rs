//! Which run it was.

use serde::{Deserialize, Serialize};

use super::number::count;
use crate::record::Record;

/// What a run was of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Run {
    /// The scenario's name.
    pub scenario: String,
    /// Who decided.
    pub policy: String,
    /// Settings different from the scenario's, as `key=value`.
    pub variant: Vec<String>,
    /// What chance was drawn from.
    pub seed: u64,
    /// When it began, in milliseconds of cluster time.
    pub begin_ms: u64,
    /// When it ended.
    pub end_ms: u64,
    /// The look-back of charge.
    pub window_ms: u64,
    /// The longest protection.
    pub cap_ms: u64,
    /// Nodes.
    pub nodes: u64,
    /// GPUs on all of them.
    pub gpus: u64,
    /// Leaves of the budget tree.
    pub leaves: u64,
    /// Attempts.
    pub attempts: u64,
    /// Rounds of planning.
    pub rounds: u64,
    /// Entries applied.
    pub entries: u64,
}

/// Returns which run it was.
pub(crate) fn run(record: &Record) -> Run {
    Run {
        scenario: record.scenario.clone(),
        policy: record.policy.clone(),
        variant: record.variant.clone(),
        seed: record.seed,
        begin_ms: record.begin.as_millis(),
        end_ms: record.end.as_millis(),
        window_ms: record.window.as_millis(),
        cap_ms: record.cap.as_millis(),
        nodes: count(&record.nodes),
        gpus: record.nodes.iter().map(|node| u64::from(node.gpus)).sum(),
        leaves: record.budgets.iter().map(|budget| u64::from(budget.is_leaf)).sum(),
        attempts: count(&record.attempts),
        rounds: record.rounds,
        entries: record.entries,
    }
}
