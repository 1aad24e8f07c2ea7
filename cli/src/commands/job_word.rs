//! `bursar job hold|release|requeue`: a person's word about jobs.

use proto::v1::{JobWordReply, JobWordRequest};
use serde::Serialize;

use super::subject;
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::text::plain;
use crate::shell::Shell;

/// Arguments of `job hold`, `job release` and `job requeue`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Their numbers; 4190 is a job or a whole array, 4190[7] one task of it
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Why; needed for somebody else's job, and shown there
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Not to be tried.
    Hold,
    /// To be tried again.
    Release,
    /// To be stopped and started again.
    Requeue,
}

/// What it came to, in JSON.
#[derive(Debug, Serialize)]
struct Said {
    schema: &'static str,
    job: u32,
    state: String,
    sentence: String,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, word: Word, args: Args) -> Result<Exit, Failure> {
    let jobs = subject::jobs(&args.jobs)?;
    let client = shell.client()?;
    for subject in jobs {
        let job = subject.number(&client).await?;
        let JobWordReply { state, sentence } = say(&client, word, job, &args.reason).await?;
        let said = Said { schema: "job-word/v1", job, state, sentence };
        shell.show(&said, &[job.to_string()], |_| text(&subject.to_string(), &said))?;
    }
    Ok(Exit::Done)
}

async fn say(client: &Client, word: Word, job: u32, reason: &str) -> Result<JobWordReply, Failure> {
    let mark = Some(client.mark(None).await?);
    let request = JobWordRequest { mark, job, reason: reason.into() };
    match word {
        Word::Hold => client.hold_job(request).await,
        Word::Release => client.release_job(request).await,
        Word::Requeue => client.requeue_job(request).await,
    }
}

fn text(subject: &str, said: &Said) -> String {
    let more = if said.sentence.is_empty() { String::new() } else { format!(": {}", plain(&said.sentence)) };
    format!("job {subject} is {}{more}\n", plain(&said.state))
}

#[cfg(test)]
mod tests {
    use super::{Said, text};

    #[test]
    fn a_word_says_what_the_job_is_after_it() {
        let said = |sentence: &str| Said {
            schema: "job-word/v1",
            job: 4190,
            state: "stopping".into(),
            sentence: sentence.into(),
        };
        assert_eq!(text("4190", &said("")), "job 4190 is stopping\n");
        assert_eq!(text("4190[7]", &said("30 s to save")), "job 4190[7] is stopping: 30 s to save\n");
    }
}
