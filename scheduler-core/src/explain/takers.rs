//! Who could take the GPUs of an attempt that nobody protects, by the numbers of this moment.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::right::Uses;
use crate::budget;
use crate::decision::Right;
use crate::id::{BudgetId, JobId, Label};
use crate::job::{Attempt, Job};
use crate::lifecycle::lane::{Lane, Part};
use crate::lifecycle::need::could_hold;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// How many sides are told, and how many waiting jobs of each.
const SHOWN: usize = 20;

/// A budget, or everybody, that goes before an attempt and could take its GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taker {
    /// By which right: with both sides' numbers, the taker's first.
    pub right: Right,
    /// Jobs of it that wait now and could use a GPU of the attempt, the first of each budget first; at most 20.
    pub waiting: Vec<(JobId, Label)>,
    /// How many more there are.
    pub more: u32,
}

/// Returns who could take an attempt that is past its protection or in the free tier: sides whose use is below its own
/// side's by the margin, the lowest first, whether they have jobs in line now or not; jobs of its own budget with an
/// earlier turn; short jobs, where there is a lane for them; for the free tier, every funded job.
pub(super) fn takers(state: &State, job: &Job, attempt: &Attempt, now: Timestamp) -> Vec<Taker> {
    let waiting = waiting(state, attempt);
    let taker = |right, of: &mut dyn Iterator<Item = (JobId, &Job)>| {
        let mut waiting = Vec::new();
        let mut more = 0;
        for (id, job) in of {
            if waiting.len() < SHOWN {
                waiting.push((id, job.name.clone()));
            } else {
                more += 1;
            }
        }
        Taker { right, waiting, more }
    };
    let all = || waiting.values().flatten().copied();
    if attempt.tier == Tier::Free {
        return alloc::vec![taker(Right::FreeTier, &mut all())];
    }
    let mut takers = Vec::new();
    let own = waiting.get(&attempt.budget).into_iter().flatten().copied();
    let earlier = taker(Right::Turn, &mut own.filter(|(_, other)| other.terms.turn < job.terms.turn));
    if !earlier.waiting.is_empty() {
        takers.push(earlier);
    }
    for (right, side) in sides(state, attempt, now) {
        let below = waiting.iter().filter(|(leaf, _)| budget::path(state, **leaf).contains(&side));
        takers.push(taker(right, &mut below.flat_map(|(_, jobs)| jobs.iter().copied())));
    }
    let lane = Lane::of(state, &attempt.pool, now).filter(Lane::gives_right);
    if let Some(lane) = lane.filter(|_| Part::of(&job.terms) != Part::Lane) {
        let right = Right::Lane { occupied: lane.occupied, part: lane.part };
        let mut short = all().filter(|(_, other)| Part::of(&other.terms) == Part::Lane);
        takers.push(taker(right, &mut short));
    }
    takers
}

/// Returns the siblings, level by level, whose use is below that of the attempt's own side by the margin.
fn sides(state: &State, attempt: &Attempt, now: Timestamp) -> Vec<(Right, BudgetId)> {
    let uses = Uses::new(state, &attempt.pool, now);
    let margin = state.meta.settings.margin_ppm;
    let path = budget::path(state, attempt.budget);
    let mut sides = Vec::new();
    for (above, mine) in path.iter().zip(path.iter().skip(1)) {
        let theirs = uses.of(*mine);
        let Some(parent) = state.budgets.get(above) else { continue };
        let siblings = parent.children.iter().filter(|child| *child != mine);
        let open = siblings.filter(|child| state.budgets.get(child).is_some_and(|budget| !budget.is_closed));
        let open = open.filter(|child| uses.above_limit(**child, attempt.budget).is_none());
        let lower = open.map(|child| uses.of(*child)).filter(|used| used.is_below_by(&theirs, margin));
        let mut lower: Vec<_> = lower.collect();
        lower.sort_by(|a, b| a.cmp_use(b));
        lower.truncate(SHOWN);
        sides.extend(lower.into_iter().map(|mine| (Right::Share { mine, theirs }, mine.budget)));
    }
    sides
}

/// Returns the funded jobs in line that could use a node of the attempt, by leaf.
fn waiting<'a>(state: &'a State, attempt: &Attempt) -> BTreeMap<BudgetId, Vec<(JobId, &'a Job)>> {
    let mut waiting: BTreeMap<BudgetId, Vec<(JobId, &Job)>> = BTreeMap::new();
    let nodes: Vec<_> = attempt.placements.iter().filter_map(|p| state.nodes.get(&p.node)).collect();
    for place in state.line.keys().filter(|place| place.tier == Tier::Funded) {
        let Some(job) = state.jobs.get(&place.job) else { continue };
        let is_in_pool = job
            .terms
            .cluster
            .as_ref()
            .is_none_or(|cluster| nodes.iter().any(|node| node.cluster == *cluster));
        if is_in_pool && nodes.iter().any(|node| could_hold(&job.terms.shape, node)) {
            waiting.entry(place.budget).or_default().push((place.job, job));
        }
    }
    waiting
}
