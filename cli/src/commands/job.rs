//! `bursar job`: show, list, hold, release, requeue, cancel, await jobs.

use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use proto::v1::{AsOf, AttemptView, CancelRequest, ListJobsRequest, ReadAs};
use serde::Serialize;

use super::job_word::{self, Word};
use super::{ended, past, subject};
use crate::clock::Deadline;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::duration;
use crate::render;
use crate::shell::Shell;

/// Arguments of `job`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show one job: terms, attempts, end; of an array its tasks in sum
    Show {
        /// Its number; 4190[7] is one task of an array
        job: String,
    },
    /// List jobs: all that live, by state, or all that ended in some time
    List(List),
    /// Show how each attempt of a job went, and what those that gave way lost
    Attempts {
        /// Its number
        job: String,
    },
    /// Keep waiting jobs from being tried until they are released
    #[command(
        after_help = "A job that runs is not held: requeue or cancel it.\n\nExamples:\n  bursar job hold 4190\n  bursar job hold 4190 --reason \"its data is being repaired\""
    )]
    Hold(job_word::Args),
    /// Put held jobs back in line, at the place of their first submission
    #[command(
        after_help = "Also for jobs that were held after failed launches, or after preemptions without progress.\n\nExample:\n  bursar job release 4190"
    )]
    Release(job_word::Args),
    /// Stop jobs after their notice and grace, and put them back in line
    #[command(
        after_help = "The same number, the next attempt. What was saved is kept: the job gets its notice like at a preemption.\n\nExample:\n  bursar job requeue 4190 --reason \"a slow disk on node-07\""
    )]
    Requeue(job_word::Args),
    /// End jobs: the end signal, then the kill after a grace time
    Cancel(Cancel),
    /// Wait until jobs have ended
    Wait(Wait),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar job list --mine\n  \
    bursar job list --since 7d --user ana          what ended in a week, also what left state\n  \
    bursar job list --since 2027-01-01 --until 2027-02-01 --limit 5000 -o jsonl")]
struct List {
    /// Only this budget and what is below it
    #[arg(long, value_name = "BUDGET")]
    budget: Option<String>,
    /// Only this user's jobs
    #[arg(long, value_name = "NAME", conflicts_with = "mine")]
    user: Option<String>,
    /// Only my jobs
    #[arg(long)]
    mine: bool,
    /// Only jobs in these states; `ended` ones stay for a while, `--since` finds them later
    #[arg(long, value_delimiter = ',')]
    state: Vec<State>,
    /// Jobs that ended from this moment on: `7d` (before now), `2027-01-31`, `2027-01-31 17:30`, or RFC 3339
    #[arg(long, value_name = "MOMENT")]
    since: Option<String>,
    /// Of those, the ones that ended before this moment
    #[arg(long, value_name = "MOMENT", requires = "since")]
    until: Option<String>,
    /// The tasks of arrays too, one by one
    #[arg(long, conflicts_with = "since")]
    tasks: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum State {
    Held,
    Waiting,
    Starting,
    Running,
    Stopping,
    Ended,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bursar job cancel 4190\n  bursar job cancel 4190 --now --reason \"wrong data\""
)]
struct Cancel {
    /// Their numbers; 4190 is a job or a whole array, 4190[7] one task of it
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Kill at once, without the end signal first
    #[arg(long)]
    now: bool,
    /// Why; needed for somebody else's job, and shown there
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Ends with the job's own exit code; with several jobs, with that of the first one that did not complete."
)]
struct Wait {
    /// Their numbers; 4190 is a job or a whole array, 4190[7] one task of it
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Give up after so long (exit code 8)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    timeout: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.action {
        Action::Show { job } => show(shell, &job).await,
        Action::List(list) => list_jobs(shell, list).await,
        Action::Attempts { job } => attempts(shell, &job).await,
        Action::Hold(args) => job_word::run(shell, Word::Hold, args).await,
        Action::Release(args) => job_word::run(shell, Word::Release, args).await,
        Action::Requeue(args) => job_word::run(shell, Word::Requeue, args).await,
        Action::Cancel(args) => cancel(shell, args).await,
        Action::Wait(args) => wait(shell, args).await,
    }
}

async fn show(shell: &Shell, job: &str) -> Result<Exit, Failure> {
    let request = subject::job(job)?.show();
    let mut view = shell.client()?.show_job(request).await?;
    super::schema(&mut view.schema, "job/v1");
    shell.show(&view, &[view.job.to_string()], |look| render::job::job(&view, look))?;
    Ok(Exit::Done)
}

