//! Helios' `cluster_log.csv` (SenseTime, 2020; Hu et al., SC 2021): one row a job, its virtual cluster is the team.

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::options::named;
use super::source::Lines;
use super::table::{Row, Table};
use super::value::{Bad, bad, end};
use crate::trace::TraceJob;

/// What tells its header from others.
pub(super) const MARKS: &[&str] = &["job_id", "vc", "gpu_num", "state", "submit_time", "duration"];

const NEEDED: &[&str] = &["job_id", "user", "vc", "gpu_num", "state", "submit_time", "duration"];
const READ: &[&str] = &["node_num", "start_time", "end_time", "queue"];

/// Reads it.
pub(super) fn read(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let mut table = Table::csv(lines)?;
    table.header.require(table.path(), Format::Helios, NEEDED)?;
    into.note_unread(&table.header.others(&[NEEDED, READ].concat()));
    into.note("times have no zone (China, UTC+8) and are taken as they stand");
    while table.advance()? {
        into.row();
        let job = table.row().and_then(|row| job(&row));
        into.take(table.number(), job)?;
    }
    Ok(())
}

fn job(row: &Row<'_>) -> Result<TraceJob, Bad> {
    let gpus = row.gpus("gpu_num")?;
    let submitted_at = row.moment("submit_time")?;
    let started_at = row.moment_if("start_time")?;
    if started_at.is_some_and(|started_at| started_at < submitted_at) {
        return Err(bad("started before it was submitted"));
    }
    let waited = row.seconds_if("queue")?.or(started_at.map(|started_at| started_at.since(submitted_at)));
    Ok(TraceJob {
        name: row.own("job_id").unwrap_or_else(|| format!("helios-{}", row.line)),
        line: row.line,
        submitted_at,
        duration: row.seconds("duration")?,
        gpus,
        nodes: row.count_if("node_num")?,
        gpu_type: None,
        team: named(row.text("vc")),
        user: named(row.text("user")),
        time_limit: None,
        min_runtime: None,
        is_free: None,
        waited,
        end: end(row.raw("state")),
    })
}
