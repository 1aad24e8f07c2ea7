//! Who goes before a waiting job, and where their paths part.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use crate::decision::{UseOf, Why};
use crate::id::{BudgetId, JobId, Label, Name};
use crate::job::Job;
use crate::plan::{Ask, Line, pools, walk};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// How many of the jobs ahead are named, the nearest to the head first.
pub const AHEAD_SHOWN: usize = 20;

/// One job that goes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// Which.
    pub job: JobId,
    /// Its name.
    pub name: Label,
    /// Its leaf.
    pub budget: BudgetId,
    /// Its GPUs.
    pub gpus: u32,
    /// Funded or free.
    pub tier: Tier,
    /// The uses at the level where the paths part, theirs first; none within one budget, and where a funded job goes
    /// before one of the free tier.
    pub parted: Option<(UseOf, UseOf)>,
}

/// A waiting job's place in one pool's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The pool.
    pub pool: Name,
    /// From 1; the free tier follows the funded jobs.
    pub place: u32,
    /// GPUs of all jobs ahead.
    pub gpus_ahead: u32,
    /// The first jobs ahead, at most [`AHEAD_SHOWN`].
    pub ahead: Vec<Ahead>,
    /// Its own levels, as compared when its turn comes.
    pub why: Why,
}

/// Returns a waiting job's place: in the pool where it is nearest to the head, if it stands in several.
///
/// This walks the line up to the job: about a microsecond for each job ahead.
#[must_use]
pub fn place(state: &State, job: JobId, now: Timestamp) -> Option<Place> {
    place_within(state, job, now, u32::MAX)
}

/// Returns a waiting job's place like [`place`]; none if more than `limit` jobs go first: a receipt does not walk a
/// long line.
#[must_use]
pub fn place_within(state: &State, job: JobId, now: Timestamp, limit: u32) -> Option<Place> {
    let places = pools(state).into_iter().filter_map(|pool| place_in(state, pool, job, now, limit));
    places.min_by_key(|place| place.place)
}

fn place_in(state: &State, pool: &Name, job: JobId, now: Timestamp, limit: u32) -> Option<Place> {
    let mine = state.jobs.get(&job)?;
    let mut found = None;
    let (mut before, mut gpus_ahead, mut ahead) = (0_u32, 0_u32, Vec::new());
    walk(state, pool, now, |line, ask| {
        if ask.id == job {
            found = Some(line.why());
            return ControlFlow::Break(());
        }
        if before >= limit {
            return ControlFlow::Break(());
        }
        before = before.saturating_add(1);
        gpus_ahead = gpus_ahead.saturating_add(gpus(ask.job));
        if ahead.len() < AHEAD_SHOWN {
            ahead.push(one(line, &ask, mine.budget));
        }
        ControlFlow::Continue(())
    });
    let why = found?;
    Some(Place { pool: pool.clone(), place: before.saturating_add(1), gpus_ahead, ahead, why })
}

fn one(line: &Line<'_>, ask: &Ask<'_>, mine: BudgetId) -> Ahead {
    Ahead {
        job: ask.id,
        name: ask.job.name.clone(),
        budget: ask.job.budget,
        gpus: gpus(ask.job),
        tier: ask.job.terms.tier,
        parted: line.parting(mine),
    }
}

fn gpus(job: &Job) -> u32 {
    job.terms.shape.nodes.saturating_mul(job.terms.shape.gpus_per_node.get())
}
