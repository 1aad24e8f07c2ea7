//! The data of a page, as compact as the scripts can read: rows without names, times in milliseconds of the run.

use std::collections::BTreeMap;

use scheduler_core::unit::Timestamp;
use serde::Serialize;

use super::thin::{LeftOut, thin};
use crate::measure::{Lost, Measures, Point, Room, series, tier, word};
use crate::record::{AttemptEnd, AttemptRecord, GpuPlace, JobEnd, Record};

/// The name and version of the data's shape.
const SCHEMA: &str = "bursar.simulate-page/v1";

/// Everything a page draws.
#[derive(Debug, Serialize)]
pub(super) struct Data<'r> {
    schema: &'static str,
    measures: &'r Measures,
    notes: Vec<String>,
    /// Milliseconds.
    length: u64,
    nodes: Vec<NodeRow<'r>>,
    budgets: Vec<BudgetRow<'r>>,
    jobs: Vec<JobRow<'r>>,
    attempts: Vec<AttemptRow>,
    /// Of the attempts that are here.
    preemptions: Vec<PreemptionRow<'r>>,
    left_out: LeftOut,
    used_at: Vec<u64>,
    used: Vec<[Vec<Option<f64>>; 3]>,
    rooms_at: Vec<u64>,
    rooms: Vec<[u64; 4]>,
    lost: Vec<Lost>,
}

/// Name, GPUs, times away.
#[derive(Debug, Serialize)]
struct NodeRow<'r>(&'r str, u32, Vec<(u64, u64)>);

/// Path, parent, share, whether a leaf.
#[derive(Debug, Serialize)]
struct BudgetRow<'r>(&'r str, Option<usize>, f64, bool);

/// Name, budget, user, submission, GPUs, nodes, tier, minimum runtime, work, end, when.
#[derive(Debug, Serialize)]
struct JobRow<'r>(
    &'r str,
    usize,
    &'r str,
    u64,
    u32,
    u32,
    &'static str,
    u64,
    u64,
    Option<&'static str>,
    Option<u64>,
);

/// Job, number, placed, go, started, protected until, noticed, ended, freed, end, and GPUs as node, first slot, slots.
#[derive(Debug, Serialize)]
struct AttemptRow(usize, u32, u64, [Option<u64>; 6], Option<&'static str>, Vec<usize>);

/// Attempt, when, for which job, cause, lost GPU-milliseconds, whether wasted.
#[derive(Debug, Serialize)]
struct PreemptionRow<'r>(usize, u64, Option<&'r str>, &'static str, u64, bool);

/// Makes the data of a run's page.
pub(super) fn of<'r>(record: &'r Record, measures: &'r Measures) -> Data<'r> {
    let (kept, left_out) = thin(record);
    let ms = |at: Timestamp| at.min(record.end).since(record.begin).as_millis();
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    for attempt in &kept {
        let next = places.len();
        places.entry(record.attempts[*attempt].job).or_insert(next);
    }
    let mut order: Vec<(usize, usize)> = places.iter().map(|(job, place)| (*place, *job)).collect();
    order.sort_unstable();
    let series = series(record);
    let since_begin = |at: &u64| at.saturating_sub(record.begin.as_millis());
    Data {
        schema: SCHEMA,
        measures,
        notes: super::notes(&super::figures(std::slice::from_ref(measures))),
        length: ms(record.end),
        nodes: record
            .nodes
            .iter()
            .map(|node| {
                NodeRow(
                    &node.name,
                    node.gpus,
                    node.away.iter().map(|(from, until)| (ms(*from), ms(*until))).collect(),
                )
            })
            .collect(),
        budgets: record.budgets.iter().map(|b| BudgetRow(&b.path, b.parent, b.share, b.is_leaf)).collect(),
        jobs: order.iter().map(|(_, job)| job_row(record, *job, ms)).collect(),
        attempts: kept.iter().map(|place| attempt_row(&record.attempts[*place], &places, ms)).collect(),
        preemptions: preemptions(record, &kept, ms),
        left_out,
        used_at: series.used_at_ms.iter().map(since_begin).collect(),
        used: series.used.iter().map(|points| columns(points)).collect(),
        rooms_at: series.rooms_at_ms.iter().map(since_begin).collect(),
        rooms: series.rooms.iter().map(|room: &Room| [room.idle, room.now, room.in_1h, room.in_8h]).collect(),
        lost: series.lost,
    }
}

fn job_row(record: &Record, job: usize, ms: impl Fn(Timestamp) -> u64) -> JobRow<'_> {
    let job = &record.jobs[job];
    JobRow(
        &job.name,
        job.budget,
        &job.user,
        ms(job.submitted_at),
        job.gpus,
        job.nodes,
        tier(job.is_free),
        job.min_runtime.as_millis(),
        job.work.as_millis(),
        job.ended.map(|(_, end)| job_end(end)),
        job.ended.map(|(at, _)| ms(at)),
    )
}

