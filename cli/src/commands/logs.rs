//! `bursar logs`: what a job wrote.

use clap::ValueEnum;

use super::follow::{self, Wanted};
use super::subject;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// Arguments of `logs`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bursar logs 4190\n  bursar logs -f 4190\n  bursar logs 4190.1 --stream stderr\n  bursar logs 4190[7]"
)]
pub struct Args {
    /// A job, a task of an array, or one of its attempts
    #[arg(value_name = "JOB[.ATTEMPT]")]
    pub subject: String,
    /// Stay until the job has ended, over all its attempts
    #[arg(short, long)]
    pub follow: bool,
    /// Which process of a job on several nodes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rank: u32,
    /// Only one stream [default: both, stderr to stderr]
    #[arg(long)]
    pub stream: Option<Stream>,
}

/// What a process writes to.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Stream {
    /// Its output.
    Stdout,
    /// Its talk.
    Stderr,
}

/// Runs the command.
///
/// # Errors
/// When it may not be read, or no replica answers.
pub async fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let subject = subject::parse(&args.subject)?;
    let client = shell.client()?;
    let view = client.show_job(subject.show()).await?;
    if let Some(tasks) = &view.tasks {
        return Err(Failure::new(
            codes::USAGE,
            format!("{} is an array; each of its tasks has a log", subject.job),
        )
        .fix(format!("bursar logs {}[7] or another one of {}", subject.job, tasks.indexes)));
    }
    let job = view.job;
    let stream = args.stream.map(|stream| match stream {
        Stream::Stdout => "stdout".to_string(),
        Stream::Stderr => "stderr".to_string(),
    });
    let wanted = Wanted { job, attempt: subject.attempt, rank: args.rank, stream, is_following: args.follow };
    if args.follow && subject.attempt.is_none() {
        follow::to_the_end(shell, &client, &wanted).await?;
        return Ok(Exit::Done);
    }
    if subject.attempt.is_none() {
        let Some(latest) = view.attempts.iter().rev().find(|a| a.started_at.is_some()) else {
            shell.say(&format!("job {subject} has not run yet: it is {}", view.state));
            return Ok(Exit::Done);
        };
        let wanted = Wanted { attempt: Some(latest.attempt), ..wanted };
        follow::attempt(shell, &client, &wanted).await?;
        return Ok(Exit::Done);
    }
    follow::attempt(shell, &client, &wanted).await?;
    Ok(Exit::Done)
}
