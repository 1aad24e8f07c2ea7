//! Which attempt a GPU is with, and the class that follows for one that is with none.

use crate::id::{AttemptId, NodeId, Slot};
use crate::ledger::Class;
use crate::node::{Gpu, Node};
use crate::state::State;

/// Gives GPUs of a node to an attempt.
pub fn take(state: &mut State, node: NodeId, slots: &[Slot], attempt: AttemptId) {
    let Some(node) = state.nodes.get_mut(&node) else { return };
    for slot in slots {
        if let Some(gpu) = node.gpus.get_mut(usize::from(slot.get())) {
            gpu.holder = Some(attempt);
        }
    }
}

/// Takes GPUs of a node back from an attempt; those that are with another stay there.
pub fn release(state: &mut State, node: NodeId, slots: &[Slot], attempt: AttemptId) {
    let Some(node) = state.nodes.get_mut(&node) else { return };
    for slot in slots {
        if let Some(gpu) = node.gpus.get_mut(usize::from(slot.get()))
            && gpu.holder == Some(attempt)
        {
            gpu.holder = None;
        }
    }
}

/// Returns the class of a GPU that is with no attempt.
#[must_use]
pub fn class_when_free(node: &Node, gpu: &Gpu) -> Class {
    if node.is_in_service(gpu) { Class::Idle } else { Class::Unavailable }
}
