//! `bursar run`: submits a command, follows its output, ends with its exit code.

use proto::v1::ShowJobRequest;

use super::ended;
use super::follow::{self, Wanted};
use super::submit;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;
use crate::submission::Flags;

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar run --budget science/agents --min-runtime 10m -- python3 eval.py\n  \
    bursar run --unallocated --gpus 0 -- hostname\n\n\
    The job's own exit code passes through; 125 is a failure of this command. Ctrl-C leaves the job running.")]
pub struct Args {
    /// The flags.
    #[command(flatten)]
    pub flags: Flags,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When nothing was submitted, or the control plane cannot be reached.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let mut ready = submit::prepare(shell, None, None, &args.flags, args.command)
        .map_err(|failure| failure.closing("nothing was submitted"))?;
    if ready.job.array.is_some() {
        return Err(Failure::new(crate::codes::USAGE, "`run` follows one process, and an array has many")
            .fix("bursar submit --array …, then bursar job wait and bursar logs JOB[TASK]")
            .closing("nothing was submitted"));
    }
    let client = shell.client()?;
    ready.settle(shell, &client).await?;
    let receipt = submit::submit(&client, &ready, args.flags.idempotency_key.as_deref()).await?;
    let job = receipt.job;
    let stands = match receipt.state.as_str() {
        "held" => "held until it need not wait any more".into(),
        _ => format!("{} in line", crate::form::text::ordinal(receipt.place.max(1))),
    };
    shell.say(&format!("job {job} accepted, {stands}; Ctrl-C leaves it running"));
    let wanted = Wanted { job, attempt: None, rank: 0, stream: None, is_following: true };
    tokio::select! {
        followed = follow::to_the_end(shell, &client, &wanted) => followed?,
        _ = tokio::signal::ctrl_c() => {
            let state = client.show_job(ShowJobRequest { read: None, job, task: None }).await?.state;
            shell.say(&format!("job {job} is {state}; follow it: bursar logs -f {job}, end it: bursar job cancel {job}"));
            return Ok(Exit::Job(130));
        }
    }
    let view = ended::wait(&client, job, None).await?;
    let end = view.end.as_deref().unwrap_or("ended");
    if end != "completed" {
        shell.say(&format!("job {job} {end}: bursar explain {job}"));
    }
    Ok(ended::passed_on(&view))
}
