//! `bursar bill`: what preemptions cost.

use clap::ValueEnum;
use proto::v1::{BillRequest, ReadAs};

use super::past;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `bill`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar bill                         the whole window\n  \
    bursar bill --since 24h --by budget\n  \
    bursar bill --since 90d --by user   longer than the window: from the history\n  \
    bursar bill --by basis              how much of it is measured\n\n\
    Lost = GPUs x (time since the last checkpoint + time to restart). Failures of nodes are no preemptions.")]
pub struct Args {
    /// Only what ended after this: `24h` (before now), `2027-01-31`, `2027-01-31 17:30`, or RFC 3339 [default: the
    /// whole window]
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<String>,
    /// One row for each of what
    #[arg(long, value_name = "WHAT", default_value = "cause")]
    pub by: By,
    /// Take any replica's word, which may be old
    #[arg(long)]
    pub stale: bool,
}

/// What rows are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// What it was for.
    Cause,
    /// Funded or free.
    Tier,
    /// The leaf that lost it.
    Budget,
    /// The job's user.
    User,
    /// GPUs of the job.
    Size,
    /// How the loss is known.
    Basis,
}

/// Runs the command.
///
/// # Errors
/// When no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let since_at = past::time(shell, &client, args.since.as_deref(), None).await?.since_at;
    let by = args.by.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default();
    let mut view =
        client.bill(BillRequest { read: Some(ReadAs { stale: args.stale }), since_at, by }).await?;
    super::schema(&mut view.schema, "bill/v1");
    shell.show_rows(&view, &view.rows, &render::bill::names(&view), |look| {
        render::bill::bill(&view, since_at, look)
    })?;
    Ok(Exit::Done)
}
