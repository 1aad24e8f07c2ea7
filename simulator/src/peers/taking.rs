//! Whom a job may take, and the fewest of them.

use scheduler_core::decision::{Basis, Price, Right, Take};
use scheduler_core::id::{AttemptId, Slot};
use scheduler_core::job::{Attempt, Job};
use scheduler_core::unit::{MilliGpus, Span};

use super::placing::{Free, On};
use crate::policy::Round;

/// So many candidates are tried for one job.
const TRIED_MAX: usize = 512;

/// An attempt that a job may take, by a right that `apply` knows.
pub(super) struct Candidate<'a> {
    pub id: AttemptId,
    pub attempt: &'a Attempt,
    pub right: Right,
}

/// Returns where a job starts if it takes some of these, in their order, and which: none of them can be left out.
pub(super) fn taking(
    round: &Round<'_>,
    free: &Free<'_>,
    job: &Job,
    candidates: &[Candidate<'_>],
) -> Option<(On, Vec<Take>)> {
    let mut with = free.clone();
    let mut chosen: Vec<&Candidate<'_>> = Vec::new();
    let mut on = None;
    for candidate in candidates.iter().take(TRIED_MAX) {
        if candidate.attempt.is_leaving() || candidate.attempt.is_protected(round.now) {
            continue;
        }
        give(&mut with, candidate);
        chosen.push(candidate);
        on = with.fit(round.state, job);
        if on.is_some() {
            break;
        }
    }
    let mut on = on?;
    // The latest is needed; of the others whoever can stay stays.
    for at in (0..chosen.len().saturating_sub(1)).rev() {
        let mut without = free.clone();
        let others = chosen.iter().enumerate().filter(|(other, _)| *other != at);
        others.for_each(|(_, candidate)| give(&mut without, candidate));
        if let Some(found) = without.fit(round.state, job) {
            on = found;
            chosen.remove(at);
        }
    }
    chosen.retain(|candidate| has_part_in(candidate.attempt, &on));
    let takes = chosen.iter().filter_map(|candidate| take(round, candidate)).collect();
    Some((on, takes))
}

/// The GPUs of an attempt that it can give up now.
fn slots<'a>(candidate: &'a Candidate<'_>, free: &'a Free<'_>) -> impl Iterator<Item = (usize, Slot)> + 'a {
    let placements = candidate.attempt.placements.iter().enumerate();
    placements.flat_map(move |(at, placement)| {
        let node = free.nodes.get(&placement.node).map(|(node, _)| *node);
        let is_held = move |slot: &Slot| {
            let gpu = node.and_then(|node| node.gpus.get(usize::from(slot.get())));
            gpu.is_some_and(|gpu| gpu.is_present && gpu.holder == Some(candidate.id) && gpu.next.is_none())
        };
        placement.slots.iter().copied().filter(is_held).map(move |slot| (at, slot))
    })
}

fn give(free: &mut Free<'_>, candidate: &Candidate<'_>) {
    let given: Vec<(usize, Slot)> = slots(candidate, free).collect();
    for (at, slot) in given {
        let node = candidate.attempt.placements.get(at).map(|placement| placement.node);
        if let Some((_, idle)) = node.and_then(|node| free.nodes.get_mut(&node)) {
            idle.push(slot);
        }
    }
}

fn has_part_in(attempt: &Attempt, on: &On) -> bool {
    on.iter().any(|(node, slots)| slots.iter().any(|slot| attempt.placement_of(*node, *slot).is_some()))
}

fn take(round: &Round<'_>, candidate: &Candidate<'_>) -> Option<Take> {
    let gpus: usize = candidate.attempt.placements.iter().map(|placement| placement.slots.len()).sum();
    let gpus = u32::try_from(gpus).ok()?;
    let preemptions = round.state.jobs.get(&candidate.id.job).map_or(0, |job| job.progress.preemptions);
    Some(Take {
        attempt: candidate.id,
        generation: candidate.attempt.placements.first()?.generation,
        right: candidate.right,
        price: Price {
            rate: MilliGpus::new(candidate.attempt.rate.get()),
            lost: Span::ZERO,
            restart: Span::ZERO,
            preemptions,
            saved_at: None,
            basis: Basis::Unknown,
        },
        gpus,
    })
}
