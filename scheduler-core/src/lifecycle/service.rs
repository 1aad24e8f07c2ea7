//! A node's free GPUs come into service or leave it.

use alloc::vec::Vec;

use crate::id::NodeId;
use crate::ledger::Class;
use crate::lifecycle::gpu::class_when_free;
use crate::node::{Cordon, Gpu, Node};
use crate::state::State;
use crate::unit::{GpuCount, Timestamp};

/// Changes a node so that its free GPUs may come into service or leave it, and books that. GPUs that the change adds
/// are booked by whoever adds them.
pub fn change(state: &mut State, id: NodeId, now: Timestamp, change: impl FnOnce(&mut Node)) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let before = free_classes(node);
    change(node);
    let after = free_classes(node);
    let pool = node.pool.clone();
    for (before, after) in before.into_iter().zip(after) {
        if let (Some(from), Some(to)) = (before, after) {
            state.books.reclass(&pool, GpuCount::new(1), from, to, now);
        }
    }
}

/// Keeps new work from a node: something there cannot be ended. It stays so until an operator says otherwise; what an
/// operator said before stands.
pub fn fence(state: &mut State, id: NodeId, cordon: Cordon, now: Timestamp) {
    change(state, id, now, |node| {
        node.cordon.get_or_insert(cordon);
    });
}

/// Returns the class of each GPU that is with no attempt.
fn free_classes(node: &Node) -> Vec<Option<Class>> {
    let class = |gpu: &Gpu| gpu.holder.is_none().then(|| class_when_free(node, gpu));
    node.gpus.iter().map(class).collect()
}
