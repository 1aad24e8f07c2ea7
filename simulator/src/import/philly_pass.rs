//! Philly's passed jobs: `timestamp,duration,num_gpus,gpu_time,cluster`.
//!
//! Others made this form of Microsoft's log. A duration is that of all attempts of a job together; the cluster is its
//! virtual cluster, the team. It has passed jobs only, so a replay is lighter than the cluster's days were.

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::options::named;
use super::source::Lines;
use super::table::{Row, Table};
use super::value::Bad;
use crate::trace::{TraceEnd, TraceJob};

/// What its header has.
pub(super) const COLUMNS: &[&str] = &["timestamp", "duration", "num_gpus", "cluster"];

/// Reads it.
pub(super) fn read(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let mut table = Table::csv(lines)?;
    table.header.require(table.path(), Format::PhillyPass, COLUMNS)?;
    into.note_unread(&table.header.others(&[COLUMNS, &["gpu_time"]].concat()));
    into.note("passed jobs only: those that failed or were stopped, over half of the GPU time, are not in this file");
    into.note("times have no zone (US Pacific) and are taken as they stand");
    while table.advance()? {
        into.row();
        let job = table.row().and_then(|row| job(&row));
        into.take(table.number(), job)?;
    }
    Ok(())
}

fn job(row: &Row<'_>) -> Result<TraceJob, Bad> {
    Ok(TraceJob {
        name: format!("philly-{}", row.line),
        line: row.line,
        submitted_at: row.moment("timestamp")?,
        duration: row.seconds("duration")?,
        gpus: row.gpus("num_gpus")?,
        nodes: None,
        gpu_type: None,
        team: named(row.text("cluster")),
        user: None,
        time_limit: None,
        min_runtime: None,
        is_free: None,
        waited: None,
        end: TraceEnd::Completed,
    })
}
