//! A node's free GPUs come into service or leave it.

use alloc::vec::Vec;

use crate::id::NodeId;
use crate::ledger::{Class, Weighed};
use crate::lifecycle::gpu::class_when_free;
use crate::node::{Cordon, Gpu, Node};
use crate::state::State;
use crate::unit::Timestamp;

/// Changes a node so that its free GPUs may come into service or leave it, or count differently, and books that. GPUs
/// that the change adds are booked by whoever adds them.
pub fn change(state: &mut State, id: NodeId, now: Timestamp, change: impl FnOnce(&mut Node)) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let (before, weighed) = (free_classes(node), weights(node));
    change(node);
    let (after, weights) = (free_classes(node), weights(node));
    let pool = node.pool.clone();
    for (at, (before, gpus)) in before.into_iter().zip(weighed).enumerate() {
        if let (Some(from), Some(Some(to))) = (before, after.get(at)) {
            state.books.reclass(&pool, gpus, from, *to, now);
        }
        match weights.get(at) {
            Some(Weighed { weight, .. }) if *weight != gpus.weight => {
                let class = after.get(at).copied().flatten().unwrap_or(Class::Overhead);
                state.books.reweigh(&pool, (gpus, *weight), class, now);
            }
            Some(_) | None => {}
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

/// Returns what each GPU counts.
fn weights(node: &Node) -> Vec<Weighed> {
    node.gpus.iter().map(Gpu::weighed).collect()
}
