//! What the GPUs of a node and of a pool do now.

use crate::id::Name;
use crate::job::Attempt;
use crate::node::{Gpu, Node};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// What one GPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// With an attempt that nobody may take it from.
    Protected {
        /// Until when.
        until: Timestamp,
    },
    /// With a funded attempt past its protection.
    Interruptible,
    /// With an attempt of the free tier.
    Free,
    /// With an attempt whose processes do not run yet.
    Starting {
        /// The latest end of its protection; none in the free tier.
        until: Option<Timestamp>,
    },
    /// With an attempt whose process ended, or with a process that nobody placed: until it is proven empty.
    Clearing,
    /// With nobody.
    Idle,
    /// With nobody, and its node takes no part, or it does not answer.
    Unavailable,
}

/// Returns what `gpu` of `node` does at `now`.
#[must_use]
pub fn standing(state: &State, node: &Node, gpu: &Gpu, now: Timestamp) -> Standing {
    let Some(holder) = gpu.holder else {
        return match promised_until(state, gpu) {
            Some(until) => Standing::Starting { until },
            None if node.is_in_service(gpu) => Standing::Idle,
            None => Standing::Unavailable,
        };
    };
    let live = state.attempts.get(&holder).filter(|attempt| attempt.ended.is_none());
    let Some(attempt) = live.filter(|_| !is_with_stray(state, node, gpu)) else {
        return Standing::Clearing;
    };
    if attempt.started_at.is_none() {
        return Standing::Starting { until: latest_end(attempt) };
    }
    match attempt.protected_until() {
        None => Standing::Free,
        Some(until) if attempt.is_protected(now) => Standing::Protected { until },
        Some(_) => Standing::Interruptible,
    }
}

/// Whether `gpu` of `node` is with a process that nobody placed there; the attempt that it names may be live elsewhere.
#[must_use]
pub fn is_with_stray(state: &State, node: &Node, gpu: &Gpu) -> bool {
    state.strays.iter().any(|((on, attempt, _), stray)| {
        gpu.holder == Some(*attempt)
            && state.nodes.get(on).is_some_and(|on| on.name == node.name)
            && stray
                .slots
                .iter()
                .any(|slot| node.gpus.get(usize::from(slot.get())).is_some_and(|here| here.uuid == gpu.uuid))
    })
}

/// Returns the latest end of the protection of the attempt that `gpu` is promised to, once its holder is gone; the
/// inner one is none in the free tier, the outer one if it is promised to nobody.
#[must_use]
pub fn promised_until(state: &State, gpu: &Gpu) -> Option<Option<Timestamp>> {
    let next = state.attempts.get(&gpu.next?)?;
    Some(latest_end(next))
}

/// Returns when the protection of an attempt ends at the latest, before it has started; none in the free tier.
fn latest_end(attempt: &Attempt) -> Option<Timestamp> {
    (attempt.tier == Tier::Funded).then(|| attempt.start_by.plus(attempt.protection))
}

/// GPUs by what they do; they add up to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// All of them.
    pub gpus: u32,
    /// With attempts that nobody may take them from.
    pub protected: u32,
    /// With funded attempts past their protection.
    pub interruptible: u32,
    /// With attempts of the free tier.
    pub free_tier: u32,
    /// With nobody.
    pub idle: u32,
    /// With nobody, on nodes that take no part.
    pub unavailable: u32,
    /// With an attempt before its processes run, or after they ended.
    pub changing: u32,
}

impl Counts {
    fn add(&mut self, standing: Standing) {
        let kind = match standing {
            Standing::Protected { .. } => &mut self.protected,
            Standing::Interruptible => &mut self.interruptible,
            Standing::Free => &mut self.free_tier,
            Standing::Idle => &mut self.idle,
            Standing::Unavailable => &mut self.unavailable,
            Standing::Starting { .. } | Standing::Clearing => &mut self.changing,
        };
        *kind += 1;
        self.gpus += 1;
    }
}

/// Counts a node's GPUs.
#[must_use]
pub fn of_node(state: &State, node: &Node, now: Timestamp) -> Counts {
    let mut counts = Counts::default();
    node.gpus.iter().for_each(|gpu| counts.add(standing(state, node, gpu, now)));
    counts
}

/// Counts a pool's GPUs.
#[must_use]
pub fn of_pool(state: &State, pool: &Name, now: Timestamp) -> Counts {
    let mut counts = Counts::default();
    for node in state.nodes.values().filter(|node| node.pool == *pool) {
        node.gpus.iter().for_each(|gpu| counts.add(standing(state, node, gpu, now)));
    }
    counts
}
