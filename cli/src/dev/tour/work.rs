//! From a submission to an exit code; one request id, one job.

use serde_json::Value;

use super::bursar::Guide;
use super::report::Report;

/// A submission becomes a process.
pub fn submission(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    let script = "echo \"hello from $BURSAR_JOB_ID\"; echo talk >&2; sleep 0.3; exit 3";
    let job = guide.submit(&[
        "--budget",
        "science/agents",
        "--gpus",
        "2",
        "--min-runtime",
        "1m",
        "--name",
        "tour-a",
        "--",
        "/bin/sh",
        "-c",
        script,
    ])?;
    let waited = guide.wait(job);
    report.check(
        waited.code == Some(3),
        &format!("job {job} ended, its exit code 3 came through `job wait`: {}", waited.exit()),
    );
    let logs = guide.run(&["logs", &job.to_string()]);
    let hello = format!("hello from {job}\n");
    report.check(
        logs.out == hello && logs.err == "talk\n",
        &format!("its log: {:?} and {:?}", logs.out, logs.err),
    );
    let view = guide.job(job)?;
    let (told, computed) = charge(&view)?;
    report.check(
        told == computed && told > 0,
        &format!("its charge is rate x (ended - go) to the millisecond: {told} = {computed} milli-GPU-ms"),
    );
    let explained = guide.run(&["explain", &job.to_string()]);
    report.check(explained.code == Some(0) && explained.out.contains("FAILED"), "it can be explained");
    story(guide, report, job)?;
    let run = guide.run(&[
        "run",
        "--budget",
        "science/agents",
        "--min-runtime",
        "1m",
        "--",
        "/bin/sh",
        "-c",
        "echo out; exit 4",
    ]);
    let says = format!("`run` passes output and exit code on: {:?}, {}", run.out, run.exit());
    report.check(run.code == Some(4) && run.out == "out\n", &says);
    classes(guide, report)
}

/// What happened to a job can be read afterwards, by everything that asks the history too.
fn story(guide: &Guide, report: &mut Report, job: u64) -> Result<(), String> {
    let number = job.to_string();
    let listed = guide.run(&["-o", "name", "job", "list", "--since", "1h"]).well()?;
    let is_once = listed.out.lines().filter(|line| *line == number).count() == 1;
    report.check(is_once, &format!("it is once in the list of what ended: {:?}", listed.out));
    let events = guide.run(&["-o", "jsonl", "events", "--job", &number]).well()?;
    let kinds: Vec<String> = events
        .out
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["kind"].as_str().map(str::to_owned))
        .collect();
    let ends = (kinds.first().map(String::as_str), kinds.last().map(String::as_str));
    report.check(ends == (Some("job.submitted"), Some("job.ended")), &format!("its events: {kinds:?}"));
    let asked = guide.run(&["-o", "json", "audit", "--job", &number, "--since", "1h"]).well()?.json();
    let row = &asked["rows"][0];
    let (action, via) = (row["action"].as_str(), row["via"].as_u64());
    let is_told = action == Some("job.submit") && via.is_some() && row["refused"].is_null();
    report.check(
        is_told,
        &format!("who asked for it: {} by {} of replica {via:?}", row["action"], row["actor"]),
    );
    let bill = guide.run(&["-o", "json", "bill", "--since", "2020-01-01"]).well()?.json();
    let is_whole = bill["reach"]["missing"].as_array().is_some_and(Vec::is_empty);
    report.check(is_whole, "the bill goes back to the beginning, and nothing is missing");
    Ok(())
}

/// Every GPU is in one class.
fn classes(guide: &Guide, report: &mut Report) -> Result<(), String> {
    let status = guide.run(&["-o", "json", "cluster", "status"]).well()?.json();
    let pool = &status["pools"][0];
    let names = ["protected", "interruptible", "free_tier", "idle", "unavailable", "changing"];
    let counts = names.map(|name| pool[name].as_u64());
    let sum = counts.iter().flatten().sum::<u64>();
    let is_whole = counts.iter().all(Option::is_some) && Some(sum) == pool["gpus"].as_u64() && sum > 0;
    report.check(is_whole, &format!("the classes {names:?} add up: {counts:?} of {} GPUs", pool["gpus"]));
    Ok(())
}

/// Returns a job's charge as told, and as it follows from its attempts: GPUs x 1000 x (ended - go).
pub fn charge(job: &Value) -> Result<(i128, i128), String> {
    let told = job["charged_milli_gpu_ms"].as_str().and_then(|text| text.parse().ok());
    let told = told.ok_or_else(|| format!("no charge in {job}"))?;
    let mut computed = 0;
    for attempt in job["attempts"].as_array().into_iter().flatten() {
        let gpus = i128::from(attempt["gpus"].as_u64().unwrap_or(0));
        let (Some(go), Some(ended)) = (moment(&attempt["go_at"]), moment(&attempt["ended_at"])) else {
            continue;
        };
        computed += gpus * 1000 * (ended - go);
    }
    Ok((told, computed))
}

/// Returns a moment in milliseconds.
pub fn moment(value: &Value) -> Option<i128> {
    let at: jiff::Timestamp = value.as_str()?.parse().ok()?;
    Some(i128::from(at.as_millisecond()))
}

/// One request id is one job.
pub fn request_ids(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    let addresses = guide.addresses()?;
    let token = guide.folder().join("tokens/ceo");
    let token = token.to_str().unwrap_or_default();
    let submit = |address: &str, minimum: &str| {
        let args = [
            "-o",
            "json",
            "--server",
            address,
            "submit",
            "--idempotency-key",
            "tour-f",
            "--budget",
            "science/agents",
            "--gpus",
            "1",
            "--min-runtime",
            minimum,
            "--name",
            "tour-f",
            "--",
            "/bin/true",
        ];
        guide.run_with(&args, &[("BURSAR_TOKEN_FILE", token)])
    };
    let mut jobs = Vec::new();
    for address in &addresses {
        let said = submit(address, "1m").well()?;
        jobs.push(said.json()["job"].clone());
    }
    let is_one = jobs.windows(2).all(|pair| pair[0] == pair[1]);
    report.check(
        is_one,
        &format!("sent to {} replicas, the same request is one job: {jobs:?}", addresses.len()),
    );
    let other = submit(&addresses[0], "2m");
    let says = format!("another body under the same id is a conflict: exit code {}", other.exit());
    report.check(other.code == Some(7) && other.err.contains("error[B1501]"), &says);
    Ok(())
}
