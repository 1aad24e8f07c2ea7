//! `bursar submit`: a job from a file, flags, or a command; answered with a receipt.

use std::path::PathBuf;

use proto::v1::SubmitRequest;

use super::ended;
use crate::client::Client;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::shell::Shell;
use crate::submission::{self, EXAMPLE, Flags, Origin, Ready, SCHEMA, Submission};

/// Arguments of `submit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    bursar submit train.yaml\n  \
    bursar submit train.yaml --gpus 8 --min-runtime 2h\n  \
    bursar submit gang.yaml --nodes 2 --gpus-per-node 8   one process a node, all or none\n  \
    bursar submit --budget science/agents --gpus 1 --min-runtime 30m -- python3 train.py\n  \
    bursar submit --budget science/agents --unallocated --script job.sh\n  \
    bursar submit --example > job.yaml")]
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
    /// Wait for its end, and end with its exit code
    #[arg(long)]
    pub wait: bool,
    /// Print a submission that works, with every field explained
    #[arg(long, exclusive = true)]
    pub example: bool,
    /// Print the JSON Schema of submission files
    #[arg(long, exclusive = true)]
    pub schema: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// When nothing was submitted.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    if args.example || args.schema {
        shell.print(if args.example { EXAMPLE } else { SCHEMA })?;
        return Ok(Exit::Done);
    }
    let mut ready = prepare(shell, args.file.as_deref(), args.script.as_deref(), &args.flags, args.command)
        .map_err(|failure| failure.closing("nothing was submitted"))?;
    let client = shell.client()?;
    ready.settle(shell, &client).await?;
    let job = send(shell, &client, &ready, args.flags.idempotency_key.as_deref()).await?;
    if !args.wait {
        return Ok(Exit::Done);
    }
    let ended = ended::wait(&client, job, None).await?;
    shell.say(&format!("job {job} {}", ended.end.as_deref().unwrap_or("ended")));
    Ok(ended::passed_on(&ended))
}

/// Reads file and flags.
///
/// # Errors
/// When they are not a submission.
pub fn prepare(
    shell: &Shell,
    file: Option<&std::path::Path>,
    script: Option<&std::path::Path>,
    flags: &Flags,
    command: Vec<String>,
) -> Result<Ready, Failure> {
    let (mut submission, origin) = match file {
        Some(path) => submission::read(path)?,
        None => (Submission::default(), Origin::default()),
    };
    if let Some(path) = script {
        submission.script = Some(submission::unplaced(crate::shell::read_text(path)?));
        submission.name =
            path.file_stem().map(|stem| submission::unplaced(stem.to_string_lossy().into_owned()));
    }
    if !command.is_empty() && (submission.command.is_some() || submission.script.is_some()) {
        return Err(Failure::new(codes::USAGE, "a command stands both in the file and behind `--`")
            .fix("keep one of them"));
    }
    // A context that cannot be read fails here already; an absent one only where it is needed.
    let default_budget = shell.context()?.budget;
    submission::build((submission, origin), flags, command, default_budget)
}

/// Sends a submission and shows its receipt; returns the job's number.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn send(shell: &Shell, client: &Client, ready: &Ready, key: Option<&str>) -> Result<u32, Failure> {
    let receipt = submit(client, ready, key).await?;
    let signal = signal(ready);
    shell.show(&receipt, &[receipt.job.to_string()], |look| {
        render::receipt::receipt(&receipt, &ready.tier_from, &signal, look)
    })?;
    Ok(receipt.job)
}

/// Returns the signal of the notice, in words.
pub fn signal(ready: &Ready) -> String {
    ready.job.signal.map_or("USR1 if it is caught".into(), submission::signal_name)
}

/// Sends a submission.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn submit(
    client: &Client,
    ready: &Ready,
    key: Option<&str>,
) -> Result<proto::v1::Receipt, Failure> {
    let mark = client.mark(key).await?;
    let request =
        SubmitRequest { mark: Some(mark), job: Some(ready.job.clone()), launch: Some(ready.launch.clone()) };
    let reply = client.submit(request).await.map_err(|failure| ready.point(failure))?;
    let mut receipt = reply.receipt.unwrap_or_default();
    receipt.job = reply.job;
    if receipt.schema.is_empty() {
        receipt.schema = "receipt/v1".into();
    }
    Ok(receipt)
}
