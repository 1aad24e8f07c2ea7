//! Slurm's accounting, as `sacct -P` prints it, with any of its columns.
//!
//! A row is a run. Steps (`123.batch`) are left out; the tasks of an array are jobs of their own; with `-D` a requeued job
//! has one row a run, put together here by its number and user: its submission is that of the first run, its duration
//! that of all runs, its end that of the last. A job that could not begin before some later time (a dependency, a time
//! that was asked for) is submitted at that time. The table knows no quotes, so a separator in a job's name breaks its
//! row, which is then counted.

use std::collections::HashMap;

use scheduler_core::unit::Timestamp;

use super::collect::Collector;
use super::error::Error;
use super::format::Format;
use super::sacct_row::{Columns, READ, Run, run};
use super::source::Lines;
use super::table::{Header, Table};

/// What separates fields, in the order in which it is looked for.
const DELIMITERS: [&str; 4] = ["|", ",", ";", "\t"];

/// Columns of which one is there whenever GPUs can be known.
const RESOURCES: [&str; 4] = ["AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES"];

fn header_by(text: &str, delimiter: &str) -> Header {
    Header::new(1, text.split(delimiter).map(str::to_owned).collect())
}

/// Returns whether this line is a header of `sacct`.
pub(super) fn is_header(text: &str) -> bool {
    DELIMITERS.iter().any(|delimiter| {
        let header = header_by(text, delimiter);
        let has_any = |columns: &[&str]| columns.iter().any(|column| header.has(column));
        has_any(&["JobID", "JobIDRaw"]) && header.has("State") && header.has("Submit") && !header.has("gpus")
    })
}

/// Finds the separator of a header that may have any: the one that makes the most known columns.
fn delimiter_of(head: &str) -> &'static str {
    let known = |delimiter: &&&str| {
        let header = header_by(head, delimiter);
        READ.iter().filter(|column| header.has(column)).count()
    };
    // Of equals the last is the maximum, so the usual one goes last.
    DELIMITERS.iter().rev().max_by_key(known).copied().unwrap_or("|")
}

/// Reads it.
pub(super) fn read(mut lines: Lines<'_>, into: &mut Collector<'_>) -> Result<(), Error> {
    let delimiter = match &into.options().delimiter {
        Some(delimiter) if !delimiter.is_empty() => delimiter.clone(),
        _ => delimiter_of(&lines.peek()?).to_owned(),
    };
    let mut table = Table::plain(lines, &delimiter)?;
    let columns = check(&table, into)?;
    into.note_unread(&table.header.others(READ));
    if let Some(rule) = into.options().one_gpu {
        into.note(format!("rule: {rule} = 1 GPU, for all jobs"));
    }
    let mut jobs = Jobs::default();
    while table.advance()? {
        into.row();
        match table.row().and_then(|row| run(&row, &columns, into.options())) {
            Ok(run) => jobs.add(run, into)?,
            Err(bad) => into.skip(table.number(), &bad),
        }
    }
    Ok(())
}

fn check(table: &Table<'_>, into: &Collector<'_>) -> Result<Columns, Error> {
    let lacks = |missing: &str, fix: &str| table.header.lacks(table.path(), Format::Sacct, missing, fix);
    let again = "export again with the header (without -n) and the columns in docs/users/traces.md";
    let columns = Columns::of(&table.header).ok_or_else(|| lacks("`JobID` or `JobIDRaw`", again))?;
    for needed in ["Submit", "State"] {
        if !table.header.has(needed) {
            return Err(lacks(&format!("`{needed}`"), again));
        }
    }
    let has_any = |columns: &[&str]| columns.iter().any(|column| table.header.has(column));
    let has_times = has_any(&["Start"]) && has_any(&["End"]);
    if !has_times && !has_any(&["ElapsedRaw", "Elapsed"]) {
        return Err(lacks("`ElapsedRaw` (or `Elapsed`, or `Start` and `End`)", again));
    }
    if into.options().one_gpu.is_none() && !has_any(&RESOURCES) {
        let fix = "export again with AllocTRES, or give the rule for one GPU, as `1 node`";
        return Err(lacks("`AllocTRES` (or `ReqTRES`, `AllocGRES`, `ReqGRES`) to know GPUs from", fix));
    }
    Ok(columns)
}

/// Jobs by their number, so that further runs find theirs.
#[derive(Default)]
struct Jobs {
    places: HashMap<(String, String), Place>,
}

struct Place {
    job: usize,
    first: Timestamp,
    last: Timestamp,
}

impl Jobs {
    fn add(&mut self, run: Run, into: &mut Collector<'_>) -> Result<(), Error> {
        if run.was_held {
            into.event(run.job.line, "could not begin when it was submitted, and is submitted when it could");
        }
        let Some(place) = self.places.get_mut(&run.key) else {
            let place = Place { job: into.jobs.len(), first: run.submitted_at, last: run.submitted_at };
            self.places.insert(run.key, place);
            return into.take(run.job.line, Ok(run.job));
        };
        into.event(run.job.line, "is a further run of a job that was requeued, and was added to it");
        let Some(job) = into.jobs.get_mut(place.job) else { return Ok(()) };
        job.duration = job.duration.plus(run.job.duration);
        if run.submitted_at < place.first {
            place.first = run.submitted_at;
            (job.submitted_at, job.waited) = (run.job.submitted_at, run.job.waited);
        }
        if run.submitted_at >= place.last {
            place.last = run.submitted_at;
            (job.end, job.gpus, job.nodes) = (run.job.end, run.job.gpus, run.job.nodes);
        }
        Ok(())
    }
}