/// Returns a job's number as people say it.
fn shown(view: &proto::v1::JobView) -> String {
    if view.shown_as.is_empty() { view.job.to_string() } else { view.shown_as.clone() }
}

/// What `job attempts` says in JSON.
#[derive(Debug, Serialize)]
struct Attempts<'a> {
    schema: &'static str,
    as_of: Option<&'a AsOf>,
    job: u32,
    attempts: &'a [AttemptView],
}

async fn attempts(shell: &Shell, job: &str) -> Result<Exit, Failure> {
    let request = subject::job(job)?.show();
    let view = shell.client()?.show_job(request).await?;
    let names: Vec<String> =
        view.attempts.iter().map(|a| format!("{}.{}", shown(&view), a.attempt)).collect();
    let said = Attempts {
        schema: "attempts/v1",
        as_of: view.as_of.as_ref(),
        job: view.job,
        attempts: &view.attempts,
    };
    shell.show_rows(&said, &view.attempts, &names, |look| render::attempts::attempts(&view, look))?;
    Ok(Exit::Done)
}

async fn list_jobs(shell: &Shell, list: List) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let user = match list.mine {
        true => Some(client.who_am_i(proto::v1::WhoAmIRequest {}).await?.name),
        false => list.user,
    };
    let word = |state: &State| state.to_possible_value().map(|value| value.get_name().to_string());
    let time = past::time(shell, &client, list.since.as_deref(), list.until.as_deref()).await?;
    let mut request = ListJobsRequest {
        read: Some(ReadAs { stale: false }),
        budget: list.budget,
        user,
        states: list.state.iter().filter_map(word).collect(),
        limit: list.limit,
        since_at: time.since_at,
        until_at: time.until_at,
        from: None,
        tasks: list.tasks,
    };
    let mut view = client.list_jobs(request.clone()).await?;
    // The history is looked through a part at a time; of live jobs an answer holds so many at most.
    while let Some(next) = view.next.take() {
        let found = u32::try_from(view.jobs.len()).unwrap_or(u32::MAX);
        let is_enough = if list.limit == 0 { time.since_at.is_none() } else { found >= list.limit };
        if is_enough {
            view.next = Some(next);
            break;
        }
        request.limit = list.limit.saturating_sub(found);
        request.from = Some(next);
        let page = client.list_jobs(request.clone()).await?;
        view.jobs.extend(page.jobs);
        view.left_out = page.left_out;
        view.next = page.next;
        past::reach(&mut view.reach, page.reach);
    }
    super::schema(&mut view.schema, "job-list/v1");
    let names: Vec<String> = view.jobs.iter().map(|job| job.job.to_string()).collect();
    shell.show_rows(&view, &view.jobs, &names, |look| render::jobs::jobs(&view, time.since_at, look))?;
    Ok(Exit::Done)
}

async fn cancel(shell: &Shell, args: Cancel) -> Result<Exit, Failure> {
    let jobs = subject::jobs(&args.jobs)?;
    let client = shell.client()?;
    for subject in jobs {
        let job = subject.number(&client).await?;
        let mark = client.mark(None).await?;
        let request = CancelRequest { mark: Some(mark), job, now: args.now, reason: args.reason.clone() };
        let reply = client.cancel(request).await?;
        let text = match reply.state.as_str() {
            "ended" => format!("job {subject} ended: cancelled\n"),
            state => format!("job {subject} is {state}\n"),
        };
        shell.show(&reply, &[job.to_string()], |_| text)?;
    }
    Ok(Exit::Done)
}

async fn wait(shell: &Shell, args: Wait) -> Result<Exit, Failure> {
    let jobs = subject::jobs(&args.jobs)?;
    let timeout = args.timeout.map(|text| duration::parse(&text)).transpose();
    let timeout = timeout.map_err(|what| Failure::new(codes::DURATION, format!("--timeout: {what}")))?;
    let deadline = timeout.map(|span| Deadline::after(Duration::from_millis(span.as_millis())));
    let client = shell.client()?;
    let mut exit = Exit::Done;
    for subject in jobs {
        let job = subject.number(&client).await?;
        let mut view = ended::wait(&client, job, deadline).await?;
        super::schema(&mut view.schema, "job/v1");
        let text = format!("job {subject} {}\n", view.end.as_deref().unwrap_or("ended"));
        shell.show(&view, &[job.to_string()], |_| text)?;
        if exit == Exit::Done || exit == Exit::Job(0) {
            exit = ended::passed_on(&view);
        }
    }
    Ok(exit)
}
