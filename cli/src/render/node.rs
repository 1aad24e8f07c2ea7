//! Machines with GPUs.

use proto::v1::{GpuView, NodeList, NodeView};

use super::words::{self, block};
use crate::form::size;
use crate::form::table::Table;
use crate::form::text::{count, cut, plain};
use crate::shell::Look;

/// Renders a list of nodes.
pub fn nodes(list: &NodeList, look: &Look) -> String {
    if list.nodes.is_empty() {
        return "no nodes yet: `bursar node token NAME` makes a token for one to join with\n".into();
    }
    let now = words::now(list.as_of.as_ref());
    let mut out = String::new();
    for fit in FITS {
        out = nodes_in(list, look, now, fit);
        if look.is_wide || out.lines().all(|line| line.chars().count() <= COLUMNS) {
            break;
        }
    }
    out
}

/// Columns of a terminal that no screen goes beyond.
const COLUMNS: usize = 100;

/// How wide names and health may be, and whether there is room for the agents' versions.
struct Fit {
    name: usize,
    health: usize,
    has_agent: bool,
}

/// Tried in order until the table fits.
const FITS: [Fit; 4] = [
    Fit { name: 16, health: 24, has_agent: true },
    Fit { name: 12, health: 16, has_agent: true },
    Fit { name: 12, health: 14, has_agent: false },
    Fit { name: 8, health: 8, has_agent: false },
];

fn nodes_in(list: &NodeList, look: &Look, now: u64, fit: Fit) -> String {
    let mut headings = vec![
        "NODE",
        "STATE",
        ">GPUS",
        ">PROTECTED",
        ">INTERRUPTIBLE",
        ">FREE TIER",
        ">IDLE",
        "EMPTY BY",
        "HEALTH",
    ];
    let has_agent = fit.has_agent || look.is_wide;
    if has_agent {
        headings.push("AGENT");
    }
    if look.is_wide {
        headings.extend([
            "POOL",
            "IN",
            "MODEL",
            ">CPUS",
            ">MEMORY",
            "CONTAINMENT",
            ">CHANGING",
            ">UNAVAILABLE",
        ]);
    }
    let mut table = Table::new(&headings);
    for node in &list.nodes {
        let size = |width: usize, text: &str| if look.is_wide { text.into() } else { cut(text, width) };
        let mut cells = vec![
            size(fit.name, &node.name),
            node.state.clone(),
            node.gpus.to_string(),
            node.protected.to_string(),
            node.interruptible.to_string(),
            node.free_tier.to_string(),
            node.idle.to_string(),
            empty_by(node, look, now),
            size(fit.health, &health(node)),
        ];
        if has_agent {
            cells.push(size(8, &node.agent_version));
        }
        if look.is_wide {
            cells.push(node.pool.clone());
            cells.push(node.topology.clone());
            cells.push(node.gpu_model.clone().unwrap_or_default());
            cells.push(node.cpus.to_string());
            cells.push(size::show(node.memory_bytes));
            cells.push(containment(node).into());
            cells.push(node.changing.to_string());
            cells.push(node.unavailable.to_string());
        }
        table.row(cells);
    }
    table.render()
}

/// Returns when the node is empty at the latest, if it is drained as it is, or would be from now on.
fn empty_by(node: &NodeView, look: &Look, now: u64) -> String {
    match node.empty_by_at {
        Some(at) if at <= now => "now".into(),
        Some(at) => look.zone.short(at, now),
        None if node.drain_reason.is_some() => "?".into(),
        None => "-".into(),
    }
}

