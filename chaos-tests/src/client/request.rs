//! Submissions as messages.

use anyhow::{Context as _, Result};
use proto::v1::launch::Program;
use proto::v1::{Command, JobRequest, Launch, RequestMark, Shape};

/// Returns a new name for a write that is made at `made_at` of cluster time.
///
/// # Errors
/// When the system gives no random bytes.
pub fn fresh_mark(made_at: u64) -> Result<RequestMark> {
    let mut id = vec![0; 16];
    getrandom::fill(&mut id).context("the system gives no random bytes")?;
    Ok(RequestMark { id, made_at })
}

/// Returns a job of some GPUs on one node; `min_runtime_ms` 0 is the free tier.
pub fn job(name: &str, budget: &str, gpus: u32, min_runtime_ms: u64) -> JobRequest {
    JobRequest {
        name: name.to_owned(),
        budget: budget.to_owned(),
        shape: Some(Shape { nodes: 1, gpus_per_node: gpus, ..Shape::default() }),
        min_runtime_ms: Some(min_runtime_ms),
        resumable: Some(false),
        ..JobRequest::default()
    }
}

/// Returns a launch of a command.
pub fn launch(argv: &[&str]) -> Launch {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Launch {
        program: Some(Program::Command(Command { argv })),
        working_dir: "/".to_owned(),
        ..Launch::default()
    }
}

/// Returns a launch of a line for the shell.
pub fn script(line: &str) -> Launch {
    launch(&["/bin/sh", "-c", line])
}
