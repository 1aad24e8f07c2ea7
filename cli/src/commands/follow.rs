//! Following what a job writes: both streams at once, over its attempts, to the end.

use std::time::Duration;

use proto::v1::{LogsRequest, ShowJobRequest};
use tokio::time::sleep;

use crate::client::Client;
use crate::failure::Failure;
use crate::shell::Shell;

const LOOK: Duration = Duration::from_millis(200);

/// What to read.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The job.
    pub job: u32,
    /// One attempt; the latest if none.
    pub attempt: Option<u32>,
    /// The process of a gang.
    pub rank: u32,
    /// `stdout`, `stderr`; both if none.
    pub stream: Option<String>,
    /// Stay until it has ended.
    pub is_following: bool,
}

/// Copies what one attempt writes, stdout to stdout and stderr to stderr.
///
/// # Errors
/// When it is refused, or no replica answers, or the reader left.
pub async fn attempt(shell: &Shell, client: &Client, wanted: &Wanted) -> Result<(), Failure> {
    let request = |stream: &str| LogsRequest {
        job: wanted.job,
        attempt: wanted.attempt,
        rank: wanted.rank,
        stream: stream.into(),
        follow: wanted.is_following,
        offset: 0,
    };
    let out = async || client.logs(request("stdout"), |part| shell.print_bytes(&part.bytes)).await;
    let err = async || {
        let copy = |part: &proto::v1::LogPart| {
            shell.print_error_bytes(&part.bytes);
            Ok(())
        };
        client.logs(request("stderr"), copy).await
    };
    match wanted.stream.as_deref() {
        Some("stdout") => out().await,
        // Asked for alone it is the data.
        Some(_) => client.logs(request("stderr"), |part| shell.print_bytes(&part.bytes)).await,
        None => tokio::try_join!(out(), err()).map(|_| ()),
    }
}

/// Copies what a job writes, attempt after attempt, until it has ended.
///
/// # Errors
/// When it is refused, or no replica answers, or the reader left.
pub async fn to_the_end(shell: &Shell, client: &Client, wanted: &Wanted) -> Result<(), Failure> {
    let mut last = 0;
    loop {
        let view = client.show_job(ShowJobRequest { read: None, job: wanted.job, task: None }).await?;
        let next = view
            .attempts
            .iter()
            .find(|a| a.attempt > last && (a.started_at.is_some() || a.ended_at.is_some()));
        match next {
            Some(next) => {
                last = next.attempt;
                if next.started_at.is_some() {
                    if last > 1 {
                        shell.say(&format!("attempt {}.{last} on {}", wanted.job, next.node));
                    }
                    attempt(shell, client, &Wanted { attempt: Some(last), ..wanted.clone() }).await?;
                }
            }
            None if view.state == "ended" => return Ok(()),
            None => sleep(LOOK).await,
        }
    }
}
