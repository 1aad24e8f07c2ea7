//! What each budget had and wanted over time: the curves that the figures are made of.
//!
//! A curve has a step for each start and end, and every budget has those of all below it: one budget's are made at a
//! time, so that a year's are not all there at once.

use super::flow::{Flow, Lot};
use super::number::count;
use super::spans::Parts;
use crate::record::{JobEnd, JobRecord, Record};

/// What the curves of a run are made of.
#[derive(Debug)]
pub(crate) struct Books<'r> {
    /// The run.
    pub record: &'r Record,
    /// GPUs in service.
    pub in_service: Flow,
}

/// One budget's curves: what it and all below it had and wanted.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    /// Its place in the record.
    pub budget: usize,
    /// GPUs of its funded jobs, from go to end: charged, and delivered.
    pub funded: Flow,
    /// GPUs of its free tier.
    pub free: Flow,
    /// What its funded jobs had or wanted: at each moment at most the GPUs in service.
    pub demand: Flow,
}

impl<'r> Books<'r> {
    pub(crate) const fn of(record: &'r Record, in_service: Flow) -> Self {
        Self { record, in_service }
    }

    /// Returns the curves of each budget, in the record's order.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = Account> + '_ {
        (0..self.record.budgets.len()).map(|budget| self.account(budget))
    }

    fn account(&self, budget: usize) -> Account {
        let record = self.record;
        let is_below: Vec<bool> =
            (0..record.budgets.len()).map(|below| line(record, below).any(|at| at == budget)).collect();
        let had = |is_free: bool| {
            let jobs = record.attempts.iter().map(|attempt| (attempt, &record.jobs[attempt.job]));
            let own = jobs.filter(|(_, job)| job.is_free == is_free && is_below[job.budget]);
            Flow::of(own.map(|(attempt, _)| {
                let (from, until) = Parts::of(attempt, record).occupied;
                Lot { from, until, gpus: count(&attempt.gpus) }
            }))
        };
        let wanting = record.jobs.iter().filter(|job| !job.is_free && is_below[job.budget]);
        let wanted = Flow::of(wanting.filter_map(|job| want(job, record)));
        Account { budget, funded: had(false), free: had(true), demand: wanted.at_most(&self.in_service) }
    }

    /// Returns what all jobs of both tiers had or wanted, however much it was.
    pub(crate) fn wanted(&self) -> Flow {
        Flow::of(self.record.jobs.iter().filter_map(|job| want(job, self.record)))
    }

    /// Returns what the share of a budget was worth between two moments, in GPU-milliseconds: its part of the GPUs in
    /// service then.
    pub(crate) fn worth(&self, budget: usize, from: u64, until: u64) -> u64 {
        super::number::part_of(self.in_service.between(from, until), self.record.budgets[budget].share)
    }

    /// Returns the beginning and the end of the run in milliseconds.
    pub(crate) fn run(&self) -> (u64, u64) {
        (self.record.begin.as_millis(), self.record.end.as_millis().max(self.record.begin.as_millis()))
    }
}

/// Returns a budget and all above it.
fn line(record: &Record, budget: usize) -> impl Iterator<Item = usize> + '_ {
    std::iter::successors(Some(budget), |at| record.budgets[*at].parent).take(record.budgets.len())
}

/// Returns what a job had or wanted: its GPUs, from its submission to its end for good. One that was refused wanted
/// nothing that anybody could give.
pub(crate) fn want(job: &JobRecord, record: &Record) -> Option<Lot> {
    let until = match job.ended {
        Some((_, JobEnd::Refused)) => return None,
        Some((at, _)) => at.min(record.end),
        None => record.end,
    };
    let from = job.submitted_at.max(record.begin).as_millis();
    Some(Lot { from, until: until.as_millis(), gpus: u64::from(job.gpus) })
}

/// Returns the moments at which the hours of cluster time between two moments begin, and the last one's end.
pub(crate) fn hours((from, until): (u64, u64)) -> Vec<u64> {
    const HOUR_MS: u64 = 3_600_000;
    let whole = (from / HOUR_MS + 1..).map(|hour| hour * HOUR_MS).take_while(|at| *at < until);
    let mut cuts = vec![from];
    cuts.extend(whole);
    if from < until {
        cuts.push(until);
    }
    cuts
}
