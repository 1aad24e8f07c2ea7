//! How long jobs waited for their first start, by size and tier. A wait that is not over counts with what it was so far.

use serde::{Deserialize, Serialize};

use super::number::count;
use super::quantile::{Known, Sample};
use crate::record::{JobEnd, JobRecord, Record};
use scheduler_core::unit::Span;

/// Jobs by their GPUs: the largest count of each class but the last.
const SIZES: [(u32, &str); 7] =
    [(1, "1"), (4, "2-4"), (8, "5-8"), (31, "9-31"), (63, "32-63"), (127, "64-127"), (u32::MAX, "128+")];

/// A job with a minimum runtime up to this is a debug job.
const DEBUG: Span = Span::from_mins(15);

/// The waits of some jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Whose: `funded`, `free tier`, `debug`, `all`, or a leaf's path.
    pub of: String,
    /// Their GPUs: `1`, `2-4`, ..., `128+`; `64+`, `1-8`; `any`.
    pub gpus: String,
    /// How many jobs.
    pub jobs: u64,
    /// Of how many the wait was not over: they waited at the end of the run, or went without ever having started.
    pub not_over: u64,
    /// Half of them waited no longer.
    pub p50: Option<Known>,
    /// Nine of ten waited no longer.
    pub p90: Option<Known>,
    /// Ninety-nine of a hundred waited no longer.
    pub p99: Option<Known>,
    /// None waited longer.
    pub longest: Option<Known>,
}

/// Returns the class of a number of GPUs.
pub(crate) fn size(gpus: u32) -> &'static str {
    SIZES.iter().find(|(most, _)| gpus <= *most).map_or("128+", |(_, name)| name)
}

/// Returns whether a job is for debugging: funded, with a minimum runtime of 15 minutes or less.
pub(crate) fn is_debug(job: &JobRecord) -> bool {
    !job.is_free && job.min_runtime <= DEBUG
}

/// Returns, for each job, how long it waited for its first start; none of one that was refused.
pub(crate) fn of_jobs(record: &Record) -> Vec<Option<Known>> {
    let mut started = vec![None; record.jobs.len()];
    for attempt in &record.attempts {
        let Some(at) = attempt.started_at.filter(|at| *at <= record.end) else { continue };
        let first = started[attempt.job].get_or_insert(at);
        *first = at.min(*first);
    }
    let wait = |(job, started): (&JobRecord, Option<_>)| {
        let (until, is_at_least) = match (started, job.ended) {
            (Some(at), _) => (at, false),
            (None, Some((_, JobEnd::Refused))) => return None,
            (None, Some((at, _))) => (at.min(record.end), true),
            (None, None) => (record.end, true),
        };
        (job.submitted_at <= record.end)
            .then(|| Known { ms: until.since(job.submitted_at).as_millis(), is_at_least })
    };
    record.jobs.iter().zip(started).map(wait).collect()
}

/// Returns the rows: each tier by size and in all, 64 GPUs and more together, debug jobs, and each leaf's funded jobs.
pub(crate) fn waits(record: &Record) -> Vec<Waits> {
    let waits = of_jobs(record);
    let row = |of: &str, gpus: &str, is_meant: &dyn Fn(&JobRecord) -> bool| {
        let meant = record.jobs.iter().zip(&waits).filter(|(job, _)| is_meant(job));
        let sample = Sample::of(meant.filter_map(|(_, wait)| *wait));
        Waits {
            of: of.to_owned(),
            gpus: gpus.to_owned(),
            jobs: count(sample.values()),
            not_over: sample.values().iter().map(|wait| u64::from(wait.is_at_least)).sum(),
            p50: sample.quantile(50),
            p90: sample.quantile(90),
            p99: sample.quantile(99),
            longest: sample.quantile(100),
        }
    };
    let mut rows = vec![row("all", "any", &|_| true)];
    for (tier, is_free) in [("funded", false), ("free tier", true)] {
        rows.push(row(tier, "any", &|job| job.is_free == is_free));
        for (_, name) in SIZES {
            rows.push(row(tier, name, &|job| job.is_free == is_free && size(job.gpus) == name));
        }
        rows.push(row(tier, "64+", &|job| job.is_free == is_free && job.gpus >= 64));
    }
    rows.push(row("debug", "1-8", &|job| is_debug(job) && job.gpus <= 8));
    rows.push(row("debug", "any", &is_debug));
    for (place, budget) in record.budgets.iter().enumerate().filter(|(_, budget)| budget.is_leaf) {
        rows.push(row(&budget.path, "any", &|job| job.budget == place && !job.is_free));
    }
    rows
}
