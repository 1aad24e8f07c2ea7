//! The books say what state says: classes tile time, and every GPU, rate and set-aside is where its attempt is.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::Change;
use crate::id::{BudgetId, Name};
use crate::job::Attempt;
use crate::ledger::{Class, FREE_FLOOR, invariants};
use crate::lifecycle::{book, gpu};
use crate::node::{Gpu, Node};
use crate::pool;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{ChargeMillis, MilliGpus, Timestamp, Weight};

pub(super) fn classes_step(change: &Change<'_>) -> Result<(), String> {
    let (before, after) = (change.before, change.after);
    invariants::check_occupancy_change(&before.books, &after.books, after.meta.time)
}

pub(super) fn tree_step(change: &Change<'_>) -> Result<(), String> {
    let (before, after) = (change.before, change.after);
    invariants::check_tree_change(&before.books, &after.books, &after.budgets, after.meta.time)
}

pub(super) fn tiles(state: &State) -> Result<(), String> {
    invariants::check_occupancy(&state.books, state.meta.time)
}

pub(super) fn tree(state: &State) -> Result<(), String> {
    invariants::check_tree_sums(&state.books, &state.budgets, state.meta.time)
}

/// Counts GPUs by the class that state says they are in, and compares.
pub(super) fn as_held(state: &State) -> Result<(), String> {
    let mut wanted: BTreeMap<(&Name, Class), u32> = BTreeMap::new();
    for node in state.nodes.values() {
        for gpu in &node.gpus {
            *wanted.entry((&node.pool, class(state, node, gpu))).or_default() += 1;
        }
    }
    let now = state.meta.time;
    let booked = |(name, class): (&Name, Class)| {
        state.books.pool(name).map_or(0, |pool| pool.in_class(class, now).count.get())
    };
    let pools = state.books.pools().iter();
    let all = pools.flat_map(|(name, pool)| pool.by_class(now).map(move |(class, _)| (name, class)));
    for key in all.chain(wanted.keys().copied()) {
        let want = wanted.get(&key).copied().unwrap_or(0);
        if booked(key) != want {
            return Err(format!("{} {:?}: {want} GPUs, booked {}", key.0, key.1, booked(key)));
        }
    }
    Ok(())
}

/// Every node is in the pool of its cluster, its GPUs count what that says, and the books have as many of each weight.
pub(super) fn weights(state: &State) -> Result<(), String> {
    let mut wanted: BTreeMap<(&Name, Weight), (u64, u64)> = BTreeMap::new();
    for node in state.nodes.values() {
        let pool = pool::of_cluster(&state.pools, &node.cluster);
        if pool != node.pool {
            return Err(format!("node {} is in pool {}, its cluster in {pool}", node.name, node.pool));
        }
        for gpu in &node.gpus {
            let weight = pool::weight_of(&state.pools, &pool, &gpu.model);
            if gpu.weight != weight {
                return Err(format!("a GPU of node {} counts {}, should {weight}", node.name, gpu.weight));
            }
            if weight == Weight::ONE {
                continue;
            }
            let (all, shut) = wanted.entry((&node.pool, weight)).or_default();
            *all += 1;
            *shut += u64::from(class(state, node, gpu) == Class::Unavailable);
        }
    }
    for (name, books) in state.books.pools().iter() {
        for (weight, curves) in books.weighed().iter() {
            let want = wanted.remove(&(name, *weight)).unwrap_or_default();
            let have = (curves.installed.rate(), curves.unavailable.rate());
            if want != have {
                return Err(format!(
                    "{name}: of weight {weight} {have:?} GPUs are booked, should be {want:?}"
                ));
            }
        }
    }
    match wanted.into_iter().next() {
        None => Ok(()),
        Some(((name, weight), _)) => Err(format!("{name}: no GPU of weight {weight} is booked")),
    }
}

fn class(state: &State, node: &Node, gpu: &Gpu) -> Class {
    let Some(holder) = gpu.holder else { return gpu::class_when_free(node, gpu) };
    match state.attempts.get(&holder) {
        Some(attempt) if is_placed_on(attempt, state, gpu) && attempt.ended.is_none() => {
            match attempt.go_at {
                Some(_) => book::occupied(attempt),
                None => Class::Handover,
            }
        }
        Some(_) | None => Class::Overhead,
    }
}

/// Whether the attempt has this very GPU: a stray with the number of an attempt elsewhere doesn't.
fn is_placed_on(attempt: &Attempt, state: &State, gpu: &Gpu) -> bool {
    attempt.placements.iter().any(|placement| {
        let node = state.nodes.get(&placement.node);
        let mut slots = placement.slots.iter();
        node.is_some_and(|node| {
            slots.any(|slot| node.gpus.get(usize::from(slot.get())).is_some_and(|own| own.uuid == gpu.uuid))
        })
    })
}

type Sums = BTreeMap<(Name, BudgetId, Tier), u128>;

/// Every account's rate is the sum of what its attempts between go and end are charged.
pub(super) fn rates(state: &State) -> Result<(), String> {
    let wanted = sums(state, |attempt| match attempt.go_at {
        Some(_) => u128::from(attempt.rate.get()),
        None => 0,
    });
    compare(state, &wanted, |account, _| u128::from(account.rate().get()), "milli-GPUs are charged")
}

/// Every account has set aside what its attempts have left.
pub(super) fn set_aside(state: &State) -> Result<(), String> {
    let now = state.meta.time;
    let wanted = sums(state, |attempt| left(attempt, now).get());
    compare(state, &wanted, |account, now| account.set_aside(now).get(), "is set aside")
}

fn left(attempt: &Attempt, now: Timestamp) -> ChargeMillis {
    let (from, length) = match attempt.tier {
        Tier::Funded => (attempt.started_at, attempt.protection),
        Tier::Free => (attempt.go_at, FREE_FLOOR),
    };
    let rate: MilliGpus = attempt.rate;
    match from {
        None => ChargeMillis::of(rate, length),
        Some(from) => ChargeMillis::of(rate, from.plus(length).since(now)),
    }
}

/// Adds something up over the attempts that have not ended, for each budget on their paths.
fn sums(state: &State, of: impl Fn(&Attempt) -> u128) -> Sums {
    let mut sums = Sums::new();
    for attempt in state.attempts.values().filter(|attempt| attempt.ended.is_none()) {
        for budget in crate::budget::path(state, attempt.budget) {
            *sums.entry((attempt.pool.clone(), budget, attempt.tier)).or_default() += of(attempt);
        }
    }
    sums
}

fn compare(
    state: &State,
    wanted: &Sums,
    of: impl Fn(&crate::ledger::Account, Timestamp) -> u128,
    what: &str,
) -> Result<(), String> {
    let now = state.meta.time;
    let mut found = Sums::new();
    for (name, pool) in state.books.pools().iter() {
        for (&(budget, tier), account) in pool.accounts().iter() {
            found.insert((name.clone(), budget, tier), of(account, now));
        }
    }
    for key in wanted.keys().chain(found.keys()) {
        let (want, have) = (wanted.get(key).copied().unwrap_or(0), found.get(key).copied().unwrap_or(0));
        if want != have {
            return Err(format!("{} budget {} {:?}: {have} {what}, should be {want}", key.0, key.1, key.2));
        }
    }
    Ok(())
}
