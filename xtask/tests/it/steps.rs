//! Steps stop at the first failure, and the last line counts what could not run.

use std::process::Command;

use xtask::commands::{Report, Step};
use xtask::rules::Finding;

fn shell(script: &str) -> anyhow::Result<Command> {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Ok(command)
}

#[test]
fn steps_after_a_failure_are_named_and_not_run() {
    let report = Report::of([
        Step::look("rules", || Ok(Vec::new())),
        Step::look("layers", || Ok(vec![Finding::new("a", 0, "must not")])),
        Step::run("test", || unreachable!("a step after a failure")),
    ]);
    assert!(!report.passed());
    let summary = report.summary();
    assert!(summary.contains("layers") && summary.contains("not run"), "{summary}");
    assert!(summary.trim_end().lines().last().unwrap().starts_with("FAILED"), "{summary}");
}

#[test]
fn the_last_line_counts_what_was_not_available_on_either_stream() {
    let script = "echo 'not available: no GPU here'; echo 'not available: no cgroup' >&2; echo fine";
    let report = Report::of([Step::run("test", || shell(script)).hidden()]);
    assert!(report.passed());
    assert_eq!(report.not_available(), 2);
    assert!(report.summary().trim_end().ends_with("2 checks were not available on this machine"));
}

#[test]
fn a_program_that_fails_fails_its_step() {
    assert!(!Report::of([Step::run("test", || shell("exit 3"))]).passed());
}
