//! Checkpoints that an agent reports: checked, and made one a attempt.

use std::collections::BTreeMap;

use proto::v1;
use scheduler_core::command::Saved;
use scheduler_core::id::{AttemptId, AttemptNo, JobId, NodeId};
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

/// Ranks in one message: more than a node can have.
pub const SAVES_MAX: usize = 4_096;

/// What a message of saves comes to.
#[derive(Debug, PartialEq, Eq, Default)]
pub struct Kept {
    /// By attempt: the newest checkpoint and the first sign of any rank here.
    pub saves: Vec<Saved>,
    /// A node whose attempt it spoke of, though nothing of that attempt is on the agent's own.
    pub foreign: Option<NodeId>,
}

/// Returns what counts of `items`: attempts with a rank on `node`. One that state does not know any more is passed
/// over: its agent may not have heard of its end yet.
pub fn keep(state: &State, node: NodeId, items: &[v1::Saved]) -> Kept {
    let mut kept = Kept::default();
    let mut newest: BTreeMap<AttemptId, Saved> = BTreeMap::new();
    for item in items {
        let Ok(no) = u16::try_from(item.attempt) else { continue };
        let attempt = AttemptId { job: JobId::new(item.job), no: AttemptNo::new(no) };
        let Some(record) = state.attempts.get(&attempt) else { continue };
        if !record.placements.iter().any(|placement| placement.node == node) {
            kept.foreign = kept.foreign.or(record.placements.first().map(|placement| placement.node));
            continue;
        }
        let saved_at = item.saved_at.map(Timestamp::from_millis);
        let signed_at = item.signed_at.map(Timestamp::from_millis);
        let entry = newest.entry(attempt).or_insert(Saved { attempt, saved_at, signed_at });
        entry.saved_at = entry.saved_at.max(saved_at);
        entry.signed_at = entry.signed_at.into_iter().chain(signed_at).min();
    }
    kept.saves = newest.into_values().collect();
    kept
}
