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

/// Returns where a job starts if it takes some of these, in their order, and which: the shortest row of them with which it
/// fits, without those that have no part in where it starts.
pub(super) fn taking(
    round: &Round<'_>,
    free: &Free<'_>,
    job: &Job,
    candidates: &[Candidate<'_>],
) -> Option<(On, Vec<Take>)> {
    let may_go = |candidate: &&Candidate<'_>| {
        !candidate.attempt.is_leaving() && !candidate.attempt.is_protected(round.now)
    };
    let candidates: Vec<&Candidate<'_>> = candidates.iter().filter(may_go).take(TRIED_MAX).collect();
    let fit = |count: usize| {
        let mut with = free.clone();
        candidates.iter().take(count).for_each(|candidate| give(&mut with, candidate));
        with.fit(round.state, job)
    };
    // Whoever fits with some fits with more.
    let mut on = fit(candidates.len())?;
    let (mut too_few, mut enough) = (0, candidates.len());
    while enough - too_few > 1 {
        let half = too_few + (enough - too_few) / 2;
        match fit(half) {
            Some(found) => (on, enough) = (found, half),
            None => too_few = half,
        }
    }
    let chosen = candidates.iter().take(enough).filter(|candidate| has_part_in(candidate.attempt, &on));
    let takes = chosen.filter_map(|candidate| take(round, candidate)).collect();
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
        if let Some(placement) = candidate.attempt.placements.get(at) {
            free.give(placement.node, slot);
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
