//! What each budget had and wanted over time: the curves that the figures are made of, made once.

use super::flow::{Flow, Lot};
use super::spans::Parts;
use crate::record::{JobEnd, Record};

/// The curves of a run.
#[derive(Debug)]
pub(crate) struct Books<'r> {
    /// The run.
    pub record: &'r Record,
    /// GPUs in service.
    pub in_service: Flow,
    /// For each budget, in the record's order: what it and all below it had and wanted.
    pub accounts: Vec<Account>,
    /// What all jobs of both tiers had or wanted, however much it was.
    pub wanted: Flow,
}

/// One budget's curves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    /// GPUs of its funded jobs, from go to end: charged, and delivered.
    pub funded: Flow,
    /// GPUs of its free tier.
    pub free: Flow,
    /// What its funded jobs had or wanted: at each moment at most the GPUs in service.
    pub demand: Flow,
}

impl<'r> Books<'r> {
    pub(crate) fn of(record: &'r Record, in_service: Flow) -> Self {
        let lines: Vec<Vec<usize>> = (0..record.budgets.len()).map(|budget| line(record, budget)).collect();
        let mut had: Vec<[Vec<Lot>; 2]> = vec![[Vec::new(), Vec::new()]; record.budgets.len()];
        for attempt in &record.attempts {
            let job = &record.jobs[attempt.job];
            let (from, until) = Parts::of(attempt, record).occupied;
            let lot = Lot { from, until, gpus: super::number::count(&attempt.gpus) };
            for budget in &lines[job.budget] {
                had[*budget][usize::from(job.is_free)].push(lot);
            }
        }
        let mut wanted: Vec<Vec<Lot>> = vec![Vec::new(); record.budgets.len()];
        let mut all = Vec::new();
        for job in &record.jobs {
            let Some(lot) = want(job, record) else { continue };
            all.push(lot);
            if !job.is_free {
                lines[job.budget].iter().for_each(|budget| wanted[*budget].push(lot));
            }
        }
        let accounts = had.into_iter().zip(wanted).map(|([funded, free], wanted)| Account {
            funded: Flow::of(funded),
            free: Flow::of(free),
            demand: Flow::of(wanted).at_most(&in_service),
        });
        Self { record, accounts: accounts.collect(), wanted: Flow::of(all), in_service }
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
fn line(record: &Record, budget: usize) -> Vec<usize> {
    std::iter::successors(Some(budget), |at| record.budgets[*at].parent).take(record.budgets.len()).collect()
}

/// Returns what a job had or wanted: its GPUs, from its submission to its end for good. One that was refused wanted
/// nothing that anybody could give.
pub(crate) fn want(job: &crate::record::JobRecord, record: &Record) -> Option<Lot> {
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
