//! What fails, and what goes on all the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::super::processes::{Identity, identify, is_alive, parent, signal};
use super::bursar::Guide;
use super::report::Report;

const TERMS: [&str; 6] = ["--budget", "science/agents", "--gpus", "1", "--min-runtime", "10m"];

/// Submissions in each round.
const SUBMISSIONS: u32 = 5;

/// The leader is killed, again and again.
pub fn leader(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    let mut running = Vec::new();
    for n in 0..2 {
        running.push(guide.started(&format!("tour-b-run-{n}"), "exec sleep 600", &TERMS)?);
    }
    let (writer, follower) = written(guide)?;
    let watcher = watch(guide)?;
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    let mut failed = Vec::new();
    for round in 1..=guide.rounds {
        guide.until_whole()?;
        let killed = guide.run(&["dev", "kill-leader"]).well()?;
        for n in 0..SUBMISSIONS {
            let name = format!("tour-b-{round}-{n}");
            let args = [
                "--budget",
                "science/agents",
                "--gpus",
                "1",
                "--min-runtime",
                "1m",
                "--name",
                &name,
                "--",
                "/bin/true",
            ];
            match guide.submit(&args) {
                Ok(job) => {
                    acknowledged.insert(name, job);
                }
                Err(why) => failed.push(why),
            }
        }
        let says = format!("round {round}: {}", killed.out.trim());
        report.check(
            running.iter().all(|(_, process)| is_alive(*process)),
            &format!("{says}; the jobs' processes are the same"),
        );
    }
    let wanted = guide.rounds * SUBMISSIONS;
    report.check(failed.is_empty(), &format!("{} of {wanted} submissions failed {failed:?}", failed.len()));
    guide.until_whole()?;
    once(guide, report, &acknowledged)?;
    watched(guide, report, watcher, &acknowledged)?;
    followed(guide, report, writer, follower)?;
    for (job, process) in running {
        let view = guide.job(job)?;
        let attempts = view["attempts"].as_array().map_or(0, Vec::len);
        let is_same = is_alive(process) && attempts == 1;
        report.check(is_same, &format!("job {job} still runs as pid {} in its first attempt", process.pid));
        guide.run(&["job", "cancel", "--now", &job.to_string()]).well()?;
        guide.wait(job);
    }
    Ok(())
}

/// Starts a job that writes on, and a `logs -f` that follows it into a file.
fn written(guide: &Guide) -> Result<(u64, Child), String> {
    let rest = "i=0; while [ ! -e tour-b.go ]; do i=$((i+1)); echo line $i; sleep 0.05; done; echo last";
    let (job, _) = guide.started("tour-b-log", rest, &TERMS)?;
    let file = File::create(guide.work().join("tour-b.log")).map_err(|error| error.to_string())?;
    let follower =
        guide.command(&["logs", "-f", &job.to_string()])?.stdout(file).stderr(Stdio::null()).spawn();
    Ok((job, follower.map_err(|error| error.to_string())?))
}

/// What was followed over all those leaders is what was written: nothing is missing, nothing stands twice.
fn followed(guide: &Guide, report: &mut Report, job: u64, mut follower: Child) -> Result<(), String> {
    guide.write("tour-b.go", "")?;
    let ended = guide.until("`logs -f` to end", || follower.try_wait().ok().flatten());
    if ended.is_err() {
        let _ = follower.kill();
        let _ = follower.wait();
    }
    let status = ended?;
    let text = std::fs::read_to_string(guide.work().join("tour-b.log")).map_err(|error| error.to_string())?;
    let lines: Vec<&str> = text.lines().collect();
    let numbers = 1..lines.len();
    let is_whole =
        numbers.clone().all(|n| lines[n - 1] == format!("line {n}")) && lines.last() == Some(&"last");
    let says =
        format!("`logs -f` of job {job} followed over the leaders: {} lines in order, {status}", lines.len());
    report.check(is_whole && lines.len() > 10 && status.success(), &says);
    Ok(())
}

