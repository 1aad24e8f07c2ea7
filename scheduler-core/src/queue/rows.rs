//! The queue: what starts and what waits, in order, with the numbers that make the order.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use crate::array::Task;
use crate::decision::Start;
use crate::decision::UseOf;
use crate::explain::{Eyes, Outlook, Queued, Reason, Uses, dates, reasons, standing};
use crate::id::{BudgetId, JobId, Label, Name, Term};
use crate::job::{Job, Phase};
use crate::lifecycle::burst::{Burst, Over};
use crate::plan::{Alone, Known, Links, has_windows, plan_on, pools, walk};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// One job of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its place in its pool's line, from 1, the free tier after the funded jobs; none if it is placed, held, or fits
    /// nowhere.
    pub place: Option<u32>,
    /// The pool it stands in, or was placed in: of several the one where it is nearest to the head.
    pub pool: Option<Name>,
    /// Which job; the array in a row that stands for all its tasks.
    pub job: JobId,
    /// Its place in an array.
    pub task: Option<Task>,
    /// Its name.
    pub name: Label,
    /// Whose it is.
    pub user: Name,
    /// Its leaf.
    pub budget: BudgetId,
    /// Its GPUs.
    pub gpus: u32,
    /// Funded or free.
    pub tier: Tier,
    /// The length of its protection.
    pub min_runtime: Span,
    /// Use from the top level down to the leaf, with what the jobs before it in line will set aside: these numbers are
    /// the order.
    pub uses: Vec<UseOf>,
    /// When it was first submitted.
    pub submitted_at: Timestamp,
    /// Since when it is where it is.
    pub since: Timestamp,
    /// Why it is there: the reason that binds.
    pub reason: Reason,
    /// Its date, if it waits with one.
    pub date: Option<Timestamp>,
    /// Which budget of its has more than its burst limit, if one has: everybody else that waits goes first.
    pub over: Option<Over>,
}

/// Returns the queue: placed jobs that don't run yet, the waiting ones in order, those that fit nowhere, the held ones.
#[must_use]
pub fn rows(state: &State, links: &Links, now: Timestamp) -> Vec<Row> {
    let mut rows = starting(state, now);
    let stood = in_line(state, links, now);
    let known: BTreeSet<JobId> = stood.iter().map(|row| row.job).collect();
    rows.extend(stood);
    for id in state.line.keys().map(|place| place.job).filter(|id| !known.contains(id)) {
        let Some(job) = state.jobs.get(&id) else { continue };
        let queued = Queued { job, pool: None, ahead: 0, planned: None };
        rows.extend(first(reasons(state, &queued, &Outlook::default())).map(|reason| row(id, job, reason)));
    }
    let held = state.jobs.iter().filter(|(_, job)| matches!(job.phase, Phase::Held { .. }));
    rows.extend(held.filter_map(|(id, job)| standing_row(state, *id, job, now)));
    rows
}

fn first(reasons: Vec<Reason>) -> Option<Reason> {
    reasons.into_iter().next()
}

fn starting(state: &State, now: Timestamp) -> Vec<Row> {
    let attempts = state.attempts.iter().filter(|(_, attempt)| {
        attempt.started_at.is_none() && attempt.ended.is_none() && attempt.stop.is_none()
    });
    let rows = attempts.filter_map(|(id, attempt)| {
        let row = standing_row(state, id.job, state.jobs.get(&id.job)?, now)?;
        Some(Row { pool: Some(attempt.pool.clone()), ..row })
    });
    rows.collect()
}

pub(super) fn standing_row(state: &State, id: JobId, job: &Job, now: Timestamp) -> Option<Row> {
    let standing = standing(state, id, job, now)?;
    Some(Row { since: standing.since, ..row(id, job, standing.reason) })
}

pub(super) fn row(id: JobId, job: &Job, reason: Reason) -> Row {
    Row {
        place: None,
        pool: None,
        job: id,
        task: job.array,
        name: job.name.clone(),
        user: job.user.clone(),
        budget: job.budget,
        gpus: job.terms.shape.nodes.saturating_mul(job.terms.shape.gpus_per_node.get()),
        tier: job.terms.tier,
        min_runtime: job.terms.min_runtime,
        uses: Vec::new(),
        submitted_at: job.submitted_at,
        since: match job.phase {
            Phase::Waiting { since } => since,
            Phase::Held { .. } | Phase::Live(_) | Phase::Ended { .. } => job.submitted_at,
        },
        reason,
        date: None,
        over: None,
    }
}

