//! Dates in state: what makes a node no good for one, whether a promise can be kept, and its end.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::date::{Promise, Trouble, What};
use crate::decision::Dropped;
use crate::id::{JobId, Name, NodeId, Slot};
use crate::job::Job;
use crate::lifecycle::need::{attempts_on, is_of_type, need};
use crate::lifecycle::reserve::{self, Stay};
use crate::mutant::{self, Mutant};
use crate::node::{Contact, Node};
use crate::state::State;
use crate::unit::Timestamp;

/// Returns what makes a promise impossible to keep as it is, if anything does.
#[must_use]
pub fn trouble(state: &State, id: JobId, job: &Job, promise: &Promise, now: Timestamp) -> Option<Trouble> {
    if mutant::is(Mutant::DateMoves) {
        return promise.on.first().map(|(node, _)| Trouble { node: *node, what: What::Backoff });
    }
    let at = promise.at.max(now);
    let until = reserve::claimed_until(state, id, job, at);
    promise.on.iter().find_map(|(node, slots)| {
        let Some(record) = state.nodes.get(node) else {
            return Some(Trouble { node: *node, what: What::Unreachable });
        };
        let what = no_good(record, at, until);
        let what = what.or_else(|| (!has(record, job, slots)).then_some(What::GpuGone));
        let elsewhere = || unreached(state, job, record, slots);
        what.map(|what| Trouble { node: *node, what })
            .or_else(|| elsewhere().map(|node| Trouble { node, what: What::HolderUnreachable }))
    })
}

/// Returns an unreachable node that keeps a date's node from coming free: whoever has its GPUs, or cores and memory
/// without which the job does not fit, is there too, and nobody can tell it to leave.
fn unreached(state: &State, job: &Job, node: &Node, slots: &[Slot]) -> Option<NodeId> {
    let mut least = need(&job.terms.shape, node);
    let mut last = None;
    for id in attempts_on(node) {
        let Some(attempt) = state.attempts.get(&id).filter(|attempt| !attempt.is_leaving()) else { continue };
        let Some(unreached) = attempt
            .placements
            .iter()
            .map(|placement| placement.node)
            .find(|node| state.nodes.get(node).is_none_or(|node| node.contact != Contact::Ready))
        else {
            continue;
        };
        let has = |slot: &Slot| {
            let gpu = node.gpus.get(usize::from(slot.get()));
            gpu.is_some_and(|gpu| gpu.next.or(gpu.holder) == Some(id))
        };
        if slots.iter().any(has) {
            return Some(unreached);
        }
        let theirs = state.jobs.get(&id.job).map(|job| need(&job.terms.shape, node));
        least = reserve::both(least, theirs.unwrap_or_default());
        last = Some(unreached);
    }
    last.filter(|_| !reserve::fits(least, reserve::whole(node)))
}

/// Returns what makes a node no good for a date, whose job is there until then.
#[must_use]
pub fn no_good(node: &Node, at: Timestamp, until: Timestamp) -> Option<What> {
    if node.contact != Contact::Ready || node.facts.is_none() {
        return Some(What::Unreachable);
    }
    if node.cordon.is_some() {
        return Some(What::Cordoned);
    }
    if node.drain.as_ref().is_some_and(|drain| drain.is_active || drain.begins_at < until) {
        return Some(What::Draining);
    }
    node.backoff_until.filter(|backoff| at < *backoff).map(|_| What::Backoff)
}

fn has(node: &Node, job: &Job, slots: &[Slot]) -> bool {
    slots.iter().all(|slot| {
        let gpu = node.gpus.get(usize::from(slot.get()));
        gpu.is_some_and(|gpu| gpu.is_present && is_of_type(&job.terms.shape, gpu))
    })
}

/// Checks what is promised to a waiting job against state as it is. Returns it with the date as it is then: whoever was
/// placed since it was planned has its whole protection.
///
/// # Errors
/// With what is in its way.
pub fn checked(
    state: &State,
    (id, job): (JobId, &Job),
    pool: &Name,
    promise: &Promise,
) -> Result<Promise, Dropped> {
    let shape = &job.terms.shape;
    let nodes: BTreeSet<NodeId> = promise.on.iter().map(|(node, _)| *node).collect();
    let count = u32::try_from(promise.on.len());
    if count != Ok(shape.nodes) || nodes.len() != promise.on.len() {
        return Err(Dropped::WrongShape);
    }
    let mut at = promise.at;
    let mut cluster = job.terms.cluster.as_ref();
    for (node, slots) in &promise.on {
        let node = state.nodes.get(node).ok_or(Dropped::NodeNotReady)?;
        let distinct: BTreeSet<Slot> = slots.iter().copied().collect();
        let is_whole = u32::try_from(slots.len()) == Ok(shape.gpus_per_node.get());
        let is_there = node.pool == *pool && *cluster.get_or_insert(&node.cluster) == &node.cluster;
        if !is_there || distinct.len() != slots.len() || !is_whole {
            return Err(Dropped::WrongShape);
        }
        if !has(node, job, slots) {
            return Err(Dropped::GpuTaken);
        }
        at = slots.iter().filter_map(|slot| protected_by(state, node, *slot)).fold(at, Timestamp::max);
    }
    let until = reserve::claimed_until(state, id, job, at);
    for (node_id, slots) in &promise.on {
        let Some(node) = state.nodes.get(node_id) else { return Err(Dropped::NodeNotReady) };
        if no_good(node, at, until).is_some() {
            return Err(Dropped::NodeNotReady);
        }
        check_reserved(
            state,
            (*node_id, node),
            slots,
            &Stay { job: id, need: need(shape, node), from: at, until },
        )?;
    }
    Ok(Promise { at, until, ..promise.clone() })
}

fn check_reserved(
    state: &State,
    (id, node): (NodeId, &Node),
    slots: &[Slot],
    stay: &Stay,
) -> Result<(), Dropped> {
    let mut reserved = reserve::on_node(state, id, node);
    reserved.remove(stay.job);
    if !slots.iter().all(|slot| reserved.lets(*slot, stay)) {
        return Err(Dropped::Reserved);
    }
    let whole = reserve::whole(node);
    let at_first =
        reserve::both(reserved.need_at(stay.from, stay.job), reserve::lasting(state, node, stay.from));
    let has_room = reserve::fits(reserve::both(at_first, stay.need), whole) && reserved.has_room(whole, stay);
    if has_room { Ok(()) } else { Err(Dropped::NodeFull) }
}

/// Returns when whoever has a GPU, or will have it, is past its protection at the latest.
fn protected_by(state: &State, node: &Node, slot: Slot) -> Option<Timestamp> {
    let gpu = node.gpus.get(usize::from(slot.get()))?;
    let attempt = state.attempts.get(&gpu.next.or(gpu.holder)?)?;
    (!attempt.is_leaving()).then(|| reserve::over_by(attempt))
}

/// Returns the pools in which a job has a date.
#[must_use]
pub fn pools_of(state: &State, id: JobId) -> Vec<Name> {
    state.dates.keys().filter(|(job, _)| *job == id).map(|(_, pool)| pool.clone()).collect()
}

/// The job does not wait any more: its dates end.
pub fn end(state: &mut State, id: JobId) {
    if state.dates.is_empty() {
        return;
    }
    for pool in pools_of(state, id) {
        state.dates.remove(&(id, pool));
    }
}
