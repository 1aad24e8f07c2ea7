//! `bursar waits`: how long jobs waited for their first start.

use clap::ValueEnum;
use proto::v1::{ReadAs, WaitsRequest};

use super::past;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `waits`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar waits                          by size, over the last seven days\n  \
    bursar waits --by budget --since 24h\n  \
    bursar waits --by tier --since 30d    from the history\n\n\
    A wait is the time from the first submission of a job to the first start of its processes. P50: half of them waited\n\
    no longer; P90: nine of ten. Who waits now is counted apart, and so is who never started.")]
pub struct Args {
    /// Only jobs that started first after this: `24h` (before now), `2027-01-31`, or RFC 3339 [default: 7d]
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<String>,
    /// One row for each of what
    #[arg(long, value_name = "WHAT", default_value = "size")]
    pub by: By,
    /// Take any replica's word, which may be old
    #[arg(long)]
    pub stale: bool,
}

/// What rows are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// GPUs of the job.
    Size,
    /// Its leaf.
    Budget,
    /// Funded or free.
    Tier,
}

/// Runs the command.
///
/// # Errors
/// When no replica answers, or the moment is none.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let client = shell.client()?;
    let since_at = past::time(shell, &client, args.since.as_deref(), None).await?.since_at;
    let by = args.by.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default();
    let mut view =
        client.waits(WaitsRequest { read: Some(ReadAs { stale: args.stale }), by, since_at }).await?;
    super::schema(&mut view.schema, "waits/v1");
    let names: Vec<String> = view.rows.iter().map(|row| row.key.clone()).collect();
    shell.show_rows(&view, &view.rows, &names, |look| render::waits::waits(&view, look))?;
    Ok(Exit::Done)
}
