//! Acme Kalos in the form of a simulator of its own: `arrival_time`, iterations of half a second, workers.
//!
//! Arrivals, sizes and durations are the trace's; the remaining columns are constants that the form's author made up.
//! A job runs `num_iteration / 2` seconds on `gpu_workers * gpu_per_worker` GPUs; `profiled_network` 1000 is
//! pretraining, 500 fine-tuning or other work.

use scheduler_core::unit::Span;

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::source::Lines;
use super::table::{NO_GPU, Row, Table};
use super::value::{Bad, bad, bad_value};
use crate::trace::{TraceEnd, TraceJob};

/// What its header has.
pub(super) const COLUMNS: &[&str] =
    &["job_id", "arrival_time", "num_iteration", "gpu_workers", "gpu_per_worker", "profiled_network"];

/// Reads it.
pub(super) fn read(lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let mut table = Table::csv(lines)?;
    table.header.require(table.path(), Format::KalosIterations, COLUMNS)?;
    into.note_unread(&table.header.others(COLUMNS));
    into.note("a thin sample: completed jobs only; teams are the two kinds of work");
    while table.advance()? {
        into.row();
        let job = table.row().and_then(|row| job(&row));
        into.take(table.number(), job)?;
    }
    Ok(())
}

fn job(row: &Row<'_>) -> Result<TraceJob, Bad> {
    let workers = row.count("gpu_workers")?;
    let gpus = workers.checked_mul(row.count("gpu_per_worker")?).ok_or_else(|| bad("has too many GPUs"))?;
    if gpus == 0 {
        return Err(bad(NO_GPU));
    }
    let duration = Span::from_millis(u64::from(row.count("num_iteration")?) * 500);
    if duration > Span::MAX {
        return Err(bad_value("runs longer than ten years", row.raw("num_iteration")));
    }
    let team = match row.raw("profiled_network") {
        "1000" => "pretrain",
        _ => "sft-or-other",
    };
    Ok(TraceJob {
        name: row.own("job_id").map_or_else(|| format!("kalos-{}", row.line), |id| format!("kalos-{id}")),
        line: row.line,
        submitted_at: row.moment("arrival_time")?,
        duration,
        gpus,
        nodes: Some(workers),
        gpu_type: Some("A100".to_owned()),
        team: Some(team.to_owned()),
        user: None,
        time_limit: None,
        min_runtime: None,
        is_free: None,
        waited: None,
        end: TraceEnd::Completed,
    })
}
