//! One job: its terms, its attempts, its end.

use proto::v1::{ArrayView, AttemptView, JobView};

use super::cost;
use super::words::{self, block};
use crate::form::table::Table;
use crate::form::text::{count, cut, plain, slots, wrap};
use crate::form::{duration, gpu_time};
use crate::shell::Look;

/// Renders a job.
pub fn job(job: &JobView, look: &Look) -> String {
    let now = words::now(job.as_of.as_ref());
    let shown = words::shown(&job.shown_as, job.job);
    let mut out = format!("{shown} {} is {}", plain(&job.name), state(job).to_uppercase());
    if !job.reason.is_empty() {
        out.push_str(&format!(" ({})", job.reason));
    }
    if let Some(since) = job.ended_at.or(job.since_at) {
        out.push_str(&format!(" since {}", look.zone.short(since, now)));
    }
    out.push('\n');
    out.push_str(&words::from_history(job.left_at, look, now));
    out.push('\n');
    for (name, lines) in rows(job, look, now) {
        out.push_str(&block(&format!("  {name}"), 15, &lines));
    }
    if !job.attempts.is_empty() {
        out.push('\n');
        out.push_str(&attempts(job, look, now));
        out.push_str(&details(job, look));
    }
    let next = match &job.tasks {
        Some(_) => "bursar job list --tasks".into(),
        None if job.state == "ended" => format!("bursar logs {shown}"),
        None => format!("bursar logs -f {shown}"),
    };
    out.push_str(&format!("\nnext   bursar explain {shown}     {next}\n"));
    out
}

fn state(job: &JobView) -> &str {
    job.end.as_deref().filter(|_| job.state == "ended").unwrap_or(&job.state)
}

fn rows(job: &JobView, look: &Look, now: u64) -> Vec<(&'static str, Vec<String>)> {
    let mut rows = vec![
        ("budget", vec![plain(&job.budget)]),
        ("user", vec![format!("{}, runs as {}", plain(&job.user), plain(&job.account))]),
        ("submitted", vec![look.zone.full(job.submitted_at)]),
    ];
    if let Some(tasks) = &job.tasks {
        rows.push(("tasks", array(tasks)));
    }
    if let (Some(array), Some(index)) = (job.array, job.task) {
        rows.push(("task", vec![format!("{index} of array {array}; its own number is {}", job.job)]));
    }
    rows.extend([("needs", vec![shape(job)]), ("terms", wrap(&terms(job), 80)), charged(job)]);
    if !job.exclude.is_empty() {
        rows.push(("not on", vec![plain(&job.exclude.join(", "))]));
    }
    if let Some(at) = job.begin_at {
        rows.push(("begin", vec![format!("not before {}", look.zone.day(at))]));
    }
    if !job.after.is_empty() {
        rows.push(("after", job.after.iter().map(words::need).collect()));
    }
    if let Some(date) = &job.date {
        let by = look.zone.short(date.go_by_at, now);
        let at = look.zone.short(date.date_at, now);
        let text = format!("by {by} (its date is {at}), unless {}", date.unless.join(" or "));
        rows.push(("start", wrap(&text, 80)));
    }
    if let (Some(end), Some(at)) = (&job.end, job.ended_at) {
        let exit = job.exit.as_ref().map_or(String::new(), |exit| format!(", {}", words::exit(exit)));
        rows.push(("ended", vec![format!("{end} at {}{exit}", look.zone.short(at, now))]));
    }
    if let Some(launch) = &job.launch {
        let what = match &launch.script {
            Some(script) => format!("a script of {}", count(line_count(script), "line")),
            None => launch.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        };
        rows.push(("runs", vec![if look.is_wide { plain(&what) } else { cut(&plain(&what), 84) }]));
        rows.push(("in", vec![plain(&launch.working_dir)]));
        if !launch.env_names.is_empty() {
            rows.push(("with", vec![plain(&launch.env_names.join(", "))]));
        }
    }
    rows
}

/// An array's tasks: which, where they are, and which have not completed.
fn array(tasks: &ArrayView) -> Vec<String> {
    let all = count(u64::from(tasks.count), "task");
    let mut lines = vec![format!("{}: {all}, at most {} at once", plain(&tasks.indexes), tasks.at_once)];
    lines.extend(wrap(&words::tasks(tasks), 80));
    if !tasks.not_completed.is_empty() {
        let named: Vec<String> = tasks.not_completed.iter().map(ToString::to_string).collect();
        lines.extend(wrap(&format!("not completed: {}", named.join(", ")), 80));
    }
    lines
}

fn charged(job: &JobView) -> (&'static str, Vec<String>) {
    let charged = match job.tier.as_str() {
        "free" => "nothing: the free tier is not charged".into(),
        _ => format!("{} GPU-h", gpu_time::hours(&job.charged_milli_gpu_ms)),
    };
    ("charged", vec![charged])
}

fn line_count(text: &str) -> u64 {
    u64::try_from(text.lines().count()).unwrap_or(u64::MAX)
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.into() } else { format!("'{word}'") }
}

