//! Cluster time, everybody's clocks, and what setting it does.

use proto::v1::{ClusterTimeView, ProtectionEnd, ReplicaClock, SetTimeView};

use crate::form::duration;
use crate::form::gpu_time;
use crate::form::table::Table;
use crate::form::text::{count, cut, plain, wrap};
use crate::shell::Look;

/// Differences up to this are none: the way of the messages.
const IN_STEP_MS: u64 = 500;

/// Renders cluster time and the clocks.
pub fn clocks(view: &ClusterTimeView, look: &Look) -> String {
    let mut out = format!("cluster time  {}\n", look.zone.full(view.cluster_time_at));
    out.push_str(&format!("last entry    {}\n", look.zone.full(view.entry_at)));
    if let (Some(at), Some(ahead)) = (view.wall_at, view.wall_ahead_ms) {
        let slew = match view.slew_ppm {
            0 => String::new(),
            ppm => format!("; slewed by {} in 1,000,000", signed(ppm)),
        };
        out.push_str(&format!("wall clocks   {}, {}{slew}\n", look.zone.full(at), offset(ahead)));
    }
    if let Some(ahead) = view.agents_ahead_ms {
        let who = count(u64::from(view.agents), "agent");
        out.push_str(&format!("agents        {who} carried it when they linked: {}\n", offset(ahead)));
    }
    if let Some(at) = view.set_last_at {
        out.push_str(&format!("set last      to {}\n", look.zone.full(at)));
    }
    out.push('\n');
    out.push_str(&replicas(&view.replicas, look, view.cluster_time_at));
    for alarm in &view.alarms {
        for (n, line) in wrap(&plain(alarm), 88).into_iter().enumerate() {
            out.push_str(&format!("{:<9}{line}\n", if n == 0 { "alarm" } else { "" }));
        }
    }
    out
}

fn replicas(replicas: &[ReplicaClock], look: &Look, now: u64) -> String {
    let mut table = Table::new(&["REPLICA", "ROLE", "WALL CLOCK", "OFFSET", ">UP", "TIME FROM", "BOOT"]);
    for replica in replicas {
        let boot = replica.boot.clone().unwrap_or_else(|| "-".into());
        let source = match (&replica.source, replica.up_ms) {
            (Some(source), _) => source.clone(),
            (None, Some(_)) => "asks for it".into(),
            (None, None) => "-".into(),
        };
        table.row([
            format!("r{}", replica.replica),
            replica.role.clone(),
            replica.wall_at.map_or("-".into(), |at| wall(at, now, look)),
            replica.wall_ahead_ms.map_or("-".into(), offset),
            replica.up_ms.map_or("-".into(), duration::long),
            plain(&source),
            if look.is_wide { boot } else { cut(&boot, 8) },
        ]);
    }
    table.render()
}

fn wall(at: u64, now: u64, look: &Look) -> String {
    match at.abs_diff(now) {
        0..43_200_000 => look.zone.clock(at),
        _ => look.zone.full(at),
    }
}

/// Says how far something is ahead of cluster time.
fn offset(ahead_ms: i64) -> String {
    let off = ahead_ms.unsigned_abs();
    match (off, ahead_ms > 0) {
        (0..=IN_STEP_MS, _) => "in step".into(),
        (_, true) => format!("{} ahead", duration::long(off)),
        (_, false) => format!("{} behind", duration::long(off)),
    }
}

fn signed(ppm: i32) -> String {
    if ppm > 0 { format!("+{ppm}") } else { ppm.to_string() }
}

/// Renders what setting cluster time does; a preview speaks of what would be.
pub fn set(view: &SetTimeView, is_preview: bool, look: &Look) -> String {
    let is_step = view.ahead_ms > 0;
    let mut out = match (is_step, is_preview) {
        (true, true) => format!("cluster time would go {} forward at once\n", duration::long(view.ahead_ms)),
        (true, false) => format!("cluster time went {} forward\n", duration::long(view.ahead_ms)),
        (false, true) => "cluster time would stay as it is\n".into(),
        (false, false) => "cluster time stays as it is\n".into(),
    };
    out.push_str(&format!("from  {}\nto    {}\n", look.zone.full(view.from_at), look.zone.full(view.to_at)));
    if is_step {
        for line in effects(view) {
            out.push_str(&format!("  {line}\n"));
        }
        out.push_str(&protections(&view.protections, look, view.from_at));
    }
    if let Some(alarm) = &view.alarm {
        wrap(&format!("this ends the alarm: {}", plain(alarm)), 98)
            .into_iter()
            .for_each(|line| out.push_str(&format!("{line}\n")));
    }
    if is_step && is_preview {
        out.push_str("time never goes back: this cannot be undone\n");
    }
    out
}

fn effects(view: &SetTimeView) -> Vec<String> {
    let by = duration::long(view.ahead_ms);
    let protections = u64::try_from(view.protections.len()).unwrap_or(u64::MAX);
    let booked = gpu_time::hours_of(i128::from(view.booked_gpu_ms) * 1_000);
    let mut lines = vec![
        format!(
            "protection: {} by it; {} on, {by} shorter",
            match protections {
                1 => "1 job's ends".into(),
                n => format!("{n} jobs' end"),
            },
            match view.shortened {
                1 => "1 job's goes".into(),
                n => format!("{n} jobs' go"),
            },
        ),
        format!("charge: {booked} GPU-h are booked without having been used, and charged where funded"),
        format!("budgets: their window looks back from then; the first {by} of it leave it"),
    ];
    let due = [
        (view.starts, "late start"),
        (view.drains, "drain"),
        (view.waits, "wait of a node or job"),
        (view.join_tokens, "join token"),
        (view.ended_jobs, "ended job"),
    ];
    let due: Vec<String> =
        due.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(u64::from(*n), what)).collect();
    if !due.is_empty() {
        lines.push(format!("due by then: {}", due.join(", ")));
    }
    lines.push(format!("request ids: {} stay known as long as without it", view.requests));
    lines
}

fn protections(ends: &[ProtectionEnd], look: &Look, now: u64) -> String {
    if ends.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["  PROTECTION OF", "BUDGET", ">GPUS", "UNTIL"]);
    for end in ends {
        table.row([
            format!("  {}", end.attempt),
            end.budget.clone(),
            end.gpus.to_string(),
            look.zone.short(end.at, now),
        ]);
    }
    table.render()
}
