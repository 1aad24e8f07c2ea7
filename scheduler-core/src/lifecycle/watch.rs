//! Drains with a deadline look again when the next notice is due. When that is follows from the attempts on the node
//! that nobody told to leave yet, so every change of one of those goes through here.

use alloc::collections::BTreeSet;

use crate::id::{AttemptId, NodeId};
use crate::lifecycle::need;
use crate::node::Urgency;
use crate::state::{State, Timer};
use crate::unit::Timestamp;

/// Changes an attempt, and what follows for the drains of its nodes.
pub fn changing(state: &mut State, id: AttemptId, change: impl FnOnce(&mut State)) {
    let placements = state.attempts.get(&id).map(|attempt| attempt.placements.as_slice());
    let nodes = placements.unwrap_or_default().iter().map(|placement| placement.node);
    let is_drained = |node: &NodeId| state.nodes.get(node).is_some_and(|node| node.drain.is_some());
    let nodes: BTreeSet<NodeId> = nodes.filter(is_drained).collect();
    on_nodes(state, &nodes, change);
}

/// Changes the drain of a node, and when it looks again.
pub fn changing_drain(state: &mut State, node: NodeId, change: impl FnOnce(&mut State)) {
    on_nodes(state, &BTreeSet::from([node]), change);
}

fn on_nodes(state: &mut State, nodes: &BTreeSet<NodeId>, change: impl FnOnce(&mut State)) {
    for node in nodes {
        if let Some(at) = looks_at(state, *node) {
            state.timers.remove(&(at, Timer::Drain(*node)));
        }
    }
    change(state);
    for node in nodes {
        if let Some(at) = looks_at(state, *node) {
            state.timers.insert((at, Timer::Drain(*node)), ());
        }
    }
}

/// Returns when time alone changes something about the drain of a node: its begin, or the next notice before its
/// deadline.
#[must_use]
pub fn looks_at(state: &State, node: NodeId) -> Option<Timestamp> {
    let record = state.nodes.get(&node)?;
    let drain = record.drain.as_ref()?;
    match drain.urgency {
        _ if !drain.is_active => Some(drain.begins_at),
        Urgency::Normal | Urgency::Now => None,
        Urgency::Deadline(deadline) => {
            let notice = |id: AttemptId| {
                let attempt = state.attempts.get(&id).filter(|attempt| !attempt.is_leaving())?;
                let is_here = attempt.placements.iter().any(|placement| placement.node == node);
                let grace = state.jobs.get(&id.job)?.terms.grace;
                is_here.then(|| deadline.minus(grace))
            };
            need::attempts_on(record).into_iter().filter_map(notice).min()
        }
    }
}