fn shape(job: &JobView) -> String {
    let Some(shape) = &job.shape else { return count(u64::from(job.gpus), "GPU") };
    let gpus = count(u64::from(job.gpus), "GPU");
    let mut text = match shape.nodes {
        1 => format!("{gpus} on one node"),
        nodes => format!("{gpus}: {nodes} nodes x {}", shape.gpus_per_node),
    };
    if let Some(gpu_type) = &shape.gpu_type {
        let types: Vec<String> =
            [gpu_type].into_iter().chain(&shape.or_types).map(|kind| plain(kind)).collect();
        text.push_str(&format!(", {}", types.join(" or ")));
    }
    if let Some(level) = shape.within {
        text.push_str(&format!(", within one group of level {level}"));
    }
    if let Some(cpus) = shape.cpus {
        text.push_str(&format!(", {}", count(u64::from(cpus), "core")));
    }
    if let Some(memory) = shape.memory_bytes {
        text.push_str(&format!(", {}", crate::form::size::show(memory)));
    }
    text
}

fn terms(job: &JobView) -> String {
    let mut terms = vec![match job.tier.as_str() {
        "free" => "free tier: not charged, never protected".into(),
        _ => format!("protected {} from its start", duration::long(job.min_runtime_ms)),
    }];
    if let Some(limit) = job.time_limit_ms {
        terms.push(format!("time limit {}", duration::long(limit)));
    }
    terms.push(if job.resumable { "resumable".into() } else { "not resumable".into() });
    if job.retries > 0 {
        terms.push(format!("{} of {} retries used", job.retries_used, job.retries));
    }
    if !job.turn.is_empty() && job.turn != "normal" {
        terms.push(format!("turn {}", job.turn));
    }
    terms.join(", ")
}

fn attempts(job: &JobView, look: &Look, now: u64) -> String {
    let mut headings =
        vec!["ATTEMPT", "NODE", "GPUS", "STATE", "STARTED", "PROTECTED", "ENDED", "HOW", ">GPU-H"];
    if look.is_wide {
        headings.extend(["PLACED", "DECISION", "DETAIL"]);
    }
    let mut table = Table::new(&headings);
    for attempt in &job.attempts {
        table.row(attempt_row(&words::shown(&job.shown_as, job.job), attempt, look, now));
    }
    table.render()
}

/// What nodes said of the latest attempts, in full; the wide table has it of all.
fn details(job: &JobView, look: &Look) -> String {
    const SHOWN: usize = 3;
    let told = job.attempts.iter().rev().take(SHOWN).rev().filter(|_| !look.is_wide);
    let line = |a: &AttemptView| {
        let mut lines = Vec::new();
        if let (Some(stop), None) = (&a.stop, &a.end) {
            let by = a.stop_at.zip(a.stop_grace_ms).map_or(String::new(), |(at, grace)| {
                format!(", gone by {}", look.zone.clock(at.saturating_add(grace)))
            });
            lines.extend(wrap(&format!("{}{by}", plain(stop)), 80));
        }
        if let Some(paid) = &a.cost {
            let whom = a.taken_for.as_deref().map_or(String::new(), |whom| format!(" for {}", plain(whom)));
            lines.push(format!("gave way{whom}: {}", cost::short(paid)));
        }
        if let Some(detail) = a.detail.as_deref().filter(|detail| !detail.is_empty()) {
            lines.extend(wrap(&plain(detail), 80));
        }
        (!lines.is_empty())
            .then(|| block(&format!("  {}.{}", words::shown(&job.shown_as, job.job), a.attempt), 15, &lines))
    };
    let lines: String = told.filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Returns how an attempt ended, or is being stopped.
pub fn how(a: &AttemptView) -> String {
    match (&a.end, &a.exit, &a.stop) {
        (Some(end), Some(exit), _) if end == "exited" => words::exit(exit),
        // It was told to leave and left: the code says nothing more.
        (Some(end), ..) if end == "preempted" => end.clone(),
        (Some(end), Some(exit), _) => format!("{end}, {}", words::exit(exit)),
        (Some(end), None, _) => end.clone(),
        (None, _, Some(stop)) => stop.clone(),
        (None, _, None) => "-".into(),
    }
}

/// Returns the nodes of an attempt, the first of several and how many more; all of them where there is room.
pub fn nodes(a: &AttemptView, look: &Look) -> String {
    match a.nodes.as_slice() {
        [] | [_] => a.node.clone(),
        nodes if look.is_wide => nodes.join(","),
        [first, rest @ ..] => format!("{first} +{}", rest.len()),
    }
}

fn attempt_row(job: &str, a: &AttemptView, look: &Look, now: u64) -> Vec<String> {
    let at = |moment: Option<u64>| moment.map_or("-".into(), |at| look.zone.short(at, now));
    let (how, nodes) = (how(a), nodes(a, look));
    let mut cells = vec![
        format!("{job}.{}", a.attempt),
        if look.is_wide { nodes } else { cut(&nodes, 12) },
        if a.slots.is_empty() || a.nodes.len() > 1 {
            a.gpus.to_string()
        } else {
            format!("{} ({})", a.gpus, slots(&a.slots))
        },
        a.state.clone(),
        at(a.started_at),
        at(a.protected_until_at),
        at(a.ended_at),
        if look.is_wide { how } else { cut(&how, 20) },
        gpu_time::hours(&a.charged_milli_gpu_ms),
    ];
    if look.is_wide {
        cells.push(look.zone.clock(a.placed_at));
        cells.push(a.decision.clone());
        cells.push(a.detail.clone().unwrap_or_default());
    }
    cells
}
