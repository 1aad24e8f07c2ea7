//! The queue: what starts and what waits, in order, with the numbers that make the order.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use crate::array::Task;
use crate::decision::{Plan, Start, UseOf};
use crate::explain::{Board, DateOf, Eyes, Outlook, Queued, Reason, dates, reasons, standing};
use crate::id::{BudgetId, JobId, Label, Name, Term};
use crate::job::{Job, Phase};
use crate::lifecycle::burst::Over;
use crate::lifecycle::lane::Part;
use crate::lifecycle::place::protection;
use crate::plan::{Alone, Known, Links, has_windows, plan_on, pools, walk};
use crate::spec::{Tier, Turn};
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
    let known = in_line(&mut rows, state, links, now);
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

/// A job's best place.
struct Stood<'a> {
    place: u32,
    pool: &'a Name,
    id: JobId,
    job: &'a Job,
    uses: Vec<UseOf>,
    /// Its class, by number in its pool's line.
    class: usize,
}

/// Returns those who stand in line, each with its best place, in order of places.
fn stood(state: &State, now: Timestamp) -> Vec<Stood<'_>> {
    let mut all: Vec<Stood<'_>> = Vec::with_capacity(state.line.len());
    let mut best: BTreeMap<JobId, usize> = BTreeMap::new();
    for pool in pools(state) {
        let mut place = 0_u32;
        walk(state, pool, now, |line, ask| {
            place = place.saturating_add(1);
            let before = best.get(&ask.id).copied();
            if before.is_none_or(|at| place < all[at].place) {
                let uses = line.why().levels.into_iter().map(|level| level.chosen).collect();
                let stood = Stood { place, pool, id: ask.id, job: ask.job, uses, class: ask.class };
                match before {
                    Some(at) => all[at] = stood,
                    None => {
                        best.insert(ask.id, all.len());
                        all.push(stood);
                    }
                }
            }
            ControlFlow::Continue(())
        });
    }
    all.sort_by_key(|stood| (stood.place, stood.pool));
    all
}

/// Adds the rows of those who stand in line; returns who they are.
fn in_line(rows: &mut Vec<Row>, state: &State, links: &Links, now: Timestamp) -> BTreeSet<JobId> {
    let mut known = Known::default();
    let planned = plan_on(&mut known, state, links, now, Term::new(0));
    let boards: BTreeMap<&Name, Board<'_>> =
        pools(state).into_iter().map(|pool| (pool, Board::of(state, pool, links, now))).collect();
    let dates = dates(state, &planned, now);
    let stood = stood(state, now);
    let line = InLine { state, now, boards: &boards, planned: &planned, dates: &dates };
    let found = line.reasons(&stood, &mut Alone::new(state, &known, links, now));
    let ids = stood.iter().map(|stood| stood.id).collect();
    rows.reserve(stood.len());
    rows.extend(stood.into_iter().zip(found).filter_map(|(stood, reason)| {
        let row = row(stood.id, stood.job, reason?);
        let date = dates.get(&stood.id).map(|date| date.promise.at);
        let (place, pool) = (Some(stood.place), Some(stood.pool.clone()));
        let board = boards.get(stood.pool).filter(|_| stood.job.terms.tier == Tier::Funded);
        let over = board.and_then(|board| board.uses().over_on_path(stood.job.budget));
        Some(Row { place, pool, uses: stood.uses, date, over, ..row })
    }));
    ids
}

/// What the reasons of those who stand in line follow from.
struct InLine<'a> {
    state: &'a State,
    now: Timestamp,
    boards: &'a BTreeMap<&'a Name, Board<'a>>,
    planned: &'a Plan,
    dates: &'a BTreeMap<JobId, DateOf>,
}

/// What makes two jobs see a pool alike, as [`Eyes`] do, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Alike<'a> {
    pool: &'a Name,
    tier: Tier,
    budget: BudgetId,
    turn: Turn,
    class: usize,
    protection: Span,
    part: Part,
    dated: Option<JobId>,
}

impl<'a> InLine<'a> {
    /// Returns the reasons that bind. Those who see a pool alike are told one after the other: what it looks like to them
    /// is found out once, and kept no longer.
    fn reasons(&self, stood: &[Stood<'a>], alone: &mut Alone<'a>) -> Vec<Option<Reason>> {
        let planned: BTreeMap<JobId, &Start> =
            self.planned.decisions.iter().map(|start| (start.job, start)).collect();
        let has_windows = has_windows(self.state);
        let mut order: Vec<(Alike<'_>, usize)> = self.alike(stood, has_windows).zip(0..).collect();
        order.sort_unstable();
        let mut found = vec![None; stood.len()];
        for alike in order.chunk_by(|(one, _), (other, _)| one == other) {
            let first = &stood[alike[0].1];
            let eyes = Eyes::of(self.state, first.id, first.job);
            let eyes = if has_windows { eyes } else { eyes.without_windows() };
            let outlook = Outlook::with(&self.boards[first.pool], &eyes, || alone.starts(first.id));
            let behind = self.behind_others(first, &outlook);
            for (_, at) in alike {
                let stood = &stood[*at];
                found[*at] = self.reason(stood, planned.get(&stood.id).copied(), &outlook, behind.as_ref());
            }
        }
        found
    }

    fn alike(&self, stood: &[Stood<'a>], has_windows: bool) -> impl Iterator<Item = Alike<'a>> {
        let dated: BTreeSet<JobId> = self.state.dates.keys().map(|(job, _)| *job).collect();
        stood.iter().map(move |stood| Alike {
            pool: stood.pool,
            tier: stood.job.terms.tier,
            budget: stood.job.budget,
            turn: stood.job.terms.turn,
            class: stood.class,
            protection: if has_windows { protection(self.state, stood.id, stood.job) } else { Span::ZERO },
            part: Part::of(&stood.job.terms),
            dated: dated.get(&stood.id).copied(),
        })
    }

    fn reason(
        &self,
        stood: &Stood<'_>,
        planned: Option<&Start>,
        outlook: &Outlook,
        behind: Option<&Reason>,
    ) -> Option<Reason> {
        let queued = Queued { planned, ..stood.queued(stood.place.saturating_sub(1)) };
        if planned.is_none() {
            let binds = !outlook.fits_now && self.state.meta.safe_mode.is_none();
            if let Some(date) = self.dates.get(&stood.id).filter(|_| binds) {
                return Some(date.reason(self.now));
            }
            if let Some(behind) = behind.filter(|_| queued.ahead > 0) {
                return Some(behind.clone());
            }
        }
        first(reasons(self.state, &queued, outlook))
    }

    /// Returns the reason that binds a job, and all that see the pool as it does, however many go first; none if it is
    /// just that these do.
    fn behind_others(&self, stood: &Stood<'_>, outlook: &Outlook) -> Option<Reason> {
        let behind = |ahead| first(reasons(self.state, &stood.queued(ahead), outlook));
        behind(1).filter(|reason| behind(2).as_ref() == Some(reason))
    }
}

impl<'a> Stood<'a> {
    fn queued(&self, ahead: u32) -> Queued<'a> {
        Queued { job: self.job, pool: Some(self.pool), ahead, planned: None }
    }
}