/// Renders one node.
pub fn node(node: &NodeView, look: &Look) -> String {
    let now = words::now(node.as_of.as_ref());
    let mut out = format!("{} is {}\n\n", plain(&node.name), node.state.to_uppercase());
    let mut row = |name: &str, text: String| out.push_str(&block(&format!("  {name}"), 15, &[text]));
    row("pool", plain(&node.pool));
    if !node.cluster.is_empty() && node.cluster != node.pool {
        row("cluster", plain(&node.cluster));
    }
    if !node.topology.is_empty() {
        row("in", plain(&node.topology));
    }
    let model = node.gpu_model.as_deref().map_or(String::new(), |model| format!(" {}", plain(model)));
    let simulated = if node.simulated { ", simulated" } else { "" };
    row("GPUs", format!("{}{model}{simulated}", node.gpus));
    row("machine", format!("{}, {}", count(u64::from(node.cpus), "core"), size::show(node.memory_bytes)));
    row("agent", format!("{}, {}", plain(&node.agent_version), containment(node)));
    row("health", if node.trouble.is_empty() { "ok".into() } else { plain(&node.trouble.join("; ")) });
    for (name, text) in closed(node, look, now) {
        row(name, text);
    }
    if let Some(since) = node.unreachable_since_at {
        row(
            "unreachable",
            format!("since {}; its jobs keep their GPUs until it is heard", look.zone.short(since, now)),
        );
    }
    if let Some(until) = node.backoff_until_at {
        row("backing off", format!("after a failed launch, until {}", look.zone.clock(until)));
    }
    if let Some(alarm) = &node.alarm {
        row("alarm", plain(alarm));
    }
    if look.is_wide {
        row("machine id", plain(&node.machine));
        row("boot", plain(&node.boot));
    }
    if !node.gpu_list.is_empty() {
        out.push('\n');
        out.push_str(&gpus(&node.gpu_list, look, now));
    }
    out
}

/// Returns why no new work comes, and when the node is empty.
fn closed(node: &NodeView, look: &Look, now: u64) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let Some(reason) = &node.cordon_reason {
        let who = node.cordoned_by.as_deref().unwrap_or("the control plane");
        let since =
            node.cordoned_since_at.map_or(String::new(), |at| format!(" since {}", look.zone.short(at, now)));
        rows.push(("cordoned", format!("by {}{since}: {}", plain(who), plain(reason))));
    }
    if let Some(reason) = &node.drain_reason {
        let who = node.drained_by.as_deref().unwrap_or("an operator");
        let from = match node.drain_begins_at {
            Some(at) if at > now => format!(", from {}", look.zone.short(at, now)),
            _ => String::new(),
        };
        rows.push(("drained", format!("by {}{from}: {}", plain(who), plain(reason))));
    }
    if node.drain_reason.is_some() {
        rows.push(("empty by", empty_by(node, look, now)));
    }
    rows
}

fn gpus(gpus: &[GpuView], look: &Look, now: u64) -> String {
    let has_next = gpus.iter().any(|gpu| gpu.next.is_some());
    let mut headings = vec![">GPU", "UUID", "MODEL", "STATE", "HOLDING", "UNTIL"];
    if has_next {
        headings.push("NEXT");
    }
    let mut table = Table::new(&headings);
    for gpu in gpus {
        let mut cells = vec![
            gpu.slot.to_string(),
            gpu.uuid.clone(),
            if look.is_wide { gpu.model.clone() } else { cut(&gpu.model, if has_next { 12 } else { 22 }) },
            gpu.state.clone(),
            words::tier(&gpu.holding).to_string(),
            gpu.until_at.map_or(String::new(), |at| look.zone.short(at, now)),
        ];
        if has_next {
            cells.push(gpu.next.clone().unwrap_or_default());
        }
        table.row(cells);
    }
    table.render()
}

fn health(node: &NodeView) -> String {
    match (&node.alarm, node.trouble.as_slice()) {
        (Some(alarm), _) => alarm.clone(),
        (None, []) => match node.cordon_reason.as_ref().or(node.drain_reason.as_ref()) {
            Some(reason) => reason.clone(),
            None => "ok".into(),
        },
        (None, [one]) => one.clone(),
        (None, [first, rest @ ..]) => format!("{first} (+{})", rest.len()),
    }
}

/// Returns how the node proves that processes are gone; the weaker way says so.
fn containment(node: &NodeView) -> &str {
    match node.containment.as_str() {
        "tree" => "process tree (weaker than cgroup)",
        other => other,
    }
}
