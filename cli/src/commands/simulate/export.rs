//! `simulate export`: the cluster's own jobs as a trace, without names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proto::v1::{JobView, ListJobsRequest, ReadAs};
use scheduler_core::unit::{Span, Timestamp};
use simulator::import::write;
use simulator::trace::{Trace, TraceEnd, TraceJob};

use super::ran;
use super::runs::write as write_file;
use crate::commands::past;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// Arguments of `simulate export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar simulate export --since 28d --out month.csv\n  \
    bursar simulate trace month.csv --gpus 256\n\n\
    Users become u001, u002, …, jobs are numbered anew, and names are left out. Budgets become b01, b02, … unless \
    --budgets keeps them. Jobs that never ran are left out: nobody knows how long they would have.")]
pub struct Args {
    /// Jobs that ended after this: `28d` (before now), `2027-01-31`, or RFC 3339
    #[arg(long, value_name = "MOMENT", default_value = "28d")]
    since: String,
    /// Keep the paths of budgets
    #[arg(long)]
    budgets: bool,
    /// The trace's file, instead of the output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When no replica answers, or the file cannot be written.
pub async fn run(shell: &Shell, args: &Args) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let time = past::time(shell, &client, Some(&args.since), None).await?;
    let mut request = ListJobsRequest {
        read: Some(ReadAs { stale: false }),
        states: vec!["ended".into()],
        since_at: time.since_at,
        until_at: time.until_at,
        tasks: true,
        ..ListJobsRequest::default()
    };
    let mut jobs = Vec::new();
    loop {
        let page = client.list_jobs(request.clone()).await?;
        jobs.extend(page.jobs);
        match page.next {
            Some(next) => request.from = Some(next),
            None => break,
        }
    }
    let (trace, never_ran) = trace(&jobs, args.budgets);
    let mut text = Vec::new();
    write(&trace, &mut text).map_err(ran::bad)?;
    match &args.out {
        Some(file) => write_file(file, &String::from_utf8_lossy(&text))?,
        None => shell.print_bytes(&text)?,
    }
    shell.say(&format!("{} jobs, {never_ran} left out that never ran", trace.jobs.len()));
    Ok(Exit::Done)
}

/// Makes a trace of jobs that ended, by submission; returns how many of them never ran.
fn trace(jobs: &[JobView], keeps_budgets: bool) -> (Trace, usize) {
    let mut jobs: Vec<&JobView> = jobs.iter().filter(|job| job.tasks.is_none()).collect();
    jobs.sort_by_key(|job| (job.submitted_at, job.job));
    let (mut users, mut budgets) = (Names::new("u", 3), Names::new("b", 2));
    let mut made = Vec::new();
    for job in &jobs {
        let Some(duration) = ran_for(job) else { continue };
        let number = made.len() + 1;
        let nodes = job.attempts.last().map(|attempt| attempt.nodes.len().max(1));
        made.push(TraceJob {
            name: number.to_string(),
            line: 0,
            submitted_at: Timestamp::from_millis(job.submitted_at),
            duration,
            gpus: job.gpus.max(1),
            nodes: nodes.and_then(|nodes| u32::try_from(nodes).ok()),
            gpu_type: job.shape.as_ref().and_then(|shape| shape.gpu_type.clone()),
            team: Some(if keeps_budgets { job.budget.clone() } else { budgets.of(&job.budget) }),
            user: Some(users.of(&job.user)),
            time_limit: job.time_limit_ms.map(Span::from_millis),
            min_runtime: Some(Span::from_millis(job.min_runtime_ms)),
            is_free: Some(job.min_runtime_ms == 0),
            waited: first_start(job).map(|at| at.since(Timestamp::from_millis(job.submitted_at))),
            end: end(job.end.as_deref()),
        });
    }
    let never_ran = jobs.len() - made.len();
    (Trace { name: "export".into(), jobs: made, ..Trace::default() }, never_ran)
}

