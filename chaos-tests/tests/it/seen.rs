//! What several laws look at.

use chaos_tests::client::Client;
use chaos_tests::lab::{Lab, until};
use proto::v1::{AttemptView, JobView};

/// Waits until a job has ended, and returns it.
pub fn ended(lab: &Lab, client: &Client, job: u32) -> JobView {
    until(&format!("job {job} has ended"), || {
        lab.block_on(client.show(job)).ok().filter(|view| view.state == "ended")
    })
}

/// Waits until the control plane knows that a job runs, and returns it.
pub fn running(lab: &Lab, client: &Client, job: u32) -> JobView {
    until(&format!("job {job} runs"), || {
        let view = lab.block_on(client.show(job)).ok()?;
        (view.state == "running" && last(&view).started_at.is_some()).then_some(view)
    })
}

/// Returns a job's latest attempt.
pub fn last(view: &JobView) -> AttemptView {
    view.attempts.last().unwrap_or_else(|| panic!("no attempt: {view:#?}")).clone()
}

/// Returns what an attempt is charged by the rule: its GPUs from go to its end.
pub fn price(attempt: &AttemptView) -> u128 {
    let (go, ended) = (attempt.go_at.expect("it ran"), attempt.ended_at.expect("it has ended"));
    u128::from(attempt.gpus) * 1_000 * u128::from(ended - go)
}

/// Checks a job's end: the code, one attempt, and its price.
pub fn assert_exit(view: &JobView, code: u32) {
    let exit = view.exit.as_ref().unwrap_or_else(|| panic!("no exit: {view:#?}"));
    assert_eq!((exit.kind.as_str(), exit.value), ("code", code), "{view:#?}");
    assert_eq!(view.end.as_deref(), Some(if code == 0 { "completed" } else { "failed" }), "{view:#?}");
    assert_eq!(view.attempts.len(), 1, "{view:#?}");
    let attempt = last(view);
    assert_eq!(attempt.charged_milli_gpu_ms, price(&attempt).to_string(), "{view:#?}");
}
