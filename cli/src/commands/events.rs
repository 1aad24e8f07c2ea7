//! `bursar events`: what happened, one line each.

use proto::v1::{ClusterStatusRequest, EventsRequest, ShowJobRequest};

use super::{past, subject};
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::{Format, Shell, json};

const A_DAY: u64 = 24 * 3_600_000;

/// Arguments of `events`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar events                            the last day\n  \
    bursar events --job 4190                 all of its life, also when that is long ago\n  \
    bursar events --node node-07 --since 7d\n  \
    bursar events -f --since 1h -o jsonl     from an hour ago, and then as it happens")]
pub struct Args {
    /// Stay, and show what happens
    #[arg(short, long)]
    pub follow: bool,
    /// Only this job
    #[arg(long, value_name = "JOB")]
    pub job: Option<String>,
    /// Only this node
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Only this budget and what is below it
    #[arg(long, value_name = "BUDGET")]
    pub budget: Option<String>,
    /// Only from this moment on: `7d` (before now), `2027-01-31`, `2027-01-31 17:30`, or RFC 3339 [default: 1d; of a
    /// job, its submission; with -f, the present]
    #[arg(long, value_name = "MOMENT", conflicts_with = "after")]
    pub since: Option<String>,
    /// Only before this moment
    #[arg(long, value_name = "MOMENT", conflicts_with = "follow")]
    pub until: Option<String>,
    /// Only what came after this index of the log
    #[arg(long, value_name = "INDEX")]
    pub after: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// When no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let job = args.job.as_deref().map(subject::job).transpose()?;
    let client = shell.client()?;
    let job = match job {
        Some(job) => Some(job.number(&client).await?),
        None => None,
    };
    let asked = past::time(shell, &client, args.since.as_deref(), args.until.as_deref()).await?;
    let (mut after, mut time) = (args.after, asked);
    if after.is_none() && time.since_at.is_none() {
        match (args.follow, job) {
            // Named here, so that a replica lost before the first event leaves no gap.
            (true, _) => {
                let view = client.cluster_status(ClusterStatusRequest { read: None }).await?;
                after = view.as_of.map(|at| at.index);
            }
            (false, Some(job)) => time = life(&client, job, time).await?,
            (false, None) => {
                let now = client.hello().await?.cluster_time_at;
                time.since_at = Some(time.until_at.unwrap_or(now).saturating_sub(A_DAY));
            }
        }
    }
    let request = EventsRequest {
        after,
        job,
        node: args.node,
        budget: args.budget,
        follow: args.follow,
        since_at: time.since_at,
        until_at: time.until_at,
    };
    client
        .events(request, |event| match shell.format {
            Format::Table | Format::Wide => shell.print(&render::events::event(event, &shell.look)),
            Format::Json | Format::Jsonl => {
                let mut event = event.clone();
                super::schema(&mut event.schema, "event/v1");
                shell.print(&format!("{}\n", json(&event, false)?))
            }
            Format::Name => shell.print(&format!("{}.{}\n", event.index, event.n)),
        })
        .await?;
    Ok(Exit::Done)
}

/// Returns the time of a job's life: from its submission until it left state, if it has.
async fn life(client: &Client, job: u32, asked: past::Time) -> Result<past::Time, Failure> {
    let view = client.show_job(ShowJobRequest { read: None, job, task: None }).await?;
    let until = asked.until_at.into_iter().chain(view.left_at.map(|at| at.saturating_add(1))).min();
    Ok(past::Time { since_at: Some(view.submitted_at), until_at: until })
}