fn attempt_row(
    attempt: &AttemptRecord,
    places: &BTreeMap<usize, usize>,
    ms: impl Fn(Timestamp) -> u64,
) -> AttemptRow {
    // An end of protection may lie behind the end of the run, where the picture ends.
    let times = [
        attempt.go_at,
        attempt.started_at,
        attempt.protected_until,
        attempt.noticed_at,
        attempt.ended_at,
        attempt.freed_at,
    ];
    AttemptRow(
        places[&attempt.job],
        attempt.number,
        ms(attempt.placed_at),
        times.map(|at| at.map(&ms)),
        attempt.end.map(attempt_end),
        ranges(&attempt.gpus),
    )
}

/// Returns GPUs as runs of slots: node, first slot, slots; one after the other.
fn ranges(gpus: &[GpuPlace]) -> Vec<usize> {
    let mut sorted = gpus.to_vec();
    sorted.sort_unstable();
    let mut ranges: Vec<usize> = Vec::new();
    for gpu in sorted {
        let (node, slot) = (gpu.node(), usize::from(gpu.slot()));
        match ranges.len().checked_sub(3).map(|at| &mut ranges[at..]) {
            Some([last, first, slots]) if *last == node && *first + *slots == slot => *slots += 1,
            Some(_) | None => ranges.extend([node, slot, 1]),
        }
    }
    ranges
}

fn preemptions<'r>(
    record: &'r Record,
    kept: &[usize],
    ms: impl Fn(Timestamp) -> u64,
) -> Vec<PreemptionRow<'r>> {
    let rows = record.preemptions.iter().filter_map(|preemption| {
        let attempt = kept.binary_search(&preemption.victim).ok()?;
        let taken_for = preemption.taken_for.map(|job| &*record.jobs[job].name);
        let cause = word(preemption.cause);
        Some(PreemptionRow(
            attempt,
            ms(preemption.at),
            taken_for,
            cause,
            preemption.lost_gpu_ms,
            preemption.is_wasted,
        ))
    });
    rows.collect()
}

/// Returns charged, demand and free, to four digits.
fn columns(points: &[Point]) -> [Vec<Option<f64>>; 3] {
    let digits = |value: Option<f64>| value.map(|value| (value * 1e4).round() / 1e4);
    let column = |of: fn(&Point) -> Option<f64>| points.iter().map(|point| digits(of(point))).collect();
    [column(|point| point.charged), column(|point| point.demand), column(|point| point.free)]
}

const fn job_end(end: JobEnd) -> &'static str {
    match end {
        JobEnd::Completed => "completed",
        JobEnd::Failed => "failed",
        JobEnd::Cancelled => "cancelled",
        JobEnd::Preempted => "preempted",
        JobEnd::TimedOut => "timed out",
        JobEnd::Withdrawn => "withdrawn",
        JobEnd::Lost => "lost",
        JobEnd::Refused => "refused",
    }
}

const fn attempt_end(end: AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::ByItself => "by itself",
        AttemptEnd::Preempted => "preempted",
        AttemptEnd::NotLaunched => "not launched",
        AttemptEnd::Lost => "node lost",
        AttemptEnd::Stopped => "stopped",
    }
}
