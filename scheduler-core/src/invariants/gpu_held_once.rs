//! No GPU is with two attempts: the holder that a GPU names has it in exactly one placement, and what a placement has
//! names it as holder until proven empty. A GPU is promised to at most one attempt, which has it in its placement and
//! waits for its go; and only one that its holder gives up is.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Change;
use crate::id::{AttemptId, NodeId, Slot};
use crate::job::Attempt;
use crate::lifecycle::stray;
use crate::node::{Gpu, Node};
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.nodes.iter().try_for_each(|(id, node)| check_node(state, *id, node))?;
    state.attempts.iter().try_for_each(|(id, attempt)| check_attempt(state, *id, attempt))
}

pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    let (before, after) = (change.before, change.after);
    for (id, node) in after.nodes.touched_since(&before.nodes) {
        check_node(after, *id, node)?;
        // Who lost a GPU must not have it any more.
        let was = before.nodes.get(id).into_iter().flat_map(|node| &node.gpus);
        let had = was.zip(&node.gpus).flat_map(|(was, is)| {
            let held = was.holder.filter(|_| was.holder != is.holder);
            [held, was.next.filter(|_| was.next != is.next)]
        });
        for holder in had.flatten() {
            after.attempts.get(&holder).map_or(Ok(()), |attempt| check_attempt(after, holder, attempt))?;
        }
    }
    for (id, attempt) in &change.attempts {
        // GPUs that changed were looked at above.
        if before.attempts.get(*id).is_none_or(|was| is_of_another_place(was, attempt)) {
            check_attempt(after, **id, attempt)?;
        }
    }
    Ok(())
}

/// Whether an attempt has GPUs that it did not have before, or no longer waits for them.
fn is_of_another_place(was: &Attempt, is: &Attempt) -> bool {
    let has_more =
        || was.placements.iter().zip(&is.placements).any(|(old, new)| is.has(new) && !was.has(old));
    let is_there = || {
        let (old, new) = (was.placements.iter(), is.placements.iter());
        old.map(|p| (p.node, &p.slots)).eq(new.map(|p| (p.node, &p.slots)))
    };
    was.go_at.is_none() != is.go_at.is_none() || !is_there() || has_more()
}

fn check_node(state: &State, id: NodeId, node: &Node) -> Result<(), String> {
    let slots = (0u16..).map(Slot::new).zip(&node.gpus);
    for (slot, gpu) in slots {
        check_promise(state, id, slot, gpu)?;
        let Some(holder) = gpu.holder else { continue };
        let placed = state.attempts.get(&holder).map_or(0, |attempt| {
            let here = attempt.placements.iter().filter(|p| p.node == id && attempt.has(p));
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

fn check_promise(state: &State, id: NodeId, slot: Slot, gpu: &Gpu) -> Result<(), String> {
    let Some(next) = gpu.next else { return Ok(()) };
    let waits = |attempt: &Attempt| {
        attempt.go_at.is_none() && !attempt.is_leaving() && attempt.placement_of(id, slot).is_some()
    };
    let is_given_up = gpu.holder != Some(next)
        && gpu.holder.and_then(|holder| state.attempts.get(&holder)).is_some_and(Attempt::is_leaving);
    if state.attempts.get(&next).is_some_and(waits) && is_given_up {
        return Ok(());
    }
    Err(format!("GPU {slot} of node {id} is with {:?} and promised to {next}", gpu.holder))
}

fn check_attempt(state: &State, id: AttemptId, attempt: &Attempt) -> Result<(), String> {
    let all = attempt.placements.iter();
    let mut all: Vec<(NodeId, Slot)> =
        all.flat_map(|placement| placement.slots.iter().map(|slot| (placement.node, *slot))).collect();
    all.sort_unstable();
    if let Some([(node, slot), ..]) = all.windows(2).find(|two| two[0] == two[1]) {
        return Err(format!("attempt {id} has GPU {slot} of node {node} twice"));
    }
    for placement in &attempt.placements {
        let node = state.nodes.get(&placement.node);
        for slot in &placement.slots {
            let gpu = node.and_then(|node| node.gpus.get(usize::from(slot.get())));
            let holder = gpu.and_then(|gpu| gpu.holder);
            let waits = attempt.go_at.is_none() && gpu.is_some_and(|gpu| gpu.next == Some(id));
            if attempt.has(placement) && holder != Some(id) && !waits {
                return Err(format!(
                    "attempt {id} has GPU {slot} of node {}, which is with {holder:?}",
                    placement.node
                ));
            }
        }
    }
    Ok(())
}
