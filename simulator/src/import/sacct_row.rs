//! One row of Slurm's accounting: a run of a job.

use scheduler_core::unit::{Span, Timestamp};

use super::options::{OneGpu, Options, Unit};
use super::table::{Header, NO_GPU, Row, count};
use super::tres::{self, Gpus};
use super::value::{Bad, bad, bad_value, end, length, seconds};
use crate::trace::{TraceEnd, TraceJob};

/// A run of a job.
pub(super) struct Run {
    /// What all runs of one job have in common: the number of the job, and its user.
    pub key: (String, String),
    /// When this run was submitted.
    pub submitted_at: Timestamp,
    /// Whether it could only begin later: a dependency, or a time that was asked for.
    pub was_held: bool,
    /// The job, as far as this run knows it.
    pub job: TraceJob,
}

/// Which columns are there, of those that say the same thing.
pub(super) struct Columns {
    key: &'static str,
    name: &'static str,
    has_start: bool,
}

/// All columns that are read.
pub(super) const READ: &[&str] = &[
    "JobIDRaw",
    "JobID",
    "User",
    "Account",
    "State",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "ElapsedRaw",
    "Elapsed",
    "TimelimitRaw",
    "Timelimit",
    "NNodes",
    "AllocNodes",
    "NCPUS",
    "AllocCPUS",
    "ReqCPUS",
    "ReqTRES",
    "AllocTRES",
    "ReqGRES",
    "AllocGRES",
];

impl Columns {
    /// Looks at a header; none if it does not name jobs.
    pub(super) fn of(header: &Header) -> Option<Self> {
        let key = header.first_of(&["JobIDRaw", "JobID"])?;
        let name = header.first_of(&["JobID", "JobIDRaw"])?;
        Some(Self { key, name, has_start: header.has("Start") })
    }
}

/// Reads a row.
///
/// # Errors
///
/// When it is no run that can be replayed.
pub(super) fn run(row: &Row<'_>, columns: &Columns, options: &Options) -> Result<Run, Bad> {
    let name = row.text(columns.name).ok_or_else(|| bad(format!("`{}` is empty", columns.name)))?;
    if name.contains('.') || row.raw(columns.key).contains('.') {
        return Err(bad("is a step of a job, which has a row of its own"));
    }
    let state = row.raw("State");
    if name.contains('[') || state.to_ascii_uppercase().starts_with("PENDING") {
        return Err(bad_value("never started", state));
    }
    let started_at = row.moment_if("Start")?;
    let duration = duration(row, started_at)?;
    let is_idle = end(state) == TraceEnd::Cancelled && duration.is_zero();
    if (columns.has_start && started_at.is_none()) || is_idle {
        return Err(bad_value("never started", state));
    }
    let nodes = count_of(row, &["NNodes", "AllocNodes"])?.or_else(|| listed(row, "node"));
    let Gpus { count: gpus, gpu_type } = gpus(row, nodes, options.one_gpu)?.ok_or_else(|| bad(NO_GPU))?;
    let submitted_at = row.moment("Submit")?;
    if started_at.is_some_and(|started_at| started_at < submitted_at) {
        return Err(bad("started before it was submitted"));
    }
    let eligible_at =
        row.moment_if("Eligible")?.filter(|at| started_at.is_none_or(|started_at| *at <= started_at));
    let from = eligible_at.map_or(submitted_at, |eligible_at| eligible_at.max(submitted_at));
    let user = row.text("User");
    let job = TraceJob {
        name: name.to_owned(),
        line: row.line,
        submitted_at: from,
        duration,
        gpus,
        nodes: nodes.filter(|nodes| *nodes > 0),
        gpu_type,
        team: row.own("Account"),
        user: user.map(str::to_owned),
        time_limit: time_limit(row)?,
        min_runtime: None,
        is_free: None,
        waited: started_at.map(|started_at| started_at.since(from)),
        end: end(state),
    };
    let key = (row.raw(columns.key).to_owned(), user.unwrap_or("").to_owned());
    Ok(Run { key, submitted_at, was_held: from > submitted_at, job })
}

fn duration(row: &Row<'_>, started_at: Option<Timestamp>) -> Result<Span, Bad> {
    let raw = row.text("ElapsedRaw").map(|text| (text, seconds(text)));
    let clock = || row.text("Elapsed").map(|text| (text, length(text)));
    if let Some((text, read)) = raw.or_else(clock) {
        return read.ok_or_else(|| bad_value("has an elapsed time that nobody can read", text));
    }
    let Some(started_at) = started_at else { return Ok(Span::ZERO) };
    let Some(ended_at) = row.moment_if("End")? else { return Err(bad("has no end and no elapsed time")) };
    let ran = ended_at.since(started_at);
    match (ended_at < started_at, ran > Span::MAX) {
        (true, _) => Err(bad("ended before it started")),
        (_, true) => Err(bad("runs longer than ten years")),
        _ => Ok(ran),
    }
}

fn time_limit(row: &Row<'_>) -> Result<Option<Span>, Bad> {
    let is_open =
        |text: &&str| !["UNLIMITED", "Partition_Limit"].iter().any(|open| open.eq_ignore_ascii_case(text));
    if let Some(text) = row.text("TimelimitRaw").filter(is_open) {
        let minutes = super::value::scaled(text, 60_000);
        return minutes.map(Some).ok_or_else(|| bad_value("`TimelimitRaw` is no number of minutes", text));
    }
    let Some(text) = row.text("Timelimit").filter(is_open) else { return Ok(None) };
    length(text).map(Some).ok_or_else(|| bad_value("`Timelimit` is no length of time", text))
}

fn count_of(row: &Row<'_>, columns: &[&str]) -> Result<Option<u32>, Bad> {
    for column in columns {
        if let Some(text) = row.text(column) {
            return count(text)
                .map(Some)
                .ok_or_else(|| bad_value(format!("`{column}` is no whole number"), text));
        }
    }
    Ok(None)
}

/// Returns an amount from the list of what was given, else of what was asked for.
fn listed(row: &Row<'_>, of: &str) -> Option<u32> {
    ["AllocTRES", "ReqTRES"].iter().find_map(|column| tres::amount(row.raw(column), of))
}

/// Returns the GPUs: those that were given, else those that were asked for; or what stands for them by the rule.
fn gpus(row: &Row<'_>, nodes: Option<u32>, one_gpu: Option<OneGpu>) -> Result<Option<Gpus>, Bad> {
    if let Some(rule) = one_gpu {
        let amount = match rule.of {
            Unit::Nodes => nodes,
            Unit::Processors => {
                count_of(row, &["NCPUS", "AllocCPUS", "ReqCPUS"])?.or_else(|| listed(row, "cpu"))
            }
        };
        let amount = amount.filter(|amount| *amount > 0);
        return Ok(amount.map(|amount| Gpus { count: rule.gpus(amount), gpu_type: None }));
    }
    for column in ["AllocTRES", "ReqTRES"] {
        if let Some(list) = row.text(column) {
            return tres::tres(list);
        }
    }
    for column in ["AllocGRES", "ReqGRES"] {
        let Some(list) = row.text(column) else { continue };
        let Some(on_each) = tres::gres(list)? else { continue };
        let count =
            on_each.count.checked_mul(nodes.unwrap_or(1).max(1)).ok_or_else(|| bad("has too many GPUs"))?;
        return Ok(Some(Gpus { count, ..on_each }));
    }
    Ok(None)
}
