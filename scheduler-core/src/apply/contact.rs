//! Whether the control plane can reach a node's agent.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::context::Context;
use super::entry::DONE;
use crate::command::{Answer, Code, Rejection};
use crate::id::NodeId;
use crate::ledger::Class;
use crate::lifecycle::gpu::class_when_free;
use crate::node::{Contact, Gpu, Node};
use crate::state::State;
use crate::unit::{GpuCount, Timestamp};

/// A node was not heard of for long: it gets no work, its idle GPUs are out of service, its work stays its own.
pub(super) fn unreachable(state: &mut State, cx: &Context<'_>, id: NodeId) -> Answer {
    match known(state, id)?.contact {
        Contact::Unreachable { .. } => {}
        Contact::Joined | Contact::Ready => {
            change_service(state, id, cx.now, |node| node.contact = Contact::Unreachable { since: cx.now });
        }
    }
    DONE
}

/// An unreachable node reports again.
pub(super) fn back(state: &mut State, cx: &Context<'_>, id: NodeId) -> Answer {
    let node = known(state, id)?;
    let contact = if node.facts.is_some() { Contact::Ready } else { Contact::Joined };
    match node.contact {
        Contact::Joined | Contact::Ready => {}
        Contact::Unreachable { .. } => change_service(state, id, cx.now, |node| node.contact = contact),
    }
    DONE
}

/// Changes a node so that its free GPUs may come into service or leave it, and books that. GPUs that the change adds
/// are booked by whoever adds them.
pub(super) fn change_service(state: &mut State, id: NodeId, now: Timestamp, change: impl FnOnce(&mut Node)) {
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

/// Returns the class of each GPU that is with no attempt.
fn free_classes(node: &Node) -> Vec<Option<Class>> {
    let class = |gpu: &Gpu| gpu.holder.is_none().then(|| class_when_free(node, gpu));
    node.gpus.iter().map(class).collect()
}

fn known(state: &State, id: NodeId) -> Result<&Node, Rejection> {
    let unknown = || Rejection::new(Code::NotFound, format!("there is no node {id}"), "", String::new());
    state.nodes.get(&id).ok_or_else(unknown)
}