/// Starts an `events -f` into a file. It follows from what is there now, not from when its process came to ask.
fn watch(guide: &Guide) -> Result<Child, String> {
    let status = guide.run(&["-o", "json", "cluster", "status"]).well()?.json();
    let after = status["as_of"]["index"].as_u64().ok_or("`cluster status` names no index")?.to_string();
    let file = File::create(guide.work().join("tour-b.events")).map_err(|error| error.to_string())?;
    let watcher = guide
        .command(&["-o", "jsonl", "events", "-f", "--after", &after])?
        .stdout(file)
        .stderr(Stdio::null())
        .spawn();
    watcher.map_err(|error| error.to_string())
}

/// What was watched over all those leaders has every submission once, in the order of the log.
fn watched(
    guide: &Guide,
    report: &mut Report,
    mut watcher: Child,
    acknowledged: &BTreeMap<String, u64>,
) -> Result<(), String> {
    let read = || -> Vec<Value> {
        let text = std::fs::read_to_string(guide.work().join("tour-b.events")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let count = |events: &[Value], job: u64| {
        events
            .iter()
            .filter(|event| event["kind"] == "job.submitted" && event["job"].as_u64() == Some(job))
            .count()
    };
    let all = guide.until("`events -f` to have all submissions", || {
        let events = read();
        acknowledged.values().all(|job| count(&events, *job) > 0).then_some(events)
    });
    let _ = watcher.kill();
    let _ = watcher.wait();
    let events = all?;
    let places: Vec<(u64, u64)> =
        events.iter().filter_map(|event| Some((event["index"].as_u64()?, event["n"].as_u64()?))).collect();
    let is_ordered = places.windows(2).all(|pair| pair[0] < pair[1]);
    let is_once = acknowledged.values().all(|job| count(&events, *job) == 1);
    let says = format!(
        "`events -f` followed over the leaders: {} events in order, each submission once",
        events.len()
    );
    report.check(is_ordered && is_once, &says);
    Ok(())
}

/// Every acknowledged submission is there once.
fn once(guide: &Guide, report: &mut Report, acknowledged: &BTreeMap<String, u64>) -> Result<(), String> {
    let states = "held,waiting,starting,running,stopping,ended";
    let list =
        guide.run(&["-o", "json", "job", "list", "--limit", "10000", "--state", states]).well()?.json();
    let jobs = list["jobs"].as_array().cloned().unwrap_or_default();
    let wrong: Vec<&String> = acknowledged
        .iter()
        .filter(|(name, job)| {
            let found: Vec<_> = jobs.iter().filter(|one| one["name"] == name.as_str()).collect();
            found.len() != 1 || found[0]["job"].as_u64() != Some(**job)
        })
        .map(|(name, _)| name)
        .collect();
    let is_ok = wrong.is_empty() && !acknowledged.is_empty();
    report.check(is_ok, &format!("{} acknowledged, each there exactly once {wrong:?}", acknowledged.len()));
    Ok(())
}

/// All replicas are killed and started.
pub fn replicas(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    guide.until_whole()?;
    let (ends, ending) =
        guide.started("tour-c-ends", "while [ ! -e tour-c.go ]; do sleep 0.1; done; exit 7", &TERMS)?;
    let (stays, staying) = guide.started("tour-c-stays", "exec sleep 600", &TERMS)?;
    guide.until("both jobs to be seen running", || {
        let runs = |job| guide.job(job).is_ok_and(|view| view["state"] == "running");
        (runs(ends) && runs(stays)).then_some(())
    })?;
    guide.run(&["dev", "stop-replicas"]).well()?;
    report.check(is_alive(ending) && is_alive(staying), "all replicas are killed; the jobs run on");
    let called = guide.run(&["--patience", "1s", "queue"]);
    let says = format!("a call says that no replica can be reached: exit code {}", called.exit());
    report.check(called.code == Some(6) && called.err.contains("error[B1102]"), &says);
    guide.write("tour-c.go", "")?;
    guide.until("the job to end", || (!is_alive(ending)).then_some(()))?;
    guide.run(&["dev", "start-replicas"]).well()?;
    guide.until_whole()?;
    let waited = guide.wait(ends);
    report.check(
        waited.code == Some(7),
        &format!("the job that ended meanwhile has its exit code 7: {}", waited.exit()),
    );
    let view = guide.job(stays)?;
    let is_same = is_alive(staying)
        && view["state"] == "running"
        && view["attempts"].as_array().map_or(0, Vec::len) == 1;
    report.check(is_same, &format!("the other one still runs as pid {} in its first attempt", staying.pid));
    guide.run(&["job", "cancel", "--now", &stays.to_string()]).well()?;
    let waited = guide.wait(stays);
    report.check(!is_alive(staying), &format!("cancelled it ends: {}", waited.exit()));
    Ok(())
}

/// Agents end and come back; a shim is killed.
pub fn agents(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    for (name, how) in
        [("tour-d-kill", &["dev", "kill-agent"][..]), ("tour-d-term", &["dev", "kill-agent", "--term"])]
    {
        guide.until_whole()?;
        let go = format!("{name}.go");
        let rest = format!("while [ ! -e {go} ]; do sleep 0.1; done; exit 9");
        let (job, process) = guide.started(name, &rest, &TERMS)?;
        let n = node_of(guide, job)?;
        let before = guide.state()?.agents[n - 1].starts;
        let args: Vec<&str> = how.to_vec();
        let n_text = n.to_string();
        let args: Vec<&str> = args.into_iter().chain([n_text.as_str()]).collect();
        let said = guide.run(&args).well()?.out;
        guide.until("the agent to be started again", || {
            (guide.state().ok()?.agents.get(n - 1)?.starts > before).then_some(())
        })?;
        guide.until_whole()?;
        report.check(is_alive(process), &format!("{}; the job is the same pid {}", said.trim(), process.pid));
        guide.write(&go, "")?;
        let waited = guide.wait(job);
        report.check(waited.code == Some(9), &format!("its exit code 9 is right: {}", waited.exit()));
        let attempts = guide.job(job)?["attempts"].as_array().map_or(0, Vec::len);
        report.check(attempts == 1, &format!("it had {attempts} attempt"));
    }
    shim(guide, report)
}

fn shim(guide: &Guide, report: &mut Report) -> Result<(), String> {
    guide.until_whole()?;
    let rest = "while [ ! -e tour-d-shim.go ]; do sleep 0.1; done; exit 0";
    let (job, process) = guide.started("tour-d-shim", rest, &TERMS)?;
    let shim: Identity = parent(process.pid).and_then(identify).ok_or("the job's process has no parent")?;
    report.check(signal(shim, Signal::KILL), &format!("killed the shim, pid {}", shim.pid));
    guide.until("the shim to be gone", || (!is_alive(shim)).then_some(()))?;
    let state = guide.job(job)?["state"].clone();
    report.check(is_alive(process), &format!("the job lives on as pid {}; it is {state}", process.pid));
    guide.write("tour-d-shim.go", "")?;
    let ended = guide.until("the job's end to be seen", || {
        let view = guide.job(job).ok()?;
        (view["state"] == "ended").then_some(view)
    })?;
    report.check(!is_alive(process), &format!("its end is seen: {} ({})", ended["end"], ended["exit"]));
    guide.until("its GPUs to be proven free", || {
        let nodes = guide.run(&["-o", "json", "node", "list"]).json();
        let idle: u64 = nodes["nodes"].as_array()?.iter().filter_map(|node| node["idle"].as_u64()).sum();
        let gpus: u64 = nodes["nodes"].as_array()?.iter().filter_map(|node| node["gpus"].as_u64()).sum();
        (idle == gpus).then_some(())
    })?;
    report.check(true, "all GPUs are proven free again");
    Ok(())
}

/// Returns which node a job is on, from 1.
fn node_of(guide: &Guide, job: u64) -> Result<usize, String> {
    let view = guide.job(job)?;
    let attempts = view["attempts"].as_array().cloned().unwrap_or_default();
    let node = attempts.last().and_then(|attempt| attempt["node"].as_str()).unwrap_or_default().to_string();
    node.strip_prefix("node-")
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| format!("job {job} is on no node: {node}"))
}
