//! What each step of an attempt writes into the books. Occupancy and charge are written together here and nowhere
//! else, so that they cannot drift apart.

use crate::budget;
use crate::id::{AttemptId, Name, NodeId, Slot};
use crate::job::{Attempt, AttemptEnd, Ended, StopCause};
use crate::ledger::{Books, Class, Run, Weighed};
use crate::lifecycle::gpu::class_when_free;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{ChargeMillis, GpuCount, Span, Timestamp};

/// An attempt was placed: its protection is set aside.
pub fn placed(state: &mut State, attempt: &Attempt) {
    let path = budget::path(state, attempt.budget);
    state.books.placed(&Run { go: None, ..Run::of(attempt, &path) });
}

/// GPUs that were with nobody are with an attempt that has no go yet.
pub fn handed(state: &mut State, pool: &Name, on: (NodeId, &[Slot]), at: Timestamp) {
    each_free(state, on, |books, gpu, free| books.reclass(pool, gpu, free, Class::Handover, at));
}

/// An attempt without go gives GPUs back that it never used.
pub fn handed_back(state: &mut State, pool: &Name, on: (NodeId, &[Slot]), at: Timestamp) {
    each_free(state, on, |books, gpu, free| books.reclass(pool, gpu, Class::Handover, free, at));
}

/// An attempt that has all its GPUs passed its go: they are occupied and its charge begins. The attempt is as it was
/// before.
pub fn went(state: &mut State, attempt: &Attempt, at: Timestamp) {
    let path = budget::path(state, attempt.budget);
    state.books.reclass(&attempt.pool, gpus(attempt), Class::Handover, occupied(attempt), at);
    state.books.go(&Run::of(attempt, &path), at, at);
}

/// All ranks have a process since `at`: what is set aside declines from there. The attempt is as it was before.
pub fn started(state: &mut State, attempt: &Attempt, at: Timestamp, now: Timestamp) {
    let path = budget::path(state, attempt.budget);
    state.books.started(&Run::of(attempt, &path), at, now);
}

/// An attempt ended: its GPUs are overhead until proven empty, its charge ends, what was set aside leaves. Returns
/// what it was charged. The attempt is as it was before. One without go has only set something aside: see
/// [`handed_back`] for its GPUs.
pub fn ended(state: &mut State, attempt: &Attempt, ended: &Ended, now: Timestamp) -> ChargeMillis {
    if attempt.go_at.is_some() {
        let until = occupied_until(attempt, ended);
        state.books.reclass(&attempt.pool, gpus(attempt), occupied(attempt), Class::Overhead, until);
    }
    let path = budget::path(state, attempt.budget);
    state.books.ended(&Run::of(attempt, &path), charged_until(attempt, ended), now);
    charge(attempt, ended)
}

/// Returns what an ended attempt was charged: rate x time from its go to its end, to the millisecond. A launch that
/// failed by its node's fault is overhead from its go on, and charged nothing; neither is the free tier. Protection
/// that an operator cut is taken off.
#[must_use]
pub fn charge(attempt: &Attempt, ended: &Ended) -> ChargeMillis {
    match (attempt.tier, attempt.go_at) {
        (Tier::Funded, Some(go)) => ChargeMillis::of(attempt.rate, charged_until(attempt, ended).since(go)),
        (Tier::Free, _) | (Tier::Funded, None) => ChargeMillis::ZERO,
    }
}

/// Returns what an attempt was charged up to `now`, whether it runs or has ended.
#[must_use]
pub fn charge_so_far(attempt: &Attempt, now: Timestamp) -> ChargeMillis {
    match (&attempt.ended, attempt.tier, attempt.go_at) {
        (Some(ended), _, _) => charge(attempt, ended),
        (None, Tier::Funded, Some(go)) => ChargeMillis::of(attempt.rate, now.since(go)),
        (None, Tier::Free, _) | (None, Tier::Funded, None) => ChargeMillis::ZERO,
    }
}

/// A GPU of an attempt that has ended, or of a stray, was proven empty at `at`: it is with `next` now, if it was
/// promised, but never before that attempt was placed.
pub fn emptied(state: &mut State, pool: &Name, on: (NodeId, Slot), next: Option<AttemptId>, at: Timestamp) {
    let placed_at = next.and_then(|next| state.attempts.get(&next)).map(|attempt| attempt.placed_at);
    let (node, slot) = on;
    each_free(state, (node, &[slot]), |books, gpu, free| match placed_at {
        None => books.reclass(pool, gpu, Class::Overhead, free, at),
        Some(placed_at) if placed_at <= at => books.reclass(pool, gpu, Class::Overhead, Class::Handover, at),
        Some(placed_at) => {
            books.reclass(pool, gpu, Class::Overhead, free, at);
            books.reclass(pool, gpu, free, Class::Handover, placed_at);
        }
    });
}

/// Returns the class of an attempt's GPUs from its go to its end.
#[must_use]
pub fn occupied(attempt: &Attempt) -> Class {
    Class::Occupied { budget: attempt.budget, tier: attempt.tier }
}

/// Changes the books for each GPU of `on`, given the class that it has when it is with nobody.
fn each_free(state: &mut State, on: (NodeId, &[Slot]), mut change: impl FnMut(&mut Books, Weighed, Class)) {
    let (node, slots) = on;
    let Some(node) = state.nodes.get(&node) else { return };
    for slot in slots {
        if let Some(gpu) = node.gpus.get(usize::from(slot.get())) {
            change(&mut state.books, gpu.weighed(), class_when_free(node, gpu));
        }
    }
}

fn occupied_until(attempt: &Attempt, ended: &Ended) -> Timestamp {
    match (&ended.cause, attempt.go_at) {
        (AttemptEnd::LaunchFailedNode(_), Some(go)) => go,
        _ => ended.at,
    }
}

fn charged_until(attempt: &Attempt, ended: &Ended) -> Timestamp {
    let until = occupied_until(attempt, ended);
    match attempt.go_at {
        Some(go) => until.minus(cut(attempt, ended)).max(go),
        None => until,
    }
}

/// Returns how much of its protection was taken from an attempt that left for a drain.
fn cut(attempt: &Attempt, ended: &Ended) -> Span {
    match attempt.stop.as_ref().map(|stop| &stop.cause) {
        Some(StopCause::Drain { cuts, .. }) if ended.cause == AttemptEnd::Preempted => *cuts,
        _ => Span::ZERO,
    }
}

fn gpus(attempt: &Attempt) -> GpuCount {
    GpuCount::new(gpu_count(attempt))
}

/// Returns the number of an attempt's GPUs, on all its nodes.
#[must_use]
pub fn gpu_count(attempt: &Attempt) -> u32 {
    let count = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
    u32::try_from(count).unwrap_or(u32::MAX)
}
