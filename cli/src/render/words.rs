//! Words that several screens share.

use proto::v1::{ArrayView, AsOf, ExitView, NeedView, PoolView, UseView};

use crate::form::gpu_time;
use crate::form::text::plain;
use crate::shell::Look;
use crate::submission::signal_name;

/// Returns `as of 14:02:11`, and at which index if the answer may be old.
pub fn as_of(as_of: Option<&AsOf>, look: &Look) -> String {
    let Some(as_of) = as_of else { return String::new() };
    let at = look.zone.clock(as_of.time_at);
    let stale = if as_of.stale { ", may be old" } else { "" };
    if look.is_wide || as_of.stale {
        format!("as of {at}, index {}, replica {}{stale}\n", as_of.index, as_of.replica)
    } else {
        format!("as of {at}\n")
    }
}

/// Returns the moment a view was made at; the end of time if unknown.
pub fn now(as_of: Option<&AsOf>) -> u64 {
    as_of.map_or(u64::MAX, |as_of| as_of.time_at)
}

/// Returns a tier's word.
pub fn tier(tier: &str) -> &str {
    match tier {
        "free" => "free tier",
        other => other,
    }
}

/// Returns a budget and its use: `language/posttrain 0.78`.
pub fn use_of(view: &UseView) -> String {
    format!("{} {}", view.budget, gpu_time::usage(view.use_ppm))
}

/// Returns the line that marks what is from the history; nothing of what state has.
pub fn from_history(left_at: Option<u64>, look: &Look, now: u64) -> String {
    left_at.map_or(String::new(), |at| {
        format!("from the history: it left the present state at {}\n", look.zone.short(at, now))
    })
}

/// Returns the last level of a path.
pub fn leaf(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns how a process ended: `exit code 3`, `SIGTERM`.
pub fn exit(exit: &ExitView) -> String {
    match exit.kind.as_str() {
        "code" => format!("exit code {}", exit.value),
        "signal" => signal_name(exit.value),
        _ => "exit unknown: nothing was left to tell it".into(),
    }
}

/// Returns the counts of a pool: `32 GPUs: 8 protected, 24 idle`. What is zero is left out, but for idle.
pub fn pool(pool: &PoolView) -> String {
    let parts = [
        (pool.protected, "protected"),
        (pool.interruptible, "interruptible"),
        (pool.free_tier, "free tier"),
        (pool.changing, "changing hands"),
        (pool.unavailable, "unavailable"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}"));
    let parts: Vec<String> = parts.chain([format!("{} idle", pool.idle)]).collect();
    let gpus = crate::form::text::count(u64::from(pool.gpus), "GPU");
    format!("{}  {gpus}: {}", plain(&pool.name), parts.join(", "))
}

/// Returns a reason's token without its family, as words: `order`, `protection`, `not looked at yet`.
pub fn reason(token: &str) -> String {
    match token {
        "waiting.evaluation" => "not looked at yet".into(),
        "waiting.order" => "others go first".into(),
        "waiting.capacity" => "nodes are away".into(),
        "waiting.protection" => "GPUs are protected".into(),
        "waiting.reserved" => "reserved for others".into(),
        "waiting.lane" => "kept for short jobs".into(),
        "waiting.burst" => "above its burst limit".into(),
        "waiting.shape" => "GPUs in wrong places".into(),
        "waiting.idle" => "none idle".into(),
        "waiting.leader" => "no leader".into(),
        "waiting.occupied" => "GPUs are in use".into(),
        "placed.grace" => "GPUs being emptied".into(),
        "held.user" => "held by its user".into(),
        "held.operator" => "held for others".into(),
        "held.launch" => "launches failed".into(),
        "held.backoff" => "tried again later".into(),
        "held.begin" => "begins later".into(),
        "held.dependency" => "waits for others".into(),
        "held.barren" => "held: no progress".into(),
        other if other.starts_with("starting.") => "starting".into(),
        other => other.split_once('.').map_or(other, |(_, rest)| rest).to_string(),
    }
}

/// Returns a job's number as people say it.
pub fn shown(shown_as: &str, job: u32) -> String {
    if shown_as.is_empty() { job.to_string() } else { plain(shown_as) }
}

/// Returns where the tasks of an array are: `3 running, 6 waiting, 1 completed`.
pub fn tasks(tasks: &ArrayView) -> String {
    let parts = tasks.states.iter().map(|part| format!("{} {}", part.tasks, plain(&part.state)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns a job that another one waits for: `4190 prepare, which must complete: it has`.
pub fn need(need: &NeedView) -> String {
    let name = if need.name.is_empty() { String::new() } else { format!(" {}", plain(&need.name)) };
    let wants = if need.wants == "success" { "must complete" } else { "must have ended" };
    let met = match need.met.as_str() {
        "yes" => ": it has",
        "never" => ": it never will",
        _ => "",
    };
    format!("{}{name} {wants}{met}", shown(&need.shown_as, need.job))
}

/// Returns `text` under a heading column: the first line behind `name`, the others below it.
pub fn block(name: &str, width: usize, lines: &[String]) -> String {
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        let head = if n == 0 { name } else { "" };
        out.push_str(format!("{head:<width$}{line}").trim_end());
        out.push('\n');
    }
    out
}
