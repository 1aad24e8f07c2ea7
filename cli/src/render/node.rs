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
    let mut headings = vec![
        "NODE",
        "STATE",
        ">GPUS",
        ">PROTECTED",
        ">INTERRUPTIBLE",
        ">FREE TIER",
        ">IDLE",
        "HEALTH",
        "AGENT",
    ];
    if look.is_wide {
        headings.extend(["POOL", "MODEL", ">CPUS", ">MEMORY", "CONTAINMENT", ">CHANGING", ">UNAVAILABLE"]);
    }
    let mut table = Table::new(&headings);
    for node in &list.nodes {
        let size = |width: usize, text: &str| if look.is_wide { text.into() } else { cut(text, width) };
        let mut cells = vec![
            size(16, &node.name),
            node.state.clone(),
            node.gpus.to_string(),
            node.protected.to_string(),
            node.interruptible.to_string(),
            node.free_tier.to_string(),
            node.idle.to_string(),
            size(16, &health(node)),
            size(8, &node.agent_version),
        ];
        if look.is_wide {
            cells.push(node.pool.clone());
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

/// Renders one node.
pub fn node(node: &NodeView, look: &Look) -> String {
    let now = words::now(node.as_of.as_ref());
    let mut out = format!("{} is {}\n\n", plain(&node.name), node.state.to_uppercase());
    let mut row = |name: &str, text: String| out.push_str(&block(&format!("  {name}"), 15, &[text]));
    row("pool", plain(&node.pool));
    let model = node.gpu_model.as_deref().map_or(String::new(), |model| format!(" {}", plain(model)));
    let simulated = if node.simulated { ", simulated" } else { "" };
    row("GPUs", format!("{}{model}{simulated}", node.gpus));
    row("machine", format!("{}, {}", count(u64::from(node.cpus), "core"), size::show(node.memory_bytes)));
    row("agent", format!("{}, {}", plain(&node.agent_version), containment(node)));
    row("health", if node.trouble.is_empty() { "ok".into() } else { plain(&node.trouble.join("; ")) });
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

fn gpus(gpus: &[GpuView], look: &Look, now: u64) -> String {
    let mut table = Table::new(&[">GPU", "UUID", "MODEL", "STATE", "HOLDING", "UNTIL"]);
    for gpu in gpus {
        table.row([
            gpu.slot.to_string(),
            gpu.uuid.clone(),
            if look.is_wide { gpu.model.clone() } else { cut(&gpu.model, 22) },
            gpu.state.clone(),
            words::tier(&gpu.holding).to_string(),
            gpu.until_at.map_or(String::new(), |at| look.zone.short(at, now)),
        ]);
    }
    table.render()
}

fn health(node: &NodeView) -> String {
    match (&node.alarm, node.trouble.as_slice()) {
        (Some(alarm), _) => alarm.clone(),
        (None, []) => "ok".into(),
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
