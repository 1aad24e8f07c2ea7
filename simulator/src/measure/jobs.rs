//! How many jobs there were, and what became of them.

use serde::{Deserialize, Serialize};

use super::number::count;
use crate::record::{JobEnd, Record};

/// Jobs by what became of them; all but the first add up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Jobs {
    /// Submitted.
    pub submitted: u64,
    /// Refused at their submission.
    pub refused: u64,
    /// All their work was done.
    pub completed: u64,
    /// Failed, as in the trace or by the scenario's failures.
    pub failed: u64,
    /// Ended by a person.
    pub cancelled: u64,
    /// Gave way, and do not resume.
    pub preempted: u64,
    /// Ended at their time limit.
    pub timed_out: u64,
    /// Withdrawn before they ever started.
    pub withdrawn: u64,
    /// Lost with their node, and do not resume.
    pub lost: u64,
    /// On GPUs when the run ended.
    pub running: u64,
    /// Waiting when the run ended.
    pub waiting: u64,
}

/// Counts jobs.
pub(crate) fn jobs(record: &Record) -> Jobs {
    let mut is_placed = vec![false; record.jobs.len()];
    for attempt in &record.attempts {
        is_placed[attempt.job] |= attempt.ended_at.is_none();
    }
    let mut jobs = Jobs { submitted: count(&record.jobs), ..Jobs::default() };
    for (job, is_placed) in record.jobs.iter().zip(is_placed) {
        let sum = match job.ended.map(|(_, end)| end) {
            Some(JobEnd::Completed) => &mut jobs.completed,
            Some(JobEnd::Failed) => &mut jobs.failed,
            Some(JobEnd::Cancelled) => &mut jobs.cancelled,
            Some(JobEnd::Preempted) => &mut jobs.preempted,
            Some(JobEnd::TimedOut) => &mut jobs.timed_out,
            Some(JobEnd::Withdrawn) => &mut jobs.withdrawn,
            Some(JobEnd::Lost) => &mut jobs.lost,
            Some(JobEnd::Refused) => &mut jobs.refused,
            None if is_placed => &mut jobs.running,
            None => &mut jobs.waiting,
        };
        *sum += 1;
    }
    jobs
}
