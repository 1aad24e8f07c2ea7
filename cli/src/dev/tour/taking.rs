//! A job of a budget that is behind its share takes GPUs back, and what gives way loses nothing.

use serde_json::Value;

use super::bursar::Guide;
use super::report::Report;
use super::work::moment;

/// A job that counts, saves at its notice and leaves; started again it goes on where it was. It says in `NAME.log` when
/// each attempt began with which number and on which GPUs.
const SAVER: &str = "trap 'echo $n > $name.saved; \
    echo \"{\\\"step\\\": $n}\" > $BURSAR_CHECKPOINT_FILE.new; \
    mv $BURSAR_CHECKPOINT_FILE.new $BURSAR_CHECKPOINT_FILE; exit 9' USR1; \
    n=$(cat $name.saved 2>/dev/null || echo 0); echo \"$BURSAR_ATTEMPT $n $CUDA_VISIBLE_DEVICES\" >> $name.log; \
    while :; do n=$((n+1)); sleep 0.1; done";

/// Free tier first, then the cheapest that is past its protection; the rest of the story by the victim.
pub fn back(guide: &mut Guide, report: &mut Report) -> Result<(), String> {
    guide.until_whole()?;
    let node = guide.gpus.to_string();
    let half = (guide.gpus / 2).to_string();
    let free =
        saver(guide, "tour-i-free", &["--budget", "science/agents", "--gpus", &half, "--unallocated"])?;
    let funded = |name: &str, gpus: &str| {
        let flags = ["--budget", "science/agents", "--gpus", gpus, "--min-runtime", "2s", "--resumable"];
        saver(guide, name, &flags)
    };
    let small = funded("tour-i-small", &half)?;
    let large = funded("tour-i-large", &node)?;
    let first = taker(guide, "tour-i-first", &half)?;
    until_running(guide, first)?;
    let gave_way = attempt(guide, free, 0)?;
    report.check(
        taken_for(&gave_way) == format!("{first}.1"),
        &format!("a funded job of {half} GPUs starts; the free tier made way: {}", gave_way["end"]),
    );
    // It is taken once what it was charged has brought its side of the tree above the other by the margin.
    let second = taker(guide, "tour-i-second", &node)?;
    until_running(guide, second)?;
    let lost = attempt(guide, large, 0)?;
    report.check(
        taken_for(&lost) == format!("{second}.1"),
        &format!("one of {node} GPUs takes the node of {large}, past its protection: {}", taken_for(&lost)),
    );
    report.check(
        guide.job(small)?["attempts"].as_array().map(Vec::len) == Some(1),
        "the job that it did not need runs on",
    );
    is_priced(guide, report, large, &lost)?;
    explains(guide, report, large, second)?;
    resumes(guide, report, large, [first, small])?;
    for job in [free, small, large, second] {
        guide.run(&["job", "cancel", "--now", &job.to_string()]);
        guide.wait(job);
    }
    Ok(())
}

/// The victim's bill agrees with its own times, to the millisecond.
fn is_priced(guide: &Guide, report: &mut Report, job: u64, lost: &Value) -> Result<(), String> {
    let cost = &lost["cost"];
    let (Some(saved), Some(ended)) = (moment(&lost["saved_at"]), moment(&lost["ended_at"])) else {
        return Err(format!("no checkpoint in {lost}"));
    };
    let gpus = i128::from(lost["gpus"].as_u64().unwrap_or(0));
    let restart = number(&cost["restart_ms"]);
    let told = number(&cost["lost_gpu_ms"]);
    let computed = gpus * (ended - saved + restart);
    report.check(
        told == computed && cost["basis"] == "reported",
        &format!("{job} saved {} ms before its end; it lost {told} = {computed} GPU-ms", ended - saved),
    );
    let bill = guide.run(&["-o", "json", "bill"]).well()?.json();
    report.check(
        number(&bill["total"]["lost_gpu_ms"]) >= told && bill["wasted"].as_u64().unwrap_or(0) == 0,
        &format!("the bill has it; wasted preemptions: {}", bill["wasted"].as_u64().unwrap_or(0)),
    );
    Ok(())
}

fn explains(guide: &Guide, report: &mut Report, victim: u64, taker: u64) -> Result<(), String> {
    let explained = guide.run(&["explain", &format!("{victim}.1")]).well()?;
    let names_both = explained.out.contains(&taker.to_string()) && explained.out.contains("language");
    report.check(names_both, "`explain` names who took it, and both sides of the tree");
    Ok(())
}

/// Started again it goes on from its checkpoint, on other GPUs.
fn resumes(guide: &Guide, report: &mut Report, job: u64, in_its_way: [u64; 2]) -> Result<(), String> {
    for job in in_its_way {
        guide.run(&["job", "cancel", "--now", &job.to_string()]).well()?;
    }
    until_running(guide, job)?;
    let log = guide.until("the second attempt to say where it goes on", || {
        let text = std::fs::read_to_string(guide.work().join("tour-i-large.log")).ok()?;
        (text.lines().count() == 2).then_some(text)
    })?;
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split(' ').collect()).collect();
    let (before, after) = (&lines[0], &lines[1]);
    let has_resumed = after.first() == Some(&"2") && after.get(1).is_some_and(|n| *n != "0");
    report.check(
        has_resumed && before.get(2) != after.get(2),
        &format!("it runs again under its number, from step {}, on other GPUs", after.get(1).unwrap_or(&"?")),
    );
    Ok(())
}

fn saver(guide: &Guide, name: &str, flags: &[&str]) -> Result<u64, String> {
    guide.started(name, &format!("name={name}; {SAVER}"), flags).map(|(job, _)| job)
}

/// A short minimum: what is set aside for it counts at once, and would put its budget above the other.
fn taker(guide: &Guide, name: &str, gpus: &str) -> Result<u64, String> {
    let flags = ["--budget", "language/posttrain", "--gpus", gpus, "--min-runtime", "20s", "--name", name];
    let args: Vec<&str> = flags.into_iter().chain(["--", "/bin/sleep", "600"]).collect();
    guide.submit(&args)
}

/// Waits until a job runs.
///
/// # Errors
/// When it does not.
pub fn until_running(guide: &Guide, job: u64) -> Result<(), String> {
    guide.until(&format!("job {job} to run"), || (guide.job(job).ok()?["state"] == "running").then_some(()))
}

fn attempt(guide: &Guide, job: u64, at: usize) -> Result<Value, String> {
    let view = guide.job(job)?;
    let found = view["attempts"].get(at).cloned();
    found.ok_or_else(|| format!("job {job} has no attempt {}", at + 1))
}

fn taken_for(attempt: &Value) -> String {
    attempt["taken_for"].as_str().unwrap_or("nobody").to_owned()
}

fn number(value: &Value) -> i128 {
    let text = value.as_str().and_then(|text| text.parse().ok());
    value.as_i64().map(i128::from).or(text).unwrap_or(-1)
}
