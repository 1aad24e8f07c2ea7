//! Who goes first.

use super::bursar::Guide;
use super::report::Report;

/// Two budgets share what their parent has 60 : 40, whoever asks first and loudest.
pub fn budgets(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    guide.until_whole()?;
    let gpus = u64::from(guide.gpus);
    let all: u64 = idle(guide)?;
    // Everything is taken while both budgets queue up, so that order decides and not who came first.
    let mut blockers = Vec::new();
    for n in 0..all / gpus {
        let name = format!("tour-e-block-{n}");
        let text = gpus.to_string();
        let flags = ["--budget", "language/pretrain", "--gpus", &text, "--min-runtime", "10m"];
        blockers.push(guide.started(&name, "exec sleep 600", &flags)?.0);
    }
    let mut burst = Vec::new();
    for n in 0..all {
        burst.push(sleeper(
            guide,
            "robotics/sim-rl",
            &format!("tour-e-burst-{n}"),
            &["--min-runtime", "10m"],
        )?);
    }
    let mut late = Vec::new();
    for n in 0..all {
        late.push(sleeper(guide, "robotics/grasp", &format!("tour-e-late-{n}"), &["--min-runtime", "10m"])?);
    }
    let (charged_before, _) = booked(guide, "science/agents")?;
    let free = sleeper(guide, "science/agents", "tour-e-free", &["--unallocated"])?;
    let reason = guide.until("the free-tier job to be looked at", || {
        let reason = guide.job(free).ok()?["reason"].as_str()?.to_string();
        (reason != "waiting.evaluation").then_some(reason)
    })?;
    report.check(reason == "waiting.idle", &format!("the free-tier job waits, none is idle: {reason}"));
    for job in &blockers {
        guide.run(&["job", "cancel", "--now", &job.to_string()]).well()?;
    }
    guide.until("all GPUs to be taken again", || {
        (started(guide, &burst) + started(guide, &late) >= all).then_some(())
    })?;
    let (first, second) = (started(guide, &burst), started(guide, &late));
    // 60 : 40 of eight is 5 : 3; what was charged a moment ago may move one of them.
    let expected = (all * 6).div_ceil(10);
    let is_fair = first + second == all && first.abs_diff(expected) <= 1 && second > 0;
    report.check(
        is_fair,
        &format!("of {all} GPUs the burst of share 60 got {first}, the later one of share 40 {second}"),
    );
    let free_state = guide.job(free)?["state"].clone();
    report.check(
        free_state == "waiting",
        &format!("the free-tier job is {free_state} while funded work waits"),
    );
    for job in burst.iter().chain(&late) {
        guide.run(&["job", "cancel", "--now", &job.to_string()]).well()?;
    }
    guide.until("the free-tier job to start", || {
        (guide.job(free).ok()?["state"] == "running").then_some(())
    })?;
    report.check(true, "it starts when GPUs are idle and nobody else wants them");
    guide.run(&["job", "cancel", "--now", &free.to_string()]).well()?;
    guide.wait(free);
    let (charged, in_free_tier) = booked(guide, "science/agents")?;
    let is_booked = charged == charged_before && in_free_tier > 0;
    report.check(
        is_booked,
        &format!("its budget is not charged for it, and has {in_free_tier} milli-GPU-ms in the free tier"),
    );
    Ok(())
}

/// Returns what a budget is charged, and what it has used of the free tier.
fn booked(guide: &Guide, budget: &str) -> Result<(i128, i128), String> {
    let tree = guide.run(&["-o", "json", "budget", "tree"]).well()?.json();
    let rows = tree["pools"][0]["rows"].as_array().cloned().unwrap_or_default();
    let row = rows.iter().find(|row| row["path"].as_str().is_some_and(|path| path.ends_with(budget)));
    let row = row.ok_or_else(|| format!("no budget {budget} in {tree}"))?;
    let number = |value: &serde_json::Value| value.as_str().and_then(|text| text.parse().ok());
    number(&row["use"]["charged_milli_gpu_ms"])
        .zip(number(&row["free_tier_milli_gpu_ms"]))
        .ok_or_else(|| format!("no numbers in {row}"))
}

fn sleeper(guide: &Guide, budget: &str, name: &str, tier: &[&str]) -> Result<u64, String> {
    let args: Vec<&str> = ["--budget", budget, "--gpus", "1", "--name", name]
        .into_iter()
        .chain(tier.iter().copied())
        .chain(["--", "/bin/sleep", "600"])
        .collect();
    guide.submit(&args)
}

fn started(guide: &Guide, jobs: &[u64]) -> u64 {
    let list = guide.run(&["-o", "json", "job", "list", "--limit", "10000"]).json();
    let rows = list["jobs"].as_array().cloned().unwrap_or_default();
    let is_on = |row: &&serde_json::Value| {
        let is_ours = row["job"].as_u64().is_some_and(|job| jobs.contains(&job));
        is_ours && matches!(row["state"].as_str(), Some("starting" | "running"))
    };
    u64::try_from(rows.iter().filter(is_on).count()).unwrap_or(0)
}

fn idle(guide: &Guide) -> Result<u64, String> {
    let nodes = guide.run(&["-o", "json", "node", "list"]).well()?.json();
    let nodes = nodes["nodes"].as_array().cloned().unwrap_or_default();
    Ok(nodes.iter().filter_map(|node| node["idle"].as_u64()).sum())
}
