//! How long the first in order waited for its GPUs, against the bound that promise 1.6 sets.

use std::collections::BTreeMap;

use scheduler_core::unit::Timestamp;
use serde::{Deserialize, Serialize};

use super::gos::Gos;
use super::quantile::Known;
use crate::record::Record;

/// The waits of jobs that were first in order and could not start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Heads {
    /// Waits in which a job was first.
    pub waits: u64,
    /// What is promised: from becoming first to the go.
    pub bound_ms: u64,
    /// The longest time from becoming first to the go, whoever was first in between.
    pub longest: Option<Known>,
    /// Whose that was.
    pub longest_job: Option<String>,
    /// The most time that a job was first in one wait.
    pub longest_first_ms: u64,
    /// Waits that took longer than the bound.
    pub over: u64,
    /// Of these: with another job's earlier date standing when it became first, or a node away in between. The bound
    /// makes an exception of both.
    pub over_with_reason: u64,
}

/// One wait of one job.
#[derive(Debug, Clone, Copy)]
struct Wait {
    first_since: Timestamp,
    first_ms: u64,
    until: Timestamp,
    is_over: bool,
}

/// Returns how the heads fared.
pub(crate) fn heads(record: &Record, gos: &Gos) -> Heads {
    let waits = waits(record, gos);
    let bound_ms = record.head_bound.as_millis();
    let mut sums = Heads { bound_ms, ..Heads::default() };
    for (job, wait) in waits {
        let took = Known { ms: wait.until.since(wait.first_since).as_millis(), is_at_least: !wait.is_over };
        sums.waits += 1;
        sums.longest_first_ms = sums.longest_first_ms.max(wait.first_ms);
        if sums.longest.is_none_or(|longest| longest < took) {
            sums.longest = Some(took);
            sums.longest_job = Some(record.jobs[job].name.to_string());
        }
        if took.ms > bound_ms {
            sums.over += 1;
            sums.over_with_reason += u64::from(has_reason(record, gos, job, wait));
        }
    }
    sums
}

/// Returns the waits in which a job was first: a wait is over with the next go. Who gets a date is first with its issue:
/// what it was first of all for is decided in that round, and seen to wait after it.
fn waits(record: &Record, gos: &Gos) -> Vec<(usize, Wait)> {
    let mut waits: BTreeMap<(usize, usize), Wait> = BTreeMap::new();
    let number = |job: usize, since: Timestamp| gos.of_job(job).partition_point(|go| *go <= since);
    for head in &record.heads {
        let gos = gos.of_job(head.job);
        let next = number(head.job, head.since);
        let gave_up = record.jobs[head.job].ended.map_or(record.end, |(at, _)| at.min(record.end));
        let wait = waits.entry((head.job, next)).or_insert(Wait {
            first_since: head.since,
            first_ms: 0,
            until: gos.get(next).copied().unwrap_or(gave_up),
            is_over: next < gos.len(),
        });
        wait.first_since = wait.first_since.min(head.since);
        wait.first_ms += head.until.since(head.since).as_millis();
    }
    for date in &record.dates {
        if let Some(wait) = waits.get_mut(&(date.job, number(date.job, date.issued_at))) {
            wait.first_since = wait.first_since.min(date.issued_at);
        }
    }
    waits.into_iter().map(|((job, _), wait)| (job, wait)).collect()
}

/// Returns whether one of the exceptions of the bound holds.
fn has_reason(record: &Record, gos: &Gos, job: usize, wait: Wait) -> bool {
    let earlier_date = record.dates.iter().any(|date| {
        let stands_until = || {
            let go = gos.of_job(date.job).iter().find(|go| **go >= date.issued_at).copied();
            go.or(record.jobs[date.job].ended.map(|(at, _)| at)).unwrap_or(record.end)
        };
        date.job != job && date.issued_at < wait.first_since && stands_until() > wait.first_since
    });
    let mut away = record.nodes.iter().flat_map(|node| &node.away);
    earlier_date || away.any(|(from, until)| *from < wait.until && wait.first_since < *until)
}
