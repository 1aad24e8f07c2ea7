//! `bursar explain`: why.

use proto::v1::ExplainRequest;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bursar explain 4190        why this job waits, runs, or ended\n  bursar explain 4190.1      one attempt\n  bursar explain d8841.0     one decision, with both sides' numbers as they were"
)]
pub struct Args {
    /// A job, an attempt, or a decision
    #[arg(value_name = "JOB|ATTEMPT|DECISION")]
    pub subject: String,
}

/// Runs the command.
///
/// # Errors
/// When there is no such thing, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let mut view = shell.client()?.explain(ExplainRequest { read: None, subject: args.subject }).await?;
    super::schema(&mut view.schema, "explanation/v1");
    shell.show(&view, &[view.reason.clone()], |look| render::explain::explain(&view, look))?;
    Ok(Exit::Done)
}
