//! `simulate trace`: what is in a trace.

use std::path::PathBuf;

use serde::Serialize;
use simulator::import::{self, Options, Summary, describe};
use simulator::trace::Trace;

use super::ran;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::duration;
use crate::form::table::Table;
use crate::form::text::count;
use crate::shell::Shell;

/// Arguments of `simulate trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar simulate trace jobs.sacct.txt\n  \
    bursar simulate trace old.swf.gz --one-gpu 64-processors\n\n\
    The format is told from the content; --format says it where that is not enough. Rows that cannot be used are counted \
    and shown with their line.")]
pub struct Args {
    /// The trace; .gz and .zst are read as they are
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// In a log without GPUs, what stands for one of them
    #[arg(long, value_name = "RULE")]
    one_gpu: Option<String>,
    /// A second file that completes it
    #[arg(long, value_name = "FILE")]
    companion: Option<PathBuf>,
    /// GPUs of a cluster: how much load it would be for it
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
}

#[derive(Debug, Serialize)]
struct View {
    schema: &'static str,
    name: String,
    rows: u64,
    jobs: usize,
    span_ms: u64,
    gpu_hours: f64,
    teams: usize,
    users: usize,
    biggest_gpus: u32,
    busiest_minute: usize,
    peak_gpus: u64,
    load: Option<f64>,
    sizes: Vec<SizeRow>,
    durations_ms: [u64; 4],
    waits_ms: Option<[u64; 4]>,
    left_out: Vec<LeftOut>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct SizeRow {
    from_gpus: u32,
    to_gpus: Option<u32>,
    jobs: usize,
}

#[derive(Debug, Serialize)]
struct LeftOut {
    reason: String,
    rows: u64,
    lines: Vec<u64>,
}

/// Runs the command.
pub fn run(shell: &Shell, args: &Args) -> Result<Exit, Failure> {
    let mut options = Options { companion: args.companion.clone(), ..Options::default() };
    if let Some(format) = &args.format {
        options.format = Some(format.parse().map_err(ran::bad)?);
    }
    if let Some(rule) = &args.one_gpu {
        options.one_gpu = Some(rule.parse().map_err(ran::bad)?);
    }
    let trace = import::open(&args.file, &options).map_err(ran::bad)?;
    let view = view(&trace, &describe(&trace), args.gpus);
    shell.show(&view, std::slice::from_ref(&view.name), |_| render(&view))?;
    Ok(Exit::Done)
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
fn view(trace: &Trace, seen: &Summary, gpus: Option<u32>) -> View {
    let ms = |spans: [scheduler_core::unit::Span; 4]| spans.map(|span| span.as_millis());
    let left_out = trace.import.reasons.iter().map(|(reason, rows)| LeftOut {
        reason: reason.clone(),
        rows: *rows,
        lines: trace
            .import
            .skipped
            .iter()
            .filter(|row| row.reason.starts_with(reason.as_str()))
            .map(|row| row.line)
            .collect(),
    });
    View {
        schema: "trace/v1",
        name: trace.name.clone(),
        rows: trace.import.rows,
        jobs: seen.jobs,
        span_ms: seen.span().as_millis(),
        gpu_hours: seen.gpu_ms as f64 / 3_600_000.0,
        teams: seen.teams,
        users: seen.users,
        biggest_gpus: seen.biggest,
        busiest_minute: seen.busiest_minute,
        peak_gpus: seen.peak_gpus,
        load: gpus.and_then(|gpus| seen.load_milli(gpus)).map(|milli| milli as f64 / 1_000.0),
        sizes: seen
            .sizes
            .iter()
            .map(|row| SizeRow { from_gpus: row.from, to_gpus: row.to, jobs: row.jobs })
            .collect(),
        durations_ms: ms(seen.durations),
        waits_ms: seen.waits.map(ms),
        left_out: left_out.collect(),
        notes: trace.import.notes.clone(),
    }
}

fn render(view: &View) -> String {
    let mut out = format!("{}: {} of {} rows\n\n", view.name, count(view.jobs as u64, "job"), view.rows);
    let mut table = Table::new(&["WHAT", ">VALUE"]);
    let spans = |spans: &[u64; 4]| spans.map(duration::short).join(" · ");
    table.row(["from first to last submission".into(), duration::short(view.span_ms)]);
    table.row(["GPU-hours".into(), format!("{:.1}", view.gpu_hours)]);
    if let Some(load) = view.load {
        table.row(["offered load".into(), format!("{load:.3}")]);
    }
    table.row(["teams".into(), view.teams.to_string()]);
    table.row(["users".into(), view.users.to_string()]);
    table.row(["largest job, GPUs".into(), view.biggest_gpus.to_string()]);
    table.row(["most submissions in a minute".into(), view.busiest_minute.to_string()]);
    table.row(["most GPUs at once, if nobody waited".into(), view.peak_gpus.to_string()]);
    table.row(["length: median · p90 · p99 · longest".into(), spans(&view.durations_ms)]);
    if let Some(waits) = &view.waits_ms {
        table.row(["wait in the source: the same".into(), spans(waits)]);
    }
    for row in &view.sizes {
        let size = match row.to_gpus {
            Some(to) if to == row.from_gpus => format!("jobs with {to} GPUs"),
            Some(to) => format!("jobs with {} to {to} GPUs", row.from_gpus),
            None => format!("jobs with {} GPUs and more", row.from_gpus),
        };
        table.row([size, row.jobs.to_string()]);
    }
    out.push_str(&table.render());
    if !view.left_out.is_empty() {
        out.push('\n');
        let mut table = Table::new(&["LEFT OUT", ">ROWS", "FIRST LINES"]);
        for row in &view.left_out {
            let lines: Vec<String> = row.lines.iter().map(u64::to_string).collect();
            table.row([row.reason.clone(), row.rows.to_string(), lines.join(", ")]);
        }
        out.push_str(&table.render());
    }
    for note in &view.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    out
}
