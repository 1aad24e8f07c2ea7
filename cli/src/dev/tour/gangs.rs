//! Jobs over several nodes.

use super::bursar::Guide;
use super::report::Report;
use super::taking::until_running;

/// A gang starts on all its nodes or on none, its ranks find each other, and one rank's end ends them all.
pub fn whole(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    guide.until_whole()?;
    let gpus = guide.gpus.to_string();
    let script =
        "echo \"$NNODES $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $BURSAR_RENDEZVOUS_ID\" > tour-j.$NODE_RANK";
    let shape = ["--budget", "language/posttrain", "--nodes", "2", "--gpus-per-node", &gpus];
    let submit = |name: &str, script: &str| {
        let flags = ["--min-runtime", "1m", "--name", name, "--", "/bin/sh", "-c", script];
        let args: Vec<&str> = shape.iter().copied().chain(flags).collect();
        guide.submit(&args)
    };
    let job = submit("tour-j", script)?;
    let waited = guide.wait(job);
    let said = |rank: u32| std::fs::read_to_string(guide.work().join(format!("tour-j.{rank}"))).ok();
    let (first, second) = (said(0), said(1));
    report.check(
        waited.code == Some(0) && first.is_some() && first == second,
        &format!("two nodes start as one: {}", first.unwrap_or_default().trim()),
    );
    let attempt = guide.job(job)?["attempts"][0].clone();
    report.check(
        attempt["nodes"].as_array().map(Vec::len) == Some(2) && attempt["go_at"].is_string(),
        &format!("nodes {}, go at {}", attempt["nodes"], attempt["go_at"]),
    );
    let failing = "if [ $NODE_RANK = 1 ]; then sleep 1; exit 5; fi; sleep 600";
    let job = submit("tour-j-rank", failing)?;
    let waited = guide.wait(job);
    report.check(
        waited.code == Some(5),
        &format!("one rank's exit code 5 ends the other, and is the job's: {}", waited.exit()),
    );
    is_all_or_nothing(guide, report)
}

/// With one node taken, the gang holds nothing of the other but a promise.
fn is_all_or_nothing(guide: &Guide, report: &mut Report) -> Result<(), String> {
    let gpus = guide.gpus.to_string();
    let blocker = guide.submit(&[
        "--budget",
        "science/agents",
        "--gpus",
        &gpus,
        "--min-runtime",
        "10m",
        "--name",
        "tour-j-block",
        "--",
        "/bin/sleep",
        "600",
    ])?;
    until_running(guide, blocker)?;
    let gang = guide.submit(&[
        "--budget",
        "language/posttrain",
        "--nodes",
        "2",
        "--gpus-per-node",
        &gpus,
        "--min-runtime",
        "1m",
        "--name",
        "tour-j-waits",
        "--",
        "/bin/sleep",
        "1",
    ])?;
    let small = guide.submit(&[
        "--budget",
        "robotics/grasp",
        "--gpus",
        "1",
        "--unallocated",
        "--name",
        "tour-j-small",
        "--",
        "/bin/sleep",
        "1",
    ])?;
    let waited = guide.wait(small);
    let state = guide.job(gang)?["state"].clone();
    report.check(
        waited.code == Some(0) && state == "waiting",
        &format!("with one of two nodes taken it is {state}; the other one, promised to it, serves the free tier meanwhile"),
    );
    guide.run(&["job", "cancel", "--now", &blocker.to_string()]).well()?;
    let waited = guide.wait(gang);
    report.check(waited.code == Some(0), "it runs as soon as both are free");
    Ok(())
}
