//! Alibaba's openb pods (cluster-trace-gpu-v2023; Weng et al., ATC 2023).
//!
//! A pod never spans nodes. There is no team and no user: the class of service (`LS`, `BE`, ...) stands for the team.
//! Times are seconds from the start of the log. `Running` is the last phase that was seen, not an end: a pod ran on
//! only if it was deleted in the last second of the log.

use scheduler_core::unit::Timestamp;

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::options::named;
use super::source::Lines;
use super::table::{Row, Table};
use super::value::{Bad, bad, end};
use crate::trace::{TraceEnd, TraceJob};

/// What its header has.
pub(super) const COLUMNS: &[&str] = &[
    "name",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
];

/// Thousandths of a whole GPU.
const WHOLE_GPU: u32 = 1000;

/// Reads it.
pub(super) fn read(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let mut table = Table::csv(lines)?;
    table.header.require(table.path(), Format::Openb, COLUMNS)?;
    into.note_unread(&table.header.others(&[COLUMNS, &["cpu_milli", "memory_mib"]].concat()));
    into.note("no team in this trace: the class of service stands for it");
    let mut last = Timestamp::ZERO;
    while table.advance()? {
        into.row();
        let job = table.row().and_then(|row| {
            if let Ok(Some(deleted_at)) = row.moment_if("deletion_time") {
                last = last.max(deleted_at);
            }
            job(&row, into)
        });
        into.take(table.number(), job)?;
    }
    let is_cut =
        |job: &TraceJob| job.submitted_at.plus(job.waited.unwrap_or_default()).plus(job.duration) == last;
    for job in &mut into.jobs {
        if job.end == TraceEnd::Running && !is_cut(job) {
            job.end = TraceEnd::Unknown;
        }
    }
    Ok(())
}

fn job(row: &Row<'_>, into: &mut Collector<'_>) -> Result<TraceJob, Bad> {
    let gpus = row.gpus("num_gpu")?;
    let submitted_at = row.moment("creation_time")?;
    let Some(started_at) = row.moment_if("scheduled_time")? else { return Err(bad("never started")) };
    let Some(ended_at) = row.moment_if("deletion_time")? else { return Err(bad("has no `deletion_time`")) };
    if started_at < submitted_at {
        return Err(bad("started before it was submitted"));
    }
    if ended_at < started_at {
        return Err(bad("ended before it started"));
    }
    if row.count("gpu_milli")? < WHOLE_GPU && gpus == 1 {
        into.event(row.line, "wants a part of one GPU, and is given a whole one");
    }
    Ok(TraceJob {
        name: row.own("name").unwrap_or_else(|| format!("openb-{}", row.line)),
        line: row.line,
        submitted_at,
        duration: ended_at.since(started_at),
        gpus,
        nodes: Some(1),
        gpu_type: row.own("gpu_spec"),
        team: named(row.text("qos")),
        user: None,
        time_limit: None,
        min_runtime: None,
        is_free: None,
        waited: Some(started_at.since(submitted_at)),
        end: end(row.raw("pod_phase")),
    })
}
