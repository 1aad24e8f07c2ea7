//! GPU time by class: the parts add up to all GPUs times the whole time, exactly.

use serde::{Deserialize, Serialize};

use super::flow::{Flow, Lot};
use super::number::ratio;
use super::spans::{Class, each_gpu};
use crate::record::Record;

/// GPU time by class, in GPU-milliseconds. All but the last three add up to `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Classes {
    /// All GPUs, times the whole time.
    pub total_gpu_ms: u64,
    /// With attempts of funded jobs, from go to end.
    pub funded_gpu_ms: u64,
    /// With attempts of the free tier, from go to end.
    pub free_gpu_ms: u64,
    /// Kept for attempts that had no go yet.
    pub handover_gpu_ms: u64,
    /// After attempts, until proven free; launches that failed.
    pub overhead_gpu_ms: u64,
    /// With nobody, on nodes that took work.
    pub idle_gpu_ms: u64,
    /// With nobody, on nodes that took none.
    pub unavailable_gpu_ms: u64,
    /// Of the funded: within protection.
    pub protected_gpu_ms: u64,
    /// Of the idle: while a funded job was first in order and could not start.
    pub idle_while_head_waits_gpu_ms: u64,
    /// With two attempts at a time. Anything but zero is a mistake of whoever decided.
    pub held_twice_gpu_ms: u64,
}

impl Classes {
    /// Returns all but the unavailable.
    #[must_use]
    pub const fn in_service_gpu_ms(&self) -> u64 {
        self.total_gpu_ms.saturating_sub(self.unavailable_gpu_ms)
    }

    /// Returns what attempts occupied.
    #[must_use]
    pub const fn occupied_gpu_ms(&self) -> u64 {
        self.funded_gpu_ms.saturating_add(self.free_gpu_ms)
    }
}

/// How well the GPUs were used: parts of the time in service, 0 to 1; none if nothing was in service.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Occupancy {
    /// Occupied by attempts / in service.
    pub occupied_ratio: Option<f64>,
    /// The same, less what preemptions lost.
    pub useful_ratio: Option<f64>,
    /// The free tier's part of what was occupied.
    pub free_ratio: Option<f64>,
    /// The protected part of the GPUs in service.
    pub protected_ratio: Option<f64>,
    /// Idle while a funded job was first in order and could not start / in service.
    pub idle_while_head_waits_ratio: Option<f64>,
}

impl Occupancy {
    /// Makes the ratios of `classes` and of what preemptions lost.
    pub(crate) fn of(classes: &Classes, lost_gpu_ms: u64) -> Self {
        let in_service = classes.in_service_gpu_ms();
        let occupied = classes.occupied_gpu_ms();
        Self {
            occupied_ratio: ratio(occupied, in_service),
            useful_ratio: ratio(occupied.saturating_sub(lost_gpu_ms), in_service),
            free_ratio: ratio(classes.free_gpu_ms, occupied),
            protected_ratio: ratio(classes.protected_gpu_ms, in_service),
            idle_while_head_waits_ratio: ratio(classes.idle_while_head_waits_gpu_ms, in_service),
        }
    }
}

/// Returns the time by class, and how many GPUs were in service over time.
pub(crate) fn classes(record: &Record) -> (Classes, Flow) {
    let (begin, end) = (record.begin.as_millis(), record.end.as_millis());
    let heads = merged(record);
    let mut sums = Classes::default();
    let mut in_service: Vec<Lot> = Vec::new();
    each_gpu(record, |_, _, spans| {
        let mut since = begin;
        for span in spans {
            let ms = span.ms();
            sums.total_gpu_ms += ms;
            if span.is_held_twice {
                sums.held_twice_gpu_ms += ms;
            }
            match span.class {
                Class::Occupied { attempt } => {
                    let attempt = &record.attempts[attempt];
                    if record.jobs[attempt.job].is_free {
                        sums.free_gpu_ms += ms;
                    } else {
                        sums.funded_gpu_ms += ms;
                        let safe =
                            attempt.protected_until.map_or(span.from, |at| at.as_millis().min(span.until));
                        sums.protected_gpu_ms += safe.saturating_sub(span.from);
                    }
                }
                Class::Overhead => sums.overhead_gpu_ms += ms,
                Class::Handover => sums.handover_gpu_ms += ms,
                Class::Idle => {
                    sums.idle_gpu_ms += ms;
                    sums.idle_while_head_waits_gpu_ms += overlap(&heads, (span.from, span.until));
                }
                Class::Unavailable => {
                    sums.unavailable_gpu_ms += ms;
                    in_service.push(Lot { from: since, until: span.from, gpus: 1 });
                    since = span.until;
                }
            }
        }
        in_service.push(Lot { from: since, until: end, gpus: 1 });
    });
    (sums, Flow::of(in_service))
}

/// Returns the times in which somebody was first in order and could not start, without overlaps.
fn merged(record: &Record) -> Vec<(u64, u64)> {
    let mut times: Vec<(u64, u64)> =
        record.heads.iter().map(|head| (head.since.as_millis(), head.until.as_millis())).collect();
    times.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (since, until) in times {
        match merged.last_mut() {
            Some(last) if since <= last.1 => last.1 = last.1.max(until),
            Some(_) | None => merged.push((since, until)),
        }
    }
    merged
}

fn overlap(times: &[(u64, u64)], (from, until): (u64, u64)) -> u64 {
    let first = times.partition_point(|time| time.1 <= from);
    let within = times[first..].iter().take_while(|time| time.0 < until);
    within.map(|time| time.1.min(until) - time.0.max(from)).sum()
}
