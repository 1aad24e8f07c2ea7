//! No GPU is with two attempts: the holder that a GPU names has it in exactly one placement, and what a placement has
//! names it as holder until proven empty.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::id::{AttemptId, NodeId, Slot};
use crate::job::Attempt;
use crate::lifecycle::stray;
use crate::node::Node;
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.nodes.iter().try_for_each(|(id, node)| check_node(state, *id, node))?;
    state.attempts.iter().try_for_each(|(id, attempt)| check_attempt(state, *id, attempt))
}

pub(super) fn step(before: &State, after: &State) -> Result<(), String> {
    for (id, node) in after.nodes.touched_since(&before.nodes) {
        check_node(after, *id, node)?;
        // Who lost a GPU must not have it any more.
        let was = before.nodes.get(id).into_iter().flat_map(|node| &node.gpus);
        let lost = was.zip(&node.gpus).filter(|(was, is)| was.holder != is.holder);
        for holder in lost.filter_map(|(was, _)| was.holder) {
            after.attempts.get(&holder).map_or(Ok(()), |attempt| check_attempt(after, holder, attempt))?;
        }
    }
    let mut attempts = after.attempts.touched_since(&before.attempts);
    attempts.try_for_each(|(id, attempt)| check_attempt(after, *id, attempt))
}

fn check_node(state: &State, id: NodeId, node: &Node) -> Result<(), String> {
    let slots = (0u16..).map(Slot::new).zip(&node.gpus);
    for (slot, gpu) in slots {
        let Some(holder) = gpu.holder else { continue };
        let placed = state.attempts.get(&holder).map_or(0, |attempt| {
            let here = attempt.placements.iter().filter(|p| p.node == id && p.freed_at.is_none());
            here.flat_map(|placement| &placement.slots).filter(|other| **other == slot).count()
        });
        let strays =
            stray::on(state, id).filter(|((_, id, _), s)| *id == holder && s.slots.contains(&slot)).count();
        if placed + strays != 1 {
            return Err(format!(
                "GPU {slot} of node {id} is with {holder}, which has it {} times",
                placed + strays
            ));
        }
    }
    Ok(())
}

fn check_attempt(state: &State, id: AttemptId, attempt: &Attempt) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for placement in &attempt.placements {
        for slot in &placement.slots {
            if !seen.insert((placement.node, *slot)) {
                return Err(format!("attempt {id} has GPU {slot} of node {} twice", placement.node));
            }
            let gpu =
                state.nodes.get(&placement.node).and_then(|node| node.gpus.get(usize::from(slot.get())));
            let holder = gpu.and_then(|gpu| gpu.holder);
            if placement.freed_at.is_none() && holder != Some(id) {
                return Err(format!(
                    "attempt {id} has GPU {slot} of node {}, which is with {holder:?}",
                    placement.node
                ));
            }
        }
    }
    Ok(())
}
