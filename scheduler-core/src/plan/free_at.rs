//! When GPUs are free for a job with a date (DESIGN 6): judged once, at its issue.

use alloc::collections::BTreeMap;

use super::Line;
use super::find_date::Wish;
use crate::date::How;
use crate::id::{AttemptId, BudgetId, JobId};
use crate::job::{Attempt, Job};
use crate::lifecycle::reserve::over_by;
use crate::node::Contact;
use crate::spec::{Tier, Turn};
use crate::state::State;
use crate::unit::Timestamp;

/// When GPUs are free, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Free {
    pub at: Timestamp,
    pub how: How,
}

/// How a budget stands to the job's, by use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// It goes after it by more than the margin.
    After,
    /// By less.
    Within,
    /// It goes first.
    Before,
    /// It is the same.
    Same,
}

/// Judges for one job.
pub(super) struct Judge<'a> {
    state: &'a State,
    now: Timestamp,
    id: JobId,
    job: &'a Job,
    issued_at: Timestamp,
    sides: BTreeMap<BudgetId, Side>,
    known: BTreeMap<AttemptId, Option<Free>>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(state: &'a State, now: Timestamp, wish: &Wish<'a>) -> Self {
        let (id, job, issued_at) = (wish.id, wish.job, wish.issued_at);
        Self { state, now, id, job, issued_at, sides: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// Returns when an attempt's GPUs are free; none if nobody can say.
    pub(super) fn attempt(&mut self, line: &mut Line<'a>, id: AttemptId, attempt: &Attempt) -> Option<Free> {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let free = self.judged(line, id, attempt);
        self.known.insert(id, free);
        free
    }

    fn judged(&mut self, line: &mut Line<'a>, id: AttemptId, attempt: &Attempt) -> Option<Free> {
        if let Some(at) = attempt.leaves_by() {
            return Some(Free { at: at.max(self.now), how: How::Leaves });
        }
        let is_heard = attempt.placements.iter().all(|placement| {
            self.state.nodes.get(&placement.node).is_some_and(|node| node.contact == Contact::Ready)
        });
        let job = self.state.jobs.get(&id.job)?;
        is_heard.then(|| self.placed(line, id.job, job, over_by(attempt)))
    }

    /// Returns when the GPUs of a job that has them are free, if it is past its protection by `over_by`.
    pub(super) fn placed(&mut self, line: &mut Line<'a>, id: JobId, job: &Job, over_by: Timestamp) -> Free {
        let end = over_by.max(self.now);
        if job.terms.tier == Tier::Free {
            return Free { at: self.now, how: How::Takeable };
        }
        let settings = &self.state.meta.settings;
        let within = self.issued_at.plus(settings.date_margin.min(settings.cap));
        let cap = self.issued_at.plus(settings.cap);
        let at_end = Free { at: end, how: if over_by <= self.now { How::Takeable } else { How::Protection } };
        let later = |at: Timestamp, how| {
            if at > end { Free { at, how } } else { Free { how: How::Protection, ..at_end } }
        };
        match self.side(line, job.budget) {
            Side::After => at_end,
            Side::Within => later(within, How::Margin),
            Side::Before => later(cap, How::Cap),
            Side::Same if job.terms.turn > self.job.terms.turn => at_end,
            Side::Same if place(id, job) > place(self.id, self.job) => later(within, How::Margin),
            Side::Same => later(cap, How::Cap),
        }
    }

    fn side(&mut self, line: &mut Line<'a>, theirs: BudgetId) -> Side {
        let (mine, margin) = (self.job.budget, self.state.meta.settings.margin_ppm);
        *self.sides.entry(theirs).or_insert_with(|| match line.uses_between(mine, theirs) {
            None => Side::Same,
            // Above its burst limit it goes after whoever is not.
            Some(_) if line.is_over(mine) && !line.is_over(theirs) => Side::Before,
            Some((mine, theirs)) if mine.is_below_by(&theirs, margin) => Side::After,
            Some((mine, theirs)) if mine.cmp_use(&theirs).is_lt() => Side::Within,
            Some(_) => Side::Before,
        })
    }
}

/// Returns a job's place among those of its budget.
fn place(id: JobId, job: &Job) -> (Turn, Timestamp, JobId) {
    (job.terms.turn, job.submitted_at, id)
}