/// A job's best place so far.
struct Stood<'a> {
    place: u32,
    pool: &'a Name,
    id: JobId,
    job: &'a Job,
    uses: Vec<UseOf>,
}

fn in_line(state: &State, links: &Links, now: Timestamp) -> Vec<Row> {
    let mut best: BTreeMap<JobId, Stood<'_>> = BTreeMap::new();
    for pool in pools(state) {
        let mut place = 0_u32;
        walk(state, pool, now, |line, ask| {
            place = place.saturating_add(1);
            if best.get(&ask.id).is_none_or(|stood| place < stood.place) {
                let uses = line.why().levels.into_iter().map(|level| level.chosen).collect();
                best.insert(ask.id, Stood { place, pool, id: ask.id, job: ask.job, uses });
            }
            ControlFlow::Continue(())
        });
    }
    let mut known = Known::default();
    let planned = plan_on(&mut known, state, links, now, Term::new(0));
    let dates = dates(state, &planned, now);
    let planned: BTreeMap<JobId, &Start> = planned.decisions.iter().map(|start| (start.job, start)).collect();
    let mut stood: Vec<Stood<'_>> = best.into_values().collect();
    stood.sort_by_key(|stood| (stood.place, stood.pool));
    let mut outlooks: BTreeMap<(&Name, Eyes<'_>), (Outlook, Option<Reason>)> = BTreeMap::new();
    let uses: BTreeMap<&Name, Uses<'_>> =
        pools(state).into_iter().map(|pool| (pool, Uses::new(state, pool, now))).collect();
    let bursts: BTreeMap<&Name, Burst<'_>> =
        pools(state).into_iter().filter_map(|pool| Some((pool, Burst::of(state, pool, now)?))).collect();
    let has_windows = has_windows(state);
    let mut alone = Alone::new(state, &known, links, now);
    let rows = stood.into_iter().filter_map(|stood| {
        let eyes = Eyes::of(state, stood.id, stood.job);
        let eyes = if has_windows { eyes } else { eyes.without_windows() };
        let (outlook, alike) = outlooks.entry((stood.pool, eyes.clone())).or_insert_with(|| {
            let starts = || alone.starts(stood.id);
            let outlook = Outlook::with(state, links, &uses[stood.pool], &eyes, now, starts);
            let alike = wherever_it_stands(state, &stood, &outlook);
            (outlook, alike)
        });
        let queued = Queued {
            job: stood.job,
            pool: Some(stood.pool),
            ahead: stood.place.saturating_sub(1),
            planned: planned.get(&stood.id).copied(),
        };
        let date = dates.get(&stood.id);
        let binds = |queued: &Queued<'_>, outlook: &Outlook| {
            queued.planned.is_none() && !outlook.fits_now && state.meta.safe_mode.is_none()
        };
        let reason = match (date, alike) {
            (Some(date), _) if binds(&queued, outlook) => date.reason(now),
            (_, Some(alike)) if queued.planned.is_none() => alike.clone(),
            _ => first(reasons(state, &queued, outlook))?,
        };
        let row = row(stood.id, stood.job, reason);
        let date = date.map(|date| date.promise.at);
        let (place, pool) = (Some(stood.place), Some(stood.pool.clone()));
        let burst = bursts.get(stood.pool).filter(|_| stood.job.terms.tier == Tier::Funded);
        let over = burst.and_then(|burst| burst.over_on_path(stood.job.budget));
        Some(Row { place, pool, uses: stood.uses, date, over, ..row })
    });
    rows.collect()
}

/// Returns the reason that binds a job, and all that see the pool as it does, wherever they stand in line; none if it is
/// that others go first.
fn wherever_it_stands(state: &State, stood: &Stood<'_>, outlook: &Outlook) -> Option<Reason> {
    let behind = |ahead| {
        let queued = Queued { job: stood.job, pool: Some(stood.pool), ahead, planned: None };
        first(reasons(state, &queued, outlook))
    };
    behind(1).filter(|reason| behind(2).as_ref() == Some(reason))
}
