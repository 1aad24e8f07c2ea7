//! What each step of an attempt writes into the books. Occupancy and charge are written together here and nowhere
//! else, so that they cannot drift apart.

use crate::budget;
use crate::id::{Name, NodeId, Slot};
use crate::job::{Attempt, AttemptEnd, Ended};
use crate::ledger::{Class, Run};
use crate::lifecycle::gpu::class_when_free;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{ChargeMillis, GpuCount, Timestamp};

/// An attempt was placed on idle GPUs: they are occupied, its charge begins, its protection is set aside.
pub fn placed(state: &mut State, attempt: &Attempt, now: Timestamp) {
    let path = budget::path(state, attempt.budget);
    let run = Run { go: None, ..Run::of(attempt, &path) };
    state.books.reclass(&attempt.pool, gpus(attempt), Class::Idle, occupied(attempt), now);
    state.books.placed(&run);
    state.books.go(&run, now, now);
}

/// All ranks have a process since `at`: what is set aside declines from there. The attempt is as it was before.
pub fn started(state: &mut State, attempt: &Attempt, at: Timestamp, now: Timestamp) {
    let path = budget::path(state, attempt.budget);
    state.books.started(&Run::of(attempt, &path), at, now);
}

/// An attempt ended: its GPUs are overhead until proven empty, its charge ends, what was set aside leaves. Returns
/// what it was charged. The attempt is as it was before.
pub fn ended(state: &mut State, attempt: &Attempt, ended: &Ended, now: Timestamp) -> ChargeMillis {
    let until = charged_until(attempt, ended);
    let path = budget::path(state, attempt.budget);
    state.books.reclass(&attempt.pool, gpus(attempt), occupied(attempt), Class::Overhead, until);
    state.books.ended(&Run::of(attempt, &path), until, now);
    charge(attempt, ended)
}

/// Returns what an ended attempt was charged: rate x time from its go to its end, to the millisecond. A launch that
/// failed by its node's fault is overhead from its go on, and charged nothing; neither is the free tier.
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

/// Books GPUs that are with no attempt any more to what they are now.
pub fn free_from(state: &mut State, pool: &Name, on: (NodeId, &[Slot]), from: Class, at: Timestamp) {
    let (node, slots) = on;
    let Some(node) = state.nodes.get(&node) else { return };
    for slot in slots {
        if let Some(gpu) = node.gpus.get(usize::from(slot.get())) {
            state.books.reclass(pool, GpuCount::new(1), from, class_when_free(node, gpu), at);
        }
    }
}

/// Returns the class of an attempt's GPUs from its go to its end.
#[must_use]
pub fn occupied(attempt: &Attempt) -> Class {
    Class::Occupied { budget: attempt.budget, tier: attempt.tier }
}

fn charged_until(attempt: &Attempt, ended: &Ended) -> Timestamp {
    match (&ended.cause, attempt.go_at) {
        (AttemptEnd::LaunchFailedNode(_), Some(go)) => go,
        _ => ended.at,
    }
}

fn gpus(attempt: &Attempt) -> GpuCount {
    let count = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
    GpuCount::new(u32::try_from(count).unwrap_or(u32::MAX))
}
