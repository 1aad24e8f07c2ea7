//! The largest job that a pool has room for, now and as protection ends.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::id::{AttemptId, Label, Name};
use crate::lifecycle::need::{Need, attempts_on, need, part_of};
use crate::lifecycle::reserve::{both, fits, whole};
use crate::node::{Gpu, Node};
use crate::plan::{Links, closes_at, is_heard};
use crate::queue::{Standing, promised_until, standing};
use crate::state::State;
use crate::unit::{GpuCount, Span, Timestamp};

/// Which GPUs count as room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Within {
    /// With nobody, and promised to nobody.
    Idle,
    /// Not protected so long from now: idle, past its protection by then, in the free tier, or being cleared, on a node
    /// that still takes work then. Whether a job may take them is a question of its budget; this is the most that any
    /// could.
    Unprotected(Span),
}

/// The moments for which room is told.
pub(super) const WITHIN: [Within; 4] = [
    Within::Idle,
    Within::Unprotected(Span::ZERO),
    Within::Unprotected(Span::from_hours(1)),
    Within::Unprotected(Span::from_hours(8)),
];

/// Room by one measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Room {
    /// Which GPUs count.
    pub within: Within,
    /// Of which model; any if none.
    pub model: Option<Label>,
    /// How many there are, on nodes that take work.
    pub gpus: u32,
    /// The largest job among them that asks for its GPUs' part of each node's cores and memory.
    pub largest: Largest,
}

/// A job over so many nodes with so many GPUs on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Largest {
    /// On how many nodes.
    pub nodes: u32,
    /// GPUs on each.
    pub gpus_per_node: u32,
}

impl Largest {
    /// Returns its GPUs.
    #[must_use]
    pub const fn gpus(self) -> u32 {
        self.nodes.saturating_mul(self.gpus_per_node)
    }

    /// Returns the largest that fits on nodes with `counts` GPUs; of several, the one on the fewest nodes.
    fn on(mut counts: Vec<u32>) -> Self {
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let mut largest = Self::default();
        for (count, nodes) in counts.into_iter().zip(1_u32..) {
            let here = Self { nodes, gpus_per_node: count };
            if here.gpus() > largest.gpus() {
                largest = here;
            }
        }
        largest
    }
}

/// Returns the room of nodes that take work: for any model, and for each if there are several.
pub(super) fn rooms(state: &State, links: &Links, nodes: &[&Node], now: Timestamp) -> Vec<Room> {
    let models: BTreeSet<&Label> =
        nodes.iter().flat_map(|node| &node.gpus).filter(|gpu| gpu.is_present).map(|gpu| &gpu.model).collect();
    let each = models.iter().copied().map(Some).filter(|_| models.len() > 1);
    let asked: Vec<Option<&Label>> = core::iter::once(None).chain(each).collect();
    let mut rooms = Vec::new();
    for model in asked {
        for within in WITHIN {
            // A job is in one cluster.
            let mut counts: BTreeMap<&Name, Vec<u32>> = BTreeMap::new();
            let mut gpus = 0_u32;
            for node in nodes {
                let counted = node.gpus.iter().filter(|gpu| {
                    model.is_none_or(|model| gpu.model == *model)
                        && is_room((state, links), node, gpu, within, now)
                });
                let count = u32::try_from(counted.count()).unwrap_or(u32::MAX);
                gpus = gpus.saturating_add(count);
                let most = with_room((state, links), node, count, within, now);
                counts.entry(&node.cluster).or_default().push(most);
            }
            let largest = counts.into_values().map(Largest::on).max_by_key(|largest| largest.gpus());
            rooms.push(Room { within, model: model.cloned(), gpus, largest: largest.unwrap_or_default() });
        }
    }
    rooms
}

/// Returns how many of `count` GPUs of a node have their part of its cores and memory beside whoever stays.
fn with_room(seen: (&State, &Links), node: &Node, count: u32, within: Within, now: Timestamp) -> u32 {
    let state = seen.0;
    let stays: BTreeSet<AttemptId> = match within {
        Within::Idle => attempts_on(node).into_iter().collect(),
        Within::Unprotected(_) => {
            let stay = node.gpus.iter().filter(|gpu| !is_room(seen, node, gpu, within, now));
            stay.filter_map(|gpu| gpu.next.or(gpu.holder)).collect()
        }
    };
    let jobs = stays.iter().filter_map(|id| state.jobs.get(&id.job));
    let taken = jobs.map(|job| need(&job.terms.shape, node)).fold(Need::default(), both);
    let has_room = |gpus: &u32| fits(both(taken, part_of(node, GpuCount::new(*gpus))), whole(node));
    (1..=count).rev().find(has_room).unwrap_or(0)
}

fn is_room(seen: (&State, &Links), node: &Node, gpu: &Gpu, within: Within, now: Timestamp) -> bool {
    match within {
        Within::Idle => standing(seen.0, node, gpu, now) == Standing::Idle,
        Within::Unprotected(span) => {
            let at = now.plus(span);
            let is_open = closes_at(node).is_none_or(|closes| at < closes);
            is_open && gpu.is_present && open_from(seen, node, gpu, now).is_some_and(|from| from <= at)
        }
    }
}

/// Returns when a GPU is idle, or past every protection that is known; none while its node gives it to nobody, or whoever
/// has it cannot be told to leave.
fn open_from((state, links): (&State, &Links), node: &Node, gpu: &Gpu, now: Timestamp) -> Option<Timestamp> {
    let by = gpu.next.or(gpu.holder).and_then(|by| state.attempts.get(&by));
    if by.is_some_and(|by| by.ended.is_none() && !is_heard(state, links, by)) {
        return None;
    }
    // What was told to leave does, also within its protection.
    if by.is_some_and(|by| by.is_leaving() && node.is_in_service(gpu)) {
        return Some(now);
    }
    if let Some(until) = promised_until(state, gpu) {
        return Some(until.map_or(now, |until| until.max(now)));
    }
    match standing(state, node, gpu, now) {
        Standing::Idle
        | Standing::Interruptible
        | Standing::Free
        | Standing::Clearing
        | Standing::Starting { until: None } => Some(now),
        Standing::Protected { until } | Standing::Starting { until: Some(until) } => Some(until.max(now)),
        Standing::Unavailable => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_largest_job_is_the_best_of_every_width() {
        let on = |counts: &[u32]| {
            let largest = Largest::on(counts.to_vec());
            (largest.nodes, largest.gpus_per_node)
        };
        assert_eq!(on(&[]), (0, 0));
        assert_eq!(on(&[0, 0]), (0, 0));
        assert_eq!(on(&[4, 8, 8]), (2, 8));
        assert_eq!(on(&[4, 8, 4]), (3, 4));
        assert_eq!(on(&[8, 4]), (1, 8), "of several the one on the fewest nodes");
        assert_eq!(vec![Largest { nodes: 3, gpus_per_node: 4 }.gpus()], [12]);
    }
}
