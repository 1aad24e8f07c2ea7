//! What giving way costs: before it is decided, and after it happened.

use proto::v1::{PreemptionCost, VictimView};

use super::words;
use crate::form::text::{count, plain, wrap};
use crate::form::{duration, gpu_time};
use crate::shell::Look;

/// Returns GPU-hours of GPU-milliseconds.
pub fn hours(gpu_ms: u64) -> String {
    gpu_time::hours_of(i128::from(gpu_ms).saturating_mul(1000))
}

fn product(gpus: u32, ms: u64) -> String {
    hours(u64::from(gpus).saturating_mul(ms))
}

/// Returns what a preemption was for, in words.
pub fn cause(cause: &str) -> String {
    match cause {
        "share" => "fair share".into(),
        "turn" => "turn in its budget".into(),
        "free-tier" => "free tier made way".into(),
        "claim" => "a date had come".into(),
        "lane" => "the short lane".into(),
        other => plain(other),
    }
}

/// Returns how a loss is known, in words.
pub fn basis(basis: &str) -> String {
    match basis {
        "reported" => "checkpoint reported".into(),
        "declared" => "declared interval, upper bound".into(),
        "unknown" => "unknown, upper bound".into(),
        other => plain(other),
    }
}

/// Returns how long an attempt had not saved: `9 min 50 s since its checkpoint at 16:30`.
fn age(cost: &PreemptionCost, look: &Look, now: u64) -> String {
    let age = duration::long(cost.age_ms);
    match (cost.basis.as_str(), cost.saved_at) {
        ("reported", Some(at)) => format!("{age} since its checkpoint at {}", look.zone.short(at, now)),
        ("declared", _) => format!("{age} of its declared interval"),
        _ => format!("{age} since it ran"),
    }
}

fn restart(cost: &PreemptionCost) -> Option<String> {
    let about = match cost.restart_basis.as_str() {
        "none" => return None,
        "measured" => "",
        _ => "about ",
    };
    Some(format!("{about}{} to restart", duration::long(cost.restart_ms)))
}

/// Returns the cost of a preemption, its parts and how it is known.
pub fn lines(cost: &PreemptionCost, look: &Look, now: u64) -> Vec<String> {
    let gpus = count(u64::from(cost.gpus), "GPU");
    let total = hours(cost.lost_gpu_ms);
    let lost = product(cost.gpus, cost.age_ms);
    let mut lines = vec![format!("{total} GPU-h: {} x {gpus} = {lost}", age(cost, look, now))];
    if let Some(restart) = restart(cost) {
        lines.push(format!("and {restart} x {gpus} = {}", product(cost.gpus, cost.restart_ms)));
    }
    lines.push(match cost.basis.as_str() {
        "reported" => "the checkpoint's time is the job's own report".into(),
        "declared" => "an upper bound: the job reported nothing, so its declared interval counts".into(),
        "unknown" => "an upper bound: the job neither reported nor declared how often it saves".into(),
        other => plain(other),
    });
    if cost.wasted == Some(true) {
        let whom = cost.taken_for.as_deref().unwrap_or("the job it was for");
        lines.push(format!("wasted: {} did not start", plain(whom)));
    }
    lines
}

/// Returns the cost of a preemption on one line: `59.7 GPU-h (22 min since its checkpoint + 6 min restart, x 128)`.
pub fn short(cost: &PreemptionCost) -> String {
    let age = duration::long(cost.age_ms);
    let since = match cost.basis.as_str() {
        "reported" => "since its checkpoint",
        "declared" => "of its declared interval",
        _ => "since it ran",
    };
    let restart = restart(cost).map_or(String::new(), |restart| format!(" + {restart}"));
    format!("{} GPU-h ({age} {since}{restart}, x {})", hours(cost.lost_gpu_ms), cost.gpus)
}

/// Returns by which right an attempt gives way, with both sides' numbers as they were.
pub fn right(victim: &VictimView) -> String {
    match (victim.right.as_str(), &victim.mine, &victim.theirs) {
        ("share", Some(mine), Some(theirs)) => {
            format!("{} < {}", words::use_of(mine), words::use_of(theirs))
        }
        ("free-tier", ..) => "free tier: gives way to funded work".into(),
        ("lane", ..) => "short lane: past its protection, for a short job".into(),
        ("turn", ..) => "same budget, later turn, past its protection".into(),
        (other, ..) => plain(other),
    }
}

/// Returns what choosing an attempt counted: `price 33.8 GPU-h: 10 min since its checkpoint at 16:30, 6 min restart`.
pub fn price(victim: &VictimView, look: &Look, now: u64) -> String {
    let lost = duration::long(victim.lost_ms);
    let since = match (victim.basis.as_str(), victim.saved_at) {
        ("reported", Some(at)) => format!("{lost} since its checkpoint at {}", look.zone.short(at, now)),
        // What never reported counts as saved just now, so that silence makes nobody dear.
        _ => "counted as saved just now: it reports nothing".into(),
    };
    let again = match victim.preemptions {
        0 => String::new(),
        n => format!(", dearer after {}", count(u64::from(n), "preemption")),
    };
    format!(
        "price {} GPU-h: {since}, {} to restart{again}",
        gpu_time::hours(&victim.price_milli_gpu_ms),
        duration::long(victim.restart_ms)
    )
}

/// Returns an attempt that gives way: who, by which right, at what price.
pub fn victim(victim: &VictimView, look: &Look, now: u64) -> Vec<String> {
    let gpus = count(u64::from(victim.gpus), "GPU");
    let name = if victim.name.is_empty() { String::new() } else { format!(" {}", plain(&victim.name)) };
    let budget =
        if victim.budget.is_empty() { String::new() } else { format!("{}, ", plain(&victim.budget)) };
    let mut lines = vec![format!("{}{name} ({budget}{gpus}):", plain(&victim.attempt))];
    let facts = [right(victim), price(victim, look, now)];
    lines.extend(facts.iter().flat_map(|fact| wrap(fact, 82)).map(|line| format!("  {line}")));
    lines
}
