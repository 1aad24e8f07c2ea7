//! How long jobs run: what state knows of those that ended, and what is taken where it knows nothing.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::draw::{Draw, For};
use crate::id::{BudgetId, JobId, Name};
use crate::job::{End, Job, PastAttempt, Phase};
use crate::state::State;
use crate::unit::Span;

/// So many ended jobs of one user in one budget tell of the next; with fewer all of the budget do, then all.
const ENOUGH: usize = 8;

/// Of so many lengths one is drawn.
const KEPT: usize = 64;

/// Nothing runs shorter.
const LEAST: Span = Span::from_secs(1);

/// Run time in thousandths of the minimum runtime, where no ended job tells. Nobody measured these: a quarter to four
/// times the minimum, half of them above it.
const UNKNOWN: [u64; 10] = [250, 400, 600, 800, 1000, 1000, 1300, 1700, 2500, 4000];

/// Run time of a job without a minimum, where no ended one tells.
const UNKNOWN_FREE: [Span; 6] = [
    Span::from_mins(10),
    Span::from_mins(30),
    Span::from_hours(1),
    Span::from_hours(2),
    Span::from_hours(4),
    Span::from_hours(8),
];

/// How long ended jobs ran.
///
/// Of each job that completed or failed in state (an hour of them, or 20,000): the time that all its attempts ran, in
/// thousandths of its minimum runtime; without a minimum in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lengths {
    of_user: BTreeMap<(BudgetId, Name), Known>,
    of_budget: BTreeMap<BudgetId, Known>,
    all: Known,
    ended: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Known {
    /// In thousandths of the minimum, in order.
    parts: Vec<u64>,
    /// Of jobs without a minimum, in order.
    free: Vec<Span>,
}

impl Lengths {
    /// Looks at the ended jobs of a state.
    #[must_use]
    pub fn of(state: &State) -> Self {
        let mut lengths = Self::default();
        for (_, id) in state.ended.keys() {
            if let Some(job) = state.jobs.get(id) {
                lengths.add(job);
            }
        }
        let all = lengths.of_user.values_mut().chain(lengths.of_budget.values_mut());
        all.chain([&mut lengths.all]).for_each(Known::sort);
        lengths
    }

    /// Returns how many ended jobs tell.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.ended
    }

    fn add(&mut self, job: &Job) {
        let has_ended_itself = match job.phase {
            Phase::Ended { end: End::Completed | End::Failed, .. } => true,
            Phase::Ended { .. } | Phase::Held { .. } | Phase::Waiting { .. } | Phase::Live(_) => false,
        };
        let ran = done(job);
        if !has_ended_itself || ran.is_zero() {
            return;
        }
        let user = self.of_user.entry((job.budget, job.user.clone())).or_default();
        let budget = self.of_budget.entry(job.budget).or_default();
        self.ended += 1;
        for known in [user, budget, &mut self.all] {
            known.add(ran, job.terms.min_runtime);
        }
    }

    /// Draws how long a job runs in all, of which it has `done`: at most its time limit, and more than it has done.
    pub(super) fn draw(&self, draw: Draw, (id, job): (JobId, &Job), done: Span) -> Span {
        let known = self.about(job);
        let min = job.terms.min_runtime;
        let longer: Vec<Span> = known.into_iter().filter(|length| *length > done).collect();
        let drawn = match longer.as_slice() {
            // Longer than any that is known: it goes on for up to as long again.
            [] => done.plus(draw.part(id, For::Rest, done.max(min))),
            longer => longer[draw.place(id, For::Length, longer.len())],
        };
        let limit = job.terms.time_limit.unwrap_or(Span::MAX).max(done);
        drawn.min(limit).max(done.plus(LEAST))
    }

    /// Returns how long jobs like this one ran: those of its user and budget, else of its budget, else all.
    fn about(&self, job: &Job) -> Vec<Span> {
        let min = job.terms.min_runtime;
        let user = self.of_user.get(&(job.budget, job.user.clone()));
        let known = [user, self.of_budget.get(&job.budget), Some(&self.all)].into_iter().flatten();
        if min.is_zero() {
            let enough = known.map(|known| &known.free).find(|free| free.len() >= ENOUGH);
            return enough.cloned().unwrap_or_else(|| UNKNOWN_FREE.to_vec());
        }
        let enough = known.map(|known| known.parts.as_slice()).find(|parts| parts.len() >= ENOUGH);
        let of_min = |parts: &u64| Span::from_millis(min.as_millis().saturating_mul(*parts) / 1000);
        enough.unwrap_or(&UNKNOWN).iter().map(of_min).collect()
    }
}

impl Known {
    fn add(&mut self, ran: Span, min: Span) {
        match ran.as_millis().saturating_mul(1000).checked_div(min.as_millis()) {
            Some(parts) => self.parts.push(parts),
            None => self.free.push(ran),
        }
    }

    /// Sorts them, and keeps so few that drawing is cheap, evenly from the least to the most.
    fn sort(&mut self) {
        self.parts.sort_unstable();
        self.free.sort_unstable();
        self.parts = thinned(&self.parts);
        self.free = thinned(&self.free);
    }
}

fn thinned<T: Copy>(of: &[T]) -> Vec<T> {
    if of.len() <= KEPT {
        return of.to_vec();
    }
    (0..KEPT).map(|at| of[at * (of.len() - 1) / (KEPT - 1)]).collect()
}

fn ran(past: &PastAttempt) -> Span {
    past.started_at.map_or(Span::ZERO, |started| past.ended.at.since(started))
}

/// Returns how long a job's ended attempts ran.
pub(super) fn done(job: &Job) -> Span {
    job.past.iter().map(ran).fold(Span::ZERO, Span::plus)
}
