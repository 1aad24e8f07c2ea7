//! The receipt of a submission: the terms in force, as they were understood.

use proto::v1::{Receipt, UseView};

use super::words::{self, block};
use crate::form::text::{count, ordinal, plain, wrap};
use crate::form::{duration, gpu_time};
use crate::shell::Look;

/// Renders a receipt; `tier_from` is where the client read the tier.
pub fn receipt(receipt: &Receipt, tier_from: &str, signal: &str, look: &Look) -> String {
    let r = receipt;
    let at = look.zone.short(r.submitted_at, r.submitted_at);
    let mut out = format!("job {}  {}  accepted {at}\n\n", r.job, plain(&r.name));
    out.push_str(&terms(r, tier_from, signal, look));
    if let Some(start) = start(r, look) {
        out.push_str(&block("  start", 15, &wrap(&start, 80)));
    }
    let next = match &r.tasks {
        Some(_) => format!("bursar job show {0}     bursar job wait {0}", r.job),
        None => format!("bursar explain {0}     bursar logs -f {0}", r.job),
    };
    out.push_str(&format!("\nnext   {next}\n"));
    out
}

/// Renders the terms, without the head and what to type next.
pub fn terms(r: &Receipt, tier_from: &str, signal: &str, look: &Look) -> String {
    let mut out = String::new();
    let mut row = |name: &str, lines: &[String]| out.push_str(&block(&format!("  {name}"), 15, lines));
    row("budget", &[budget(r)]);
    row("tier", &[tier(r, tier_from)]);
    row("charge", &charge(r));
    row("protection", &wrap(&protection(r, signal), 84));
    if let Some(limit) = r.time_limit_ms {
        row("time limit", &[format!("{}, counted from the start of each attempt", duration::long(limit))]);
    }
    if let Some(tasks) = &r.tasks {
        let all = count(u64::from(tasks.count), "task");
        row(
            "array",
            &[format!(
                "{}: {all}, at most {} at once; each as said here",
                plain(&tasks.indexes),
                tasks.at_once
            )],
        );
    }
    if let Some(at) = r.begin_at {
        row(
            "begin",
            &[format!("not before {}; `bursar job release {}` starts it earlier", look.zone.day(at), r.job)],
        );
    }
    if !r.after.is_empty() {
        row("after", &r.after.iter().map(words::need).collect::<Vec<_>>());
    }
    row("order", &[order(r)]);
    for warning in &r.warnings {
        row("warning", &wrap(&plain(warning), 80));
    }
    out
}

/// Returns by when it has its GPUs: its date, or what is known before it has one. A dry run says that itself.
fn start(r: &Receipt, look: &Look) -> Option<String> {
    if let Some(date) = &r.date {
        let by = look.zone.short(date.go_by_at, r.submitted_at);
        return Some(format!("by {by} at the latest, unless {}", date.unless.join(" or ")));
    }
    let bound = duration::long(r.first_to_start_ms?);
    Some(match r.place {
        1 => format!("within {bound}, unless another job sorts ahead of it or a node of it fails"),
        _ => format!(
            "within {bound} of becoming first in order, unless a node of it fails; likely: bursar explain"
        ),
    })
}

fn budget(r: &Receipt) -> String {
    let usage = match r.r#use.as_ref() {
        Some(UseView { use_ppm: Some(ppm), .. }) => {
            format!("use {} of its allocation (lower goes first)", gpu_time::usage(Some(*ppm)))
        }
        Some(_) => "no allocation: goes after everyone else".into(),
        None => String::new(),
    };
    format!("{:<22}  {usage}", plain(&r.budget)).trim_end().to_string()
}

fn tier(r: &Receipt, tier_from: &str) -> String {
    let from = match r.tier_source.as_str() {
        "budget default" | "budget-default" | "budget_default" => {
            "from a default of the budget's owner".into()
        }
        _ if tier_from.is_empty() => String::new(),
        _ => format!("from {}", plain(tier_from)),
    };
    let word = words::tier(&r.tier);
    format!("{word:<22}  {from}").trim_end().to_string()
}

fn charge(r: &Receipt) -> Vec<String> {
    if r.tier == "free" {
        return vec!["none: the free tier is not charged".into()];
    }
    let set_aside = gpu_time::hours(&r.set_aside_milli_gpu_ms);
    let gpus = count(u64::from(r.gpus), "GPU");
    let time = duration::long(r.min_runtime_ms);
    let mut lines =
        vec![format!("{gpus} x {time} = {set_aside} GPU-h set aside at its start; then as it runs")];
    if let Some(usage) = &r.r#use
        && let Some(after) = gpu_time::less(&usage.headroom_milli_gpu_ms, &r.set_aside_milli_gpu_ms)
    {
        let before = gpu_time::hours(&usage.headroom_milli_gpu_ms);
        lines.push(format!("headroom {before} -> {} GPU-h", gpu_time::hours_of(after)));
    }
    lines
}

fn protection(r: &Receipt, signal: &str) -> String {
    let after = if r.resumable { "requeued" } else { "ended: not resumable" };
    let grace = duration::long(r.grace_ms);
    let end = format!("on preemption {signal}, {grace} grace, {after}");
    match r.tier.as_str() {
        "free" => format!("none; {end}"),
        _ => format!("{} from its start, then interruptible; {end}", duration::long(r.min_runtime_ms)),
    }
}

fn order(r: &Receipt) -> String {
    match r.place {
        0 if r.state == "held" => "held until then; in line at the place of its submission".into(),
        0 => "not in line yet".into(),
        1 => "1st".into(),
        place => {
            let (ahead, gpus) = (place - 1, count(u64::from(r.gpus_ahead), "GPU"));
            let jobs = if ahead == 1 { "job ahead needs".into() } else { format!("{ahead} jobs ahead need") };
            format!("{}; the {jobs} {gpus}", ordinal(place))
        }
    }
}
