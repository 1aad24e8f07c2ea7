//! What a shape takes of a node: cores, memory, and the rate of charge that follows.

use crate::id::{AttemptId, Label, Name, NodeId};
use crate::job::Attempt;
use crate::node::{Gpu, Node};
use crate::spec::Shape;
use crate::state::State;
use crate::unit::{Bytes, GpuCount, MilliGpus};

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Cores and memory of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Need {
    /// Cores.
    pub cpus: u32,
    /// Memory.
    pub memory: Bytes,
}

/// Returns what `shape` takes of `node`: what it names, else its GPUs' part, rounded down. Nothing before the node's
/// first facts.
#[must_use]
pub fn need(shape: &Shape, node: &Node) -> Need {
    let own = part_of(node, shape.gpus_per_node);
    match node.facts {
        Some(_) => Need { cpus: shape.cpus.unwrap_or(own.cpus), memory: shape.memory.unwrap_or(own.memory) },
        None => own,
    }
}

/// Returns the part of `node` that goes with so many of its GPUs, rounded down. Nothing before the node's first facts.
#[must_use]
pub fn part_of(node: &Node, gpus: GpuCount) -> Need {
    let Some(facts) = &node.facts else { return Need::default() };
    let cpus = part(u64::from(facts.cpus), gpus, count(node));
    let memory = Bytes::new(part(facts.memory.get(), gpus, count(node)));
    Need { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), memory }
}

/// Returns the rate of charge on one node in milli-GPUs: its GPUs by the weight of their type, or the dominant share of
/// what the node counts if the cores or the memory that it names are more. Rounded down. Where a node's GPUs of the type
/// asked for count differently, it is the most that they count.
#[must_use]
pub fn rate(shape: &Shape, node: &Node) -> MilliGpus {
    let whole: u128 = node.gpus.iter().map(|gpu| u128::from(gpu.weight.milli())).sum();
    let share = |asked: u64, all: u64| match all {
        0 => 0,
        all => whole * u128::from(asked) / u128::from(all),
    };
    let (cpus, memory) =
        node.facts.as_ref().map_or((0, 0), |facts| (u64::from(facts.cpus), facts.memory.get()));
    let of_type = node.gpus.iter().filter(|gpu| is_of_type(shape, gpu));
    let weight = of_type.map(|gpu| gpu.weight).max().unwrap_or_default();
    let gpus = u128::from(shape.gpus_per_node.get()) * u128::from(weight.milli());
    let milli = gpus
        .max(share(shape.cpus.map_or(0, u64::from), cpus))
        .max(share(shape.memory.map_or(0, Bytes::get), memory));
    MilliGpus::new(u64::try_from(milli).unwrap_or(u64::MAX))
}

/// Whether `gpu` is of a type that `shape` asks for: its model's name, or a part of it, in any case.
#[must_use]
pub fn is_of_type(shape: &Shape, gpu: &Gpu) -> bool {
    let Some(first) = &shape.gpu_type else { return true };
    core::iter::once(first).chain(&shape.or_types).any(|wanted| is_named(wanted, &gpu.model))
}

/// Whether `wanted` is the name of a model or a part of it, in any case.
#[must_use]
pub fn is_named(wanted: &Label, model: &Label) -> bool {
    let (wanted, model) = (wanted.as_str().as_bytes(), model.as_str().as_bytes());
    model.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted))
}

/// Whether all these GPUs are of one type that `shape` asks for.
pub fn are_of_one_type<'g>(shape: &Shape, gpus: impl Iterator<Item = &'g Gpu> + Clone) -> bool {
    shape.of_each_type().iter().any(|shape| gpus.clone().all(|gpu| is_of_type(shape, gpu)))
}

/// Returns the most nodes of one cluster, and of one group of it where the shape says so, that could each hold one node's part of `shape`, all of one type, if they were
/// empty and whole; `nodes` are those of a pool.
#[must_use]
pub fn most_together(shape: &Shape, nodes: &[&Node]) -> u32 {
    let most = |shape: &Shape| {
        let mut groups: BTreeMap<(&Name, &[Name]), u32> = BTreeMap::new();
        for node in nodes.iter().filter(|node| could_hold(shape, node)) {
            if let Some(group) = node.group(shape.within.unwrap_or(0)) {
                *groups.entry((&node.cluster, group)).or_default() += 1;
            }
        }
        groups.into_values().max().unwrap_or(0)
    };
    shape.of_each_type().iter().map(most).max().unwrap_or(0)
}

