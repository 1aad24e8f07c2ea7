//! `bursar plan`: what would become of a submission, without submitting it.

use std::path::PathBuf;

use proto::v1::PlanJobRequest;

use super::submit;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;
use crate::submission::Flags;

/// Arguments of `plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar plan train.yaml\n  \
    bursar plan train.yaml --gpus 8 --min-runtime 1h      would that start sooner?\n  \
    bursar plan --budget science/agents --gpus 16 --min-runtime 1h -- python3 train.py\n\n\
    Judged and planned on a copy of the state, by the scheduler's own rules; what comes in between may change it.")]
pub struct Args {
    /// A submission (YAML), or a script that begins with #!; - reads it from stdin
    #[arg(value_name = "FILE", conflicts_with = "script")]
    pub file: Option<PathBuf>,
    /// A script to run, however it begins
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// The flags.
    #[command(flatten)]
    pub flags: Flags,
    /// Of so many simulated futures tell when it is likely to start; 0 for none [default: 50]
    #[arg(long, value_name = "N")]
    pub futures: Option<u32>,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When it would be refused, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let mut ready =
        submit::prepare(shell, args.file.as_deref(), args.script.as_deref(), &args.flags, args.command)?;
    let client = shell.client()?;
    ready.settle(shell, &client).await?;
    let (job, launch) = (Some(ready.job.clone()), Some(ready.launch.clone()));
    let request = PlanJobRequest { read: None, job, launch, futures: args.futures };
    let asked = client.plan_job(request).await;
    let mut plan = asked.map_err(|failure| ready.point(failure).closing("this would be refused"))?;
    super::schema(&mut plan.schema, "plan/v1");
    let names: Vec<String> = plan.on.iter().map(|on| on.node.clone()).collect();
    let signal = submit::signal(&ready);
    shell.show(&plan, &names, |look| render::plan::plan(&plan, &ready.tier_from, &signal, look))?;
    Ok(Exit::Done)
}
