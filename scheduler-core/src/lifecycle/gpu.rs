//! Which attempt a GPU is with and to whom it is promised, and the class that follows for one that is with none.

use alloc::vec::Vec;

use crate::id::{AttemptId, NodeId, Slot};
use crate::ledger::Class;
use crate::node::{Gpu, Node};
use crate::state::State;

/// Gives GPUs of a node to an attempt.
pub fn take(state: &mut State, node: NodeId, slots: &[Slot], attempt: AttemptId) {
    each(state, node, slots, |_, gpu| gpu.holder = Some(attempt));
}

/// Gives an attempt the GPUs that are with nobody, and promises it the others: it gets each when its holder is gone.
/// Returns those that it has at once.
pub fn claim(state: &mut State, node: NodeId, slots: &[Slot], attempt: AttemptId) -> Vec<Slot> {
    let mut held = Vec::new();
    each(state, node, slots, |slot, gpu| match gpu.holder {
        None => {
            gpu.holder = Some(attempt);
            held.push(slot);
        }
        Some(_) => gpu.next = Some(attempt),
    });
    held
}

/// Takes GPUs of a node back from an attempt: each is now with the attempt that it was promised to, or with nobody.
/// Returns them with that. Those that are with another attempt stay there.
pub fn release(
    state: &mut State,
    node: NodeId,
    slots: &[Slot],
    attempt: AttemptId,
) -> Vec<(Slot, Option<AttemptId>)> {
    let mut released = Vec::new();
    each(state, node, slots, |slot, gpu| {
        if gpu.holder == Some(attempt) {
            gpu.holder = gpu.next.take();
            released.push((slot, gpu.holder));
        }
    });
    released
}

/// Takes a promise back: whoever is next in line may get those GPUs.
pub fn unpromise(state: &mut State, node: NodeId, slots: &[Slot], attempt: AttemptId) {
    each(state, node, slots, |_, gpu| {
        if gpu.next == Some(attempt) {
            gpu.next = None;
        }
    });
}

/// Whether all of these GPUs are with `attempt`, and there.
#[must_use]
pub fn are_with(state: &State, node: NodeId, slots: &[Slot], attempt: AttemptId) -> bool {
    let Some(node) = state.nodes.get(&node) else { return false };
    let gpu = |slot: &Slot| node.gpus.get(usize::from(slot.get()));
    slots.iter().all(|slot| gpu(slot).is_some_and(|gpu| gpu.is_present && gpu.holder == Some(attempt)))
}

/// Returns the class of a GPU that is with no attempt.
#[must_use]
pub fn class_when_free(node: &Node, gpu: &Gpu) -> Class {
    if node.is_in_service(gpu) { Class::Idle } else { Class::Unavailable }
}

fn each(state: &mut State, node: NodeId, slots: &[Slot], mut change: impl FnMut(Slot, &mut Gpu)) {
    let Some(node) = state.nodes.get_mut(&node) else { return };
    for slot in slots {
        if let Some(gpu) = node.gpus.get_mut(usize::from(slot.get())) {
            change(*slot, gpu);
        }
    }
}
