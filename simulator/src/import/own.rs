//! Our own export: a CSV whose first line names the version, and every time in milliseconds.
//!
//! ```text
//! # bursar-trace 1
//! job,submitted_ms,duration_ms,gpus,nodes,gpu_type,team,user,time_limit_ms,min_runtime_ms,free,waited_ms,end
//! 4190,1780000000000,28800000,64,8,H100,language/posttrain,u004,,14400000,no,84000,completed
//! ```
//!
//! Lines that begin with `#` before the header are remarks. An empty field is not known. A reader takes columns by name,
//! and passes over those that it does not know.

use std::io::{self, Write};

use scheduler_core::unit::Span;

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::source::Lines;
use super::table::{Row, Table};
use super::value::{Bad, bad, end, shown};
use crate::trace::{Trace, TraceEnd, TraceJob};

/// How its first line begins.
pub(super) const MARK: &str = "# bursar-trace";

/// The version that is written, and the newest that is read.
const VERSION: u32 = 1;

const COLUMNS: &[&str] = &[
    "job",
    "submitted_ms",
    "duration_ms",
    "gpus",
    "nodes",
    "gpu_type",
    "team",
    "user",
    "time_limit_ms",
    "min_runtime_ms",
    "free",
    "waited_ms",
    "end",
];

const NEEDED: &[&str] = &["job", "submitted_ms", "duration_ms", "gpus"];

/// Reads it.
pub(super) fn read(mut lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let has_line = lines.advance()?;
    let first = if has_line { lines.text().unwrap_or_default() } else { String::new() };
    let form = |what: String, fix: &str| Error::Form {
        path: into.path().to_owned(),
        line: 1,
        format: Format::Bursar,
        what,
        fix: fix.to_owned(),
    };
    let version = first.strip_prefix(MARK).and_then(|rest| rest.trim().parse::<u32>().ok());
    match version {
        None => {
            let what = format!("the first line is `{}`", shown(&first));
            return Err(form(what, "begin the file with `# bursar-trace 1`, or read it as format csv"));
        }
        Some(VERSION) => {}
        Some(other) => {
            let what = format!("it has version {other}, and this program reads version {VERSION}");
            return Err(form(what, "read it with the program that wrote it, or a newer one"));
        }
    }
    let mut table = Table::csv(lines)?;
    table.header.require(table.path(), Format::Bursar, NEEDED)?;
    into.note_unread(&table.header.others(COLUMNS));
    while table.advance()? {
        into.row();
        let job = table.row().and_then(|row| job(&row));
        into.take(table.number(), job)?;
    }
    Ok(())
}

fn job(row: &Row<'_>) -> Result<TraceJob, Bad> {
    let text = |column| Some(row.raw(column)).filter(|text| !text.is_empty()).map(str::to_owned);
    let submitted_at = row.moment_in("submitted_ms")?.ok_or_else(|| bad("`submitted_ms` is empty"))?;
    Ok(TraceJob {
        name: text("job").ok_or_else(|| bad("`job` is empty"))?,
        line: row.line,
        submitted_at,
        duration: row.length_in("duration_ms")?.ok_or_else(|| bad("`duration_ms` is empty"))?,
        gpus: row.gpus("gpus")?,
        nodes: row.count_if("nodes")?,
        gpu_type: text("gpu_type"),
        team: text("team"),
        user: text("user"),
        time_limit: row.length_in("time_limit_ms")?,
        min_runtime: row.length_in("min_runtime_ms")?,
        is_free: row.yes_if("free")?,
        waited: row.length_in("waited_ms")?,
        end: end(row.raw("end")),
    })
}

/// Writes a trace in our own form, which [`read`](super::read) reads back as it was.
///
/// # Errors
///
/// When `out` cannot be written.
pub fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{MARK} {VERSION}")?;
    writeln!(out, "{}", COLUMNS.join(","))?;
    for job in &trace.jobs {
        let number = |value: Option<u32>| value.map_or(String::new(), |value| value.to_string());
        let ms = |span: Option<Span>| span.map_or(String::new(), |span| span.as_millis().to_string());
        let free = job.is_free.map_or("", |is_free| if is_free { "yes" } else { "no" });
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{free},{},{}",
            quoted(&job.name),
            job.submitted_at.as_millis(),
            job.duration.as_millis(),
            job.gpus,
            number(job.nodes),
            quoted(job.gpu_type.as_deref().unwrap_or("")),
            quoted(job.team.as_deref().unwrap_or("")),
            quoted(job.user.as_deref().unwrap_or("")),
            ms(job.time_limit),
            ms(job.min_runtime),
            ms(job.waited),
            word(job.end),
        )?;
    }
    out.flush()
}

const fn word(end: TraceEnd) -> &'static str {
    match end {
        TraceEnd::Completed => "completed",
        TraceEnd::Failed => "failed",
        TraceEnd::Cancelled => "cancelled",
        TraceEnd::TimedOut => "timed_out",
        TraceEnd::NodeFailed => "node_failed",
        TraceEnd::Running => "running",
        TraceEnd::Unknown => "unknown",
    }
}

/// Returns a field of CSV. A line break in it becomes a blank: a row is one line.
fn quoted(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    let text = text.trim();
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
