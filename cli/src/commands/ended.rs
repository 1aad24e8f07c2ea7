//! Waiting for a job's end, and what it means for our own exit code.

use std::time::Duration;

use proto::v1::{JobView, ShowJobRequest};
use tokio::time::sleep;

use crate::client::Client;
use crate::clock::Deadline;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;

const LOOK_FIRST: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_millis(1000);

/// Looks at a job until it has ended, seldom after a while.
///
/// # Errors
/// When the job cannot be read, or `deadline` is over first.
pub async fn wait(client: &Client, job: u32, deadline: Option<Deadline>) -> Result<JobView, Failure> {
    let mut pause = LOOK_FIRST;
    loop {
        let view = client.show_job(ShowJobRequest { read: None, job, task: None }).await?;
        if view.state == "ended" {
            return Ok(view);
        }
        if deadline.is_some_and(|deadline| deadline.is_over()) {
            return Err(Failure::new(
                codes::TIMED_OUT,
                format!("job {job} has not ended: it is {}", view.state),
            )
            .fix(format!("bursar explain {job}")));
        }
        sleep(deadline.map_or(pause, |deadline| pause.min(deadline.left()))).await;
        pause = (pause * 2).min(LOOK_MAX);
    }
}

/// Returns the exit code that a job's end passes on: its own where it has one, as shells write it.
pub fn passed_on(job: &JobView) -> Exit {
    let is_completed = job.end.as_deref() == Some("completed");
    let own = job.exit.as_ref().and_then(|exit| match exit.kind.as_str() {
        "code" => u8::try_from(exit.value).ok(),
        "signal" => u8::try_from(exit.value).ok()?.checked_add(128),
        _ => None,
    });
    match own {
        // An end that is no completion never looks like one.
        Some(0) if !is_completed => Exit::Client,
        Some(code) => Exit::Job(code),
        None if is_completed => Exit::Done,
        None => Exit::Client,
    }
}

#[cfg(test)]
mod tests {
    use proto::v1::{ExitView, JobView};

    use super::passed_on;

    fn check(end: &str, exit: Option<(&str, u32)>, expected: u8) {
        let exit = exit.map(|(kind, value)| ExitView { kind: kind.into(), value });
        let job = JobView { end: Some(end.into()), exit, ..JobView::default() };
        assert_eq!(passed_on(&job).code(), expected, "{end}");
    }

    #[test]
    fn the_jobs_own_exit_code_passes_through() {
        check("completed", Some(("code", 0)), 0);
        check("failed", Some(("code", 3)), 3);
        check("failed", Some(("signal", 11)), 139);
        check("cancelled", Some(("signal", 15)), 143);
        check("cancelled", Some(("code", 0)), 125);
        check("lost", None, 125);
        check("failed", Some(("code", 127)), 127);
        check("failed", Some(("unknown", 0)), 125);
    }
}
