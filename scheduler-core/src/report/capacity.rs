//! Capacity: what a pool's GPUs do, how large a job has room, and when the next protections end.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::room::{Room, rooms};
use crate::id::{AttemptId, BudgetId, Label, Name, NodeId};
use crate::node::{Gpu, Node};
use crate::plan::{Links, shut};
use crate::queue::{Standing, standing};
use crate::state::State;
use crate::unit::Timestamp;

/// How many ends of protections are told, the next first.
pub const ENDS_SHOWN: usize = 20;

/// One pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capacity {
    /// Which.
    pub pool: Name,
    /// What its GPUs do now.
    pub classes: Classes,
    /// The largest job that has room: see [`Within`](super::Within).
    pub rooms: Vec<Room>,
    /// Nodes that take work by how many of their GPUs are idle, the most first.
    pub idle: Vec<IdleNodes>,
    /// The next ends of protections, at most [`ENDS_SHOWN`] attempts.
    pub ends: Vec<Ends>,
}

/// GPUs by what they do, as the books class them; the parts add up to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes {
    /// All of them.
    pub gpus: u32,
    /// With funded attempts that nobody may take them from, from go on.
    pub protected: u32,
    /// With funded attempts past their protection.
    pub interruptible: u32,
    /// With attempts of the free tier, from go on.
    pub free_tier: u32,
    /// With nobody, on nodes in service.
    pub idle: u32,
    /// With an attempt before its go, or empty and promised to one.
    pub handover: u32,
    /// Not proven empty since an attempt ended, or with a process that nobody placed.
    pub overhead: u32,
    /// With nobody, on nodes that take no part.
    pub unavailable: u32,
}

/// Nodes alike in size and in idle GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleNodes {
    /// Idle GPUs on each.
    pub idle: u32,
    /// Of how many.
    pub of: u32,
    /// Their model, if all GPUs of the node have one.
    pub model: Option<Label>,
    /// How many such nodes.
    pub nodes: u32,
}

/// The end of one attempt's protection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// When; the latest moment, if it has not started.
    pub at: Timestamp,
    /// Which attempt.
    pub attempt: AttemptId,
    /// The name of its job.
    pub name: Label,
    /// Its leaf.
    pub budget: BudgetId,
    /// Its GPUs.
    pub gpus: u32,
}

/// Returns the capacity of each pool, by name.
#[must_use]
pub fn capacity(state: &State, links: &Links, now: Timestamp) -> Vec<Capacity> {
    let mut pools: BTreeMap<&Name, Vec<(NodeId, &Node)>> = BTreeMap::new();
    for (id, node) in state.nodes.iter() {
        pools.entry(&node.pool).or_default().push((*id, node));
    }
    let told = pools.into_iter().map(|(pool, nodes)| {
        let takes_work = |(id, node): &&(NodeId, &Node)| shut(*id, node, links, now).is_none();
        let open: Vec<&Node> = nodes.iter().filter(takes_work).map(|(_, node)| *node).collect();
        Capacity {
            pool: pool.clone(),
            classes: classes(state, &nodes, now),
            rooms: rooms(state, links, &open, now),
            idle: idle(state, &open, now),
            ends: ends(state, pool, now),
        }
    });
    told.collect()
}

fn classes(state: &State, nodes: &[(NodeId, &Node)], now: Timestamp) -> Classes {
    let mut classes = Classes::default();
    for (_, node) in nodes {
        for gpu in &node.gpus {
            *class(&mut classes, state, node, gpu, now) += 1;
            classes.gpus += 1;
        }
    }
    classes
}

fn class<'c>(classes: &'c mut Classes, state: &State, node: &Node, gpu: &Gpu, now: Timestamp) -> &'c mut u32 {
    let holder = gpu.holder.and_then(|holder| state.attempts.get(&holder));
    match standing(state, node, gpu, now) {
        Standing::Protected { .. } => &mut classes.protected,
        Standing::Interruptible => &mut classes.interruptible,
        Standing::Free => &mut classes.free_tier,
        Standing::Idle => &mut classes.idle,
        Standing::Unavailable => &mut classes.unavailable,
        Standing::Clearing => &mut classes.overhead,
        Standing::Starting { until } => match holder.filter(|attempt| attempt.go_at.is_some()) {
            None => &mut classes.handover,
            // Occupied from go on, and nobody may take it before it had its protection.
            Some(_) if until.is_some() => &mut classes.protected,
            Some(_) => &mut classes.free_tier,
        },
    }
}

fn idle(state: &State, nodes: &[&Node], now: Timestamp) -> Vec<IdleNodes> {
    let mut shapes: BTreeMap<(u32, u32, Option<&Label>), u32> = BTreeMap::new();
    for node in nodes {
        let present = node.gpus.iter().filter(|gpu| gpu.is_present);
        let (mut all, mut spare, mut models) = (0_u32, 0_u32, BTreeSet::new());
        for gpu in present {
            all += 1;
            spare += u32::from(standing(state, node, gpu, now) == Standing::Idle);
            models.insert(&gpu.model);
        }
        let model = if models.len() == 1 { models.first().copied() } else { None };
        *shapes.entry((spare, all, model)).or_default() += 1;
    }
    let rows = shapes.into_iter().rev().map(|((idle, of, model), nodes)| IdleNodes {
        idle,
        of,
        model: model.cloned(),
        nodes,
    });
    rows.filter(|row| row.idle > 0).collect()
}

fn ends(state: &State, pool: &Name, now: Timestamp) -> Vec<Ends> {
    let running = state
        .attempts
        .iter()
        .filter(|(_, attempt)| attempt.pool == *pool && attempt.stop.is_none() && attempt.is_protected(now));
    let mut ends: Vec<Ends> = running
        .filter_map(|(id, attempt)| {
            let latest = attempt.start_by.plus(attempt.protection);
            let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
            Some(Ends {
                at: attempt.protected_until().unwrap_or(latest),
                attempt: *id,
                name: state.jobs.get(&id.job)?.name.clone(),
                budget: attempt.budget,
                gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
            })
        })
        .collect();
    ends.sort_by_key(|end| (end.at, end.attempt));
    ends.truncate(ENDS_SHOWN);
    ends
}
