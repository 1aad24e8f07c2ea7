//! What could start: idle GPUs, what becomes free when, and the largest job.

use proto::v1::{CapacityView, NodeShape, PoolCapacity, ProtectionEnd};

use super::words;
use crate::form::table::Table;
use crate::form::text::{count, plain};
use crate::shell::Look;

/// How many ends of protection the narrow screen shows for a pool.
const ENDS_SHOWN: usize = 5;

/// Renders it.
pub fn capacity(view: &CapacityView, look: &Look) -> String {
    let now = words::now(view.as_of.as_ref());
    if view.pools.is_empty() {
        return "no nodes yet: `bursar node token NAME` makes a token for one to join with\n".into();
    }
    let mut out = String::new();
    for pool in &view.pools {
        if let Some(gpus) = &pool.gpus {
            out.push_str(&words::pool(gpus));
            out.push('\n');
        }
    }
    out.push_str(&words::as_of(view.as_of.as_ref(), look));
    out.push_str("\nthe largest job for which there is room, in GPUs:\n");
    let mut table = Table::new(&["POOL", ">ON IDLE GPUS", ">ON ALL UNPROTECTED", ">IN 1 H", ">IN 8 H"]);
    for pool in &view.pools {
        table.row([
            name(pool),
            pool.largest_idle.to_string(),
            pool.largest_now.to_string(),
            pool.largest_in_1h.to_string(),
            pool.largest_in_8h.to_string(),
        ]);
    }
    out.push_str(&table.render());
    for pool in &view.pools {
        out.push('\n');
        out.push_str(&of_pool(pool, look, now));
    }
    out.push_str(
        "\nRoom is not a right: who goes for whom, the budgets decide. `bursar plan FILE` tries a job.\n",
    );
    out
}

fn name(pool: &PoolCapacity) -> String {
    pool.gpus.as_ref().map_or(String::new(), |gpus| gpus.name.clone())
}

fn of_pool(pool: &PoolCapacity, look: &Look, now: u64) -> String {
    let name = plain(&name(pool));
    let mut out = format!("{name}, idle\n");
    if pool.nodes.is_empty() {
        out.push_str("  none\n");
    }
    pool.nodes.iter().for_each(|nodes| out.push_str(&format!("  {}\n", shape(nodes))));
    if pool.next_ends.is_empty() {
        return out;
    }
    out.push_str(&format!("{name}, next ends of protection\n"));
    let shown = if look.is_wide { pool.next_ends.len() } else { ENDS_SHOWN };
    pool.next_ends.iter().take(shown).for_each(|end| out.push_str(&format!("  {}\n", ends(end, look, now))));
    let left = pool.next_ends.len().saturating_sub(shown);
    if left > 0 {
        out.push_str(&format!("  and {left} more: -o wide\n"));
    }
    out
}

fn shape(shape: &NodeShape) -> String {
    let nodes = count(u64::from(shape.nodes), "node");
    format!("{nodes} with {} of {} idle", shape.idle, count(u64::from(shape.gpus), "GPU"))
}

fn ends(end: &ProtectionEnd, look: &Look, now: u64) -> String {
    let gpus = count(u64::from(end.gpus), "GPU");
    format!("{}  {}, {gpus}, {}", look.zone.short(end.at, now), plain(&end.attempt), plain(&end.budget))
}
