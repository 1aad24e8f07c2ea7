//! Acme's `trace_seren.csv` and `trace_kalos.csv` (Shanghai AI Laboratory, 2023; Hu et al., NSDI 2024).
//!
//! There is no team: the kind of work (`type`) stands for it. The published rows of Kalos have the wait inside
//! `duration`, so the time between start and end counts wherever both are there.

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::options::named;
use super::source::Lines;
use super::table::{Row, Table};
use super::value::{Bad, bad, end};
use crate::trace::TraceJob;

/// What tells its header from others.
pub(super) const MARKS: &[&str] = &["job_id", "gpu_num", "type", "state", "submit_time", "duration"];

const NEEDED: &[&str] =
    &["job_id", "user", "gpu_num", "type", "state", "submit_time", "start_time", "end_time"];
const READ: &[&str] = &["node_num", "duration", "queue", "gpu_time"];

/// Reads it.
pub(super) fn read(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let mut table = Table::csv(lines)?;
    table.header.require(table.path(), Format::Acme, NEEDED)?;
    into.note_unread(&table.header.others(&[NEEDED, READ].concat()));
    into.note("no team in this trace: the kind of work stands for it");
    while table.advance()? {
        into.row();
        let job = table.row().and_then(|row| job(&row, into));
        into.take(table.number(), job)?;
    }
    Ok(())
}

fn job(row: &Row<'_>, into: &mut Collector<'_>) -> Result<TraceJob, Bad> {
    let gpus = row.gpus("gpu_num")?;
    let submitted_at = row.moment("submit_time")?;
    let Some(started_at) = row.moment_if("start_time")? else { return Err(bad("never started")) };
    if started_at < submitted_at {
        return Err(bad("started before it was submitted"));
    }
    let said = row.seconds_if("duration")?;
    let duration = match row.moment_if("end_time")? {
        Some(ended_at) if ended_at < started_at => return Err(bad("ended before it started")),
        Some(ended_at) => ended_at.since(started_at),
        None => said.ok_or_else(|| bad("has neither `end_time` nor `duration`"))?,
    };
    if said.is_some_and(|said| said != duration) {
        into.event(
            row.line,
            "`duration` is not the time from start to end (it has the wait in it); the latter counts",
        );
    }
    Ok(TraceJob {
        name: row.own("job_id").unwrap_or_else(|| format!("acme-{}", row.line)),
        line: row.line,
        submitted_at,
        duration,
        gpus,
        nodes: row.count_if("node_num")?,
        gpu_type: None,
        team: named(row.text("type")),
        user: named(row.text("user")),
        time_limit: None,
        min_runtime: None,
        is_free: None,
        waited: Some(started_at.since(submitted_at)),
        end: end(row.raw("state")),
    })
}
