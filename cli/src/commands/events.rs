//! `bursar events`: what happened, one line each.

use proto::v1::{ClusterStatusRequest, EventsRequest};

use super::subject;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::{Format, Shell, json};

/// Arguments of `events`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  bursar events --job 4190\n  bursar events -f -o jsonl")]
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
    /// Only what came after this index of the log [default: all that is kept; with -f, the present]
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
    let after = match (args.after, args.follow) {
        (Some(after), _) => Some(after),
        // Without following, the present end is of no use: all that is kept is meant.
        (None, false) => Some(0),
        // Named here, so that a replica lost before the first event leaves no gap.
        (None, true) => {
            client.cluster_status(ClusterStatusRequest { read: None }).await?.as_of.map(|at| at.index)
        }
    };
    let request = EventsRequest { after, job, node: args.node, budget: args.budget, follow: args.follow };
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