/// Whether `node` could hold one node's part of `shape` if it were empty and whole.
#[must_use]
pub fn could_hold(shape: &Shape, node: &Node) -> bool {
    if !shape.or_types.is_empty() {
        return shape.of_each_type().iter().any(|shape| could_hold(shape, node));
    }
    let Some(facts) = &node.facts else { return false };
    let gpus = node.gpus.iter().filter(|gpu| is_of_type(shape, gpu)).count();
    let need = need(shape, node);
    u32::try_from(gpus).unwrap_or(u32::MAX) >= shape.gpus_per_node.get()
        && need.cpus <= facts.cpus
        && need.memory <= facts.memory
}

/// Whether the cores and memory of a node are enough for one node's part of `shape`, once whatever leaves is gone: what
/// stops or has ended, and `leaving`, which will be told to.
#[must_use]
pub fn has_room(state: &State, node: NodeId, shape: &Shape, leaving: &BTreeSet<AttemptId>) -> bool {
    let stays = |id: &AttemptId, attempt: &Attempt| !attempt.is_leaving() && !leaving.contains(id);
    fits(state, node, shape, |record| sum(state, record, attempts_on(record), stays))
}

/// Whether the cores and memory of a node are enough for one node's part of `shape` now: processes of what leaves may
/// still be there, those of what has no go yet are not.
#[must_use]
pub fn is_free_for(state: &State, node: NodeId, shape: &Shape) -> bool {
    let is_there = |_: &AttemptId, attempt: &Attempt| attempt.go_at.is_some();
    fits(state, node, shape, |record| sum(state, record, holders(record), is_there))
}

/// Returns what the attempts on `node` take that stay there: also those that wait for their GPUs, not those that stop
/// or have ended.
#[must_use]
pub fn taken(state: &State, node: NodeId) -> Need {
    let Some(record) = state.nodes.get(&node) else { return Need::default() };
    sum(state, record, attempts_on(record), |_, attempt| !attempt.is_leaving())
}

fn fits(state: &State, node: NodeId, shape: &Shape, taken: impl FnOnce(&Node) -> Need) -> bool {
    let Some((record, facts)) = state.nodes.get(&node).and_then(|n| Some((n, n.facts.as_ref()?))) else {
        return false;
    };
    let (need, taken) = (need(shape, record), taken(record));
    need.cpus.saturating_add(taken.cpus) <= facts.cpus
        && need.memory.get().saturating_add(taken.memory.get()) <= facts.memory.get()
}

fn sum(
    state: &State,
    node: &Node,
    attempts: impl IntoIterator<Item = AttemptId>,
    counts: impl Fn(&AttemptId, &Attempt) -> bool,
) -> Need {
    let mut sum = Need::default();
    for id in attempts {
        let is_counted = state.attempts.get(&id).is_some_and(|attempt| counts(&id, attempt));
        if let Some(job) = state.jobs.get(&id.job).filter(|_| is_counted) {
            let need = need(&job.terms.shape, node);
            sum.cpus = sum.cpus.saturating_add(need.cpus);
            sum.memory = Bytes::new(sum.memory.get().saturating_add(need.memory.get()));
        }
    }
    sum
}

/// Returns the attempts that GPUs of `node` are with, strays too, each once.
#[must_use]
pub fn holders(node: &Node) -> BTreeSet<AttemptId> {
    node.gpus.iter().filter_map(|gpu| gpu.holder).collect()
}

/// Returns the attempts that GPUs of `node` are with or promised to, strays too, each once and in order: what its agent
/// hears of.
#[must_use]
pub fn attempts_on(node: &Node) -> Vec<AttemptId> {
    let mut attempts: Vec<AttemptId> =
        node.gpus.iter().flat_map(|gpu| [gpu.holder, gpu.next]).flatten().collect();
    attempts.sort_unstable();
    attempts.dedup();
    attempts
}

fn count(node: &Node) -> GpuCount {
    GpuCount::new(u32::try_from(node.gpus.len()).unwrap_or(u32::MAX))
}

fn part(whole: u64, gpus: GpuCount, all: GpuCount) -> u64 {
    let all = u128::from(all.get().max(1));
    u64::try_from(u128::from(whole) * u128::from(gpus.get()) / all).unwrap_or(u64::MAX)
}
