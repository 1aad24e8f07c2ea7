//! Processes that a node reported and nobody placed. Their stop is ordered, and the idle GPUs that they hold are with
//! them until they are proven empty.

use alloc::vec::Vec;

use crate::id::{AttemptId, AttemptNo, GpuUuid, JobId, NodeId, Rank, Slot};
use crate::ledger::Class;
use crate::lifecycle::{book, gpu};
use crate::state::{State, Stray};
use crate::unit::Timestamp;

/// A node has at most so many; more are not taken before some are gone, and the agent reports again.
pub const STRAYS_MAX: usize = 256;

/// Takes a process that nobody placed; nothing twice.
pub fn found(state: &mut State, key: (NodeId, AttemptId, Rank), gpus: &[GpuUuid], now: Timestamp) {
    let (node_id, attempt, _) = key;
    if state.strays.contains(&key) || on(state, node_id).count() >= STRAYS_MAX {
        return;
    }
    let Some(node) = state.nodes.get(&node_id) else { return };
    let pool = node.pool.clone();
    let mut slots = Vec::new();
    for (at, gpu) in node.gpus.iter().enumerate() {
        if gpu.holder.is_none() && gpus.contains(&gpu.uuid) {
            let from = gpu::class_when_free(node, gpu);
            state.books.reclass(&pool, gpu.weighed(), from, Class::Overhead, now);
            slots.extend(u16::try_from(at).map(Slot::new));
        }
    }
    gpu::take(state, node_id, &slots, attempt);
    state.strays.insert(key, Stray { since: now, slots });
}

/// Takes the proof that nothing is left of one; nothing twice.
pub fn gone(state: &mut State, key: (NodeId, AttemptId, Rank), at: Timestamp, now: Timestamp) {
    let (node_id, attempt, _) = key;
    let Some(stray) = state.strays.remove(&key) else { return };
    let Some(pool) = state.nodes.get(&node_id).map(|node| node.pool.clone()) else { return };
    let at = at.max(stray.since).min(now);
    for (slot, next) in gpu::release(state, node_id, &stray.slots, attempt) {
        book::emptied(state, &pool, (node_id, slot), next, at);
    }
}

/// The machine restarted: nothing is left of any.
pub fn all_gone(state: &mut State, node: NodeId, now: Timestamp) {
    let keys: Vec<_> = on(state, node).map(|(key, _)| *key).collect();
    for key in keys {
        gone(state, key, now, now);
    }
}

/// Returns the strays of a node.
pub fn on(state: &State, node: NodeId) -> impl Iterator<Item = (&(NodeId, AttemptId, Rank), &Stray)> {
    let first = AttemptId { job: JobId::new(0), no: AttemptNo::new(0) };
    let last = AttemptId { job: JobId::new(u32::MAX), no: AttemptNo::new(u16::MAX) };
    state.strays.range((node, first, Rank::new(0))..=(node, last, Rank::new(u16::MAX)))
}
