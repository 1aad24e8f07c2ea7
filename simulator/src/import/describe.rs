//! A trace in a few figures.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::unit::{Span, Timestamp};

use crate::trace::{Trace, TraceEnd, TraceJob};

/// A trace in a few figures. All of it is whole numbers; shares are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Jobs.
    pub jobs: usize,
    /// The first submission.
    pub first: Timestamp,
    /// The last submission.
    pub last: Timestamp,
    /// GPU-milliseconds of all jobs.
    pub gpu_ms: u128,
    /// GPU-milliseconds before the last submission, if every job started at once.
    pub inside_gpu_ms: u128,
    /// Teams, without those who have none.
    pub teams: usize,
    /// Jobs that have no team.
    pub jobs_without_team: usize,
    /// Users.
    pub users: usize,
    /// The GPUs of the biggest job.
    pub biggest: u32,
    /// Jobs by size; sizes that no job has are left out.
    pub sizes: Vec<Sizes>,
    /// Durations: median, 90th and 99th percentile, longest.
    pub durations: [Span; 4],
    /// Waits in the source, where it has them: median, 90th and 99th percentile, longest.
    pub waits: Option<[Span; 4]>,
    /// Jobs by their end, most frequent first.
    pub ends: Vec<(TraceEnd, usize)>,
    /// Most submissions in one minute, counted from the first.
    pub busiest_minute: usize,
    /// Most GPUs at one time, if every job started at once.
    pub peak_gpus: u64,
}

/// Jobs of some sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// GPUs, from.
    pub from: u32,
    /// GPUs, up to and with; none has no end.
    pub to: Option<u32>,
    /// Jobs.
    pub jobs: usize,
    /// Their GPU-milliseconds.
    pub gpu_ms: u128,
}

/// Where sizes begin.
const FROM: [u32; 7] = [1, 2, 5, 8, 9, 32, 128];

/// Describes a trace.
#[must_use]
pub fn describe(trace: &Trace) -> Summary {
    let jobs = &trace.jobs;
    let (first, last) = (
        jobs.first().map_or(Timestamp::ZERO, |job| job.submitted_at),
        jobs.last().map_or(Timestamp::ZERO, |job| job.submitted_at),
    );
    let teams: BTreeSet<&str> = jobs.iter().filter_map(|job| job.team.as_deref()).collect();
    let users: BTreeSet<&str> = jobs.iter().filter_map(|job| job.user.as_deref()).collect();
    let mut waits: Vec<Span> = jobs.iter().filter_map(|job| job.waited).collect();
    let inside = |job: &TraceJob| gpu_ms(job, job.duration.min(last.since(job.submitted_at)));
    Summary {
        jobs: jobs.len(),
        first,
        last,
        gpu_ms: jobs.iter().map(|job| gpu_ms(job, job.duration)).sum(),
        inside_gpu_ms: jobs.iter().map(inside).sum(),
        teams: teams.len(),
        jobs_without_team: jobs.iter().filter(|job| job.team.is_none()).count(),
        users: users.len(),
        biggest: jobs.iter().map(|job| job.gpus).max().unwrap_or(0),
        sizes: sizes(jobs),
        durations: quantiles(&mut jobs.iter().map(|job| job.duration).collect::<Vec<_>>())
            .unwrap_or_default(),
        waits: quantiles(&mut waits),
        ends: ends(jobs),
        busiest_minute: busiest_minute(jobs, first),
        peak_gpus: peak(jobs),
    }
}

impl Summary {
    /// Returns the time from the first submission to the last.
    #[must_use]
    pub const fn span(&self) -> Span {
        self.last.since(self.first)
    }

    /// Returns the load offered to so many GPUs in thousandths, rounded: GPU time of all jobs through that of the GPUs
    /// from the first submission to the last. None for no GPUs or no time.
    #[must_use]
    pub fn load_milli(&self, gpus: u32) -> Option<u128> {
        self.load(self.gpu_ms, gpus)
    }

    /// Returns the same for the GPU time before the last submission alone.
    #[must_use]
    pub fn load_inside_milli(&self, gpus: u32) -> Option<u128> {
        self.load(self.inside_gpu_ms, gpus)
    }

    fn load(&self, gpu_ms: u128, gpus: u32) -> Option<u128> {
        let there = u128::from(self.span().as_millis()) * u128::from(gpus);
        let doubled = gpu_ms.checked_mul(2000)?.checked_add(there)?;
        doubled.checked_div(there.checked_mul(2)?)
    }

    /// Returns on how many GPUs the same jobs offer a load, given in thousandths; rounded. None for no load or no time.
    #[must_use]
    pub fn gpus_for_load(&self, milli: u32) -> Option<u128> {
        let each = u128::from(self.span().as_millis()) * u128::from(milli);
        self.gpu_ms.checked_mul(2000)?.checked_add(each)?.checked_div(each.checked_mul(2)?)
    }
}

fn gpu_ms(job: &TraceJob, span: Span) -> u128 {
    u128::from(job.gpus) * u128::from(span.as_millis())
}

fn sizes(jobs: &[TraceJob]) -> Vec<Sizes> {
    let ends = FROM.iter().skip(1).map(|from| Some(from - 1)).chain([None]);
    let mut sizes: Vec<Sizes> =
        FROM.iter().zip(ends).map(|(from, to)| Sizes { from: *from, to, jobs: 0, gpu_ms: 0 }).collect();
    for job in jobs {
        if let Some(size) = sizes.iter_mut().rev().find(|size| size.from <= job.gpus) {
            size.jobs += 1;
            size.gpu_ms += gpu_ms(job, job.duration);
        }
    }
    sizes.retain(|size| size.jobs > 0);
    sizes
}

/// Returns median, 90th, 99th percentile and maximum: the value at that part of the sorted row.
fn quantiles(values: &mut [Span]) -> Option<[Span; 4]> {
    values.sort_unstable();
    let last = *values.last()?;
    let at = |part: usize| values.get(values.len().saturating_mul(part) / 100).copied().unwrap_or(last);
    Some([at(50), at(90), at(99), last])
}

fn ends(jobs: &[TraceJob]) -> Vec<(TraceEnd, usize)> {
    let mut counts: BTreeMap<TraceEnd, usize> = BTreeMap::new();
    for job in jobs {
        *counts.entry(job.end).or_insert(0) += 1;
    }
    let mut ends: Vec<_> = counts.into_iter().collect();
    ends.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    ends
}

fn busiest_minute(jobs: &[TraceJob], first: Timestamp) -> usize {
    let mut minutes: BTreeMap<u64, usize> = BTreeMap::new();
    for job in jobs {
        *minutes.entry(job.submitted_at.since(first).as_millis() / 60_000).or_insert(0) += 1;
    }
    minutes.into_values().max().unwrap_or(0)
}

fn peak(jobs: &[TraceJob]) -> u64 {
    // At one moment, ends come before starts.
    let mut changes: Vec<(Timestamp, bool, u32)> = jobs
        .iter()
        .flat_map(|job| {
            [(job.submitted_at.plus(job.duration), false, job.gpus), (job.submitted_at, true, job.gpus)]
        })
        .collect();
    changes.sort_unstable();
    // Kept apart, since a job of no time ends before it starts.
    let (mut most, mut started, mut ended) = (0_u64, 0_u64, 0_u64);
    for (_, is_start, gpus) in changes {
        let side = if is_start { &mut started } else { &mut ended };
        *side = side.saturating_add(u64::from(gpus));
        most = most.max(started.saturating_sub(ended));
    }
    most
}