/// Returns how long its attempts ran, all together; none if none did.
fn ran_for(job: &JobView) -> Option<Span> {
    let ran = job.attempts.iter().filter_map(|attempt| attempt.ended_at.zip(attempt.started_at));
    let total: u64 = ran.map(|(ended, started)| ended.saturating_sub(started)).sum();
    (total > 0).then(|| Span::from_millis(total))
}

fn first_start(job: &JobView) -> Option<Timestamp> {
    job.attempts.iter().filter_map(|attempt| attempt.started_at).min().map(Timestamp::from_millis)
}

fn end(end: Option<&str>) -> TraceEnd {
    match end {
        Some("completed") => TraceEnd::Completed,
        Some("failed") => TraceEnd::Failed,
        Some("cancelled") => TraceEnd::Cancelled,
        Some("timed-out") => TraceEnd::TimedOut,
        Some("lost") => TraceEnd::NodeFailed,
        _ => TraceEnd::Unknown,
    }
}

/// Names that stand for others, by first sight.
struct Names {
    letter: &'static str,
    digits: usize,
    known: BTreeMap<String, usize>,
}

impl Names {
    fn new(letter: &'static str, digits: usize) -> Self {
        Self { letter, digits, known: BTreeMap::new() }
    }

    fn of(&mut self, name: &str) -> String {
        let next = self.known.len() + 1;
        let number = *self.known.entry(name.to_owned()).or_insert(next);
        format!("{}{number:0width$}", self.letter, width = self.digits)
    }
}

#[cfg(test)]
mod tests {
    use proto::v1::AttemptView;

    use super::*;

    fn job(number: u32, submitted_at: u64, user: &str, ran: &[(u64, u64)]) -> JobView {
        let attempt = |(started, ended): &(u64, u64)| AttemptView {
            started_at: Some(*started),
            ended_at: Some(*ended),
            nodes: vec!["n".into()],
            ..AttemptView::default()
        };
        JobView {
            job: number,
            name: "a-secret".into(),
            user: user.into(),
            budget: "lab/secret".into(),
            submitted_at,
            gpus: 4,
            min_runtime_ms: 3_600_000,
            attempts: ran.iter().map(attempt).collect(),
            end: Some("completed".into()),
            ..JobView::default()
        }
    }

    #[test]
    fn a_trace_of_our_own_has_no_names_and_reads_back_alike() {
        let jobs = [
            job(12, 5_000, "bob", &[(9_000, 12_000), (20_000, 25_000)]),
            job(11, 1_000, "eve", &[(2_000, 4_000)]),
            job(13, 6_000, "bob", &[]),
        ];
        let (made, never_ran) = trace(&jobs, false);
        assert_eq!((made.jobs.len(), never_ran), (2, 1));
        let (first, second) = (&made.jobs[0], &made.jobs[1]);
        assert_eq!((first.user.as_deref(), second.user.as_deref()), (Some("u001"), Some("u002")));
        assert_eq!(first.team.as_deref(), Some("b01"));
        assert_eq!((second.duration, second.waited), (Span::from_secs(8), Some(Span::from_secs(4))));
        let mut text = Vec::new();
        write(&made, &mut text).expect("into memory");
        let shown = String::from_utf8_lossy(&text);
        for secret in ["secret", "bob", "eve"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let file = std::env::temp_dir().join(format!("bursar-export-{}.csv", std::process::id()));
        std::fs::write(&file, &text).expect("a file");
        let read =
            simulator::import::open(&file, &simulator::import::Options::default()).expect("our own form");
        std::fs::remove_file(&file).expect("our own file");
        let plain = |jobs: &[TraceJob]| {
            jobs.iter().map(|job| TraceJob { line: 0, ..job.clone() }).collect::<Vec<_>>()
        };
        assert_eq!(plain(&read.jobs), plain(&made.jobs));
    }
}
