//! Nodes that are to be empty.

use super::bursar::Guide;
use super::report::Report;
use super::taking::until_running;
use super::work::moment;

/// Leaves at its notice: the rest of its grace is for the way of that, which a leader's death makes longer.
const LEAVES: &str = "trap 'exit 0' USR1; while :; do sleep 0.1; done";

/// A drained node takes nothing new, and is empty when that was promised.
pub fn node(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    guide.until_whole()?;
    let gpus = guide.gpus.to_string();
    let job = guide.submit(&[
        "--budget",
        "science/agents",
        "--gpus",
        &gpus,
        "--min-runtime",
        "15s",
        "--resumable",
        "--grace",
        "20s",
        "--name",
        "tour-k",
        "--",
        "/bin/sh",
        "-c",
        LEAVES,
    ])?;
    until_running(guide, job)?;
    let name = guide.job(job)?["attempts"][0]["node"].as_str().unwrap_or_default().to_owned();
    let drain = ["-o", "json", "node", "drain", &name, "--reason", "tour", "--yes"];
    let promised = guide.run(&drain).well()?.json();
    let by = moment(&promised["empty_by_at"]).ok_or_else(|| format!("no promise in {promised}"))?;
    guide.run(&["dev", "kill-leader"]);
    let last = guide.until("the job to leave", || {
        let view = guide.job(job).ok()?;
        let first = view["attempts"][0].clone();
        (first["state"] == "past").then_some(first)
    })?;
    let (ended, started) = (moment(&last["ended_at"]), moment(&last["started_at"]));
    let protection = 15_000;
    let is_kept =
        ended.zip(started).is_some_and(|(ended, started)| ended >= started + protection && ended <= by);
    report.check(
        is_kept,
        &format!(
            "over the leader's death the job left after its protection and before the promised moment: {} <= {}",
            last["ended_at"], promised["empty_by_at"]
        ),
    );
    let other = guide.until("it to run elsewhere", || {
        let node = guide.job(job).ok()?["attempts"].get(1)?["node"].as_str()?.to_owned();
        (!node.is_empty()).then_some(node)
    })?;
    report.check(other != name, &format!("{name} gets nothing new: the job runs again on {other}"));
    guide.run(&["job", "cancel", "--now", &job.to_string()]).well()?;
    guide.run(&["node", "undrain", &name, "--reason", "tour"]).well()?;
    guide.until_whole()?;
    report.check(true, &format!("{name} is back"));
    Ok(())
}
