//! One budget in full.

use proto::v1::{BudgetInPool, BudgetView, ContractDefaults};

use super::words::block;
use crate::form::text::{ordinal, plain};
use crate::form::{duration, gpu_time};
use crate::shell::Look;

/// Renders a budget.
pub fn budget(view: &BudgetView, look: &Look) -> String {
    let mut out = format!("{}{}\n\n", plain(&view.path), if view.closed { " (closed)" } else { "" });
    let mut row = |name: &str, text: String| out.push_str(&block(&format!("  {name}"), 15, &[text]));
    row("owner", view.owner.as_deref().map_or_else(|| "nobody".into(), plain));
    row("owners above", listed(&view.owners_above));
    row("members", listed(&view.members));
    row("members above", listed(&view.members_above));
    row("below it", listed(&view.children));
    row("defaults", defaults(view.defaults.as_ref()));
    for pool in &view.pools {
        out.push('\n');
        out.push_str(&in_pool(pool, view.window_ms));
    }
    if !view.grants.is_empty() {
        out.push('\n');
    }
    let now = view.as_of.as_ref().map_or(0, |as_of| as_of.time_at);
    for grant in &view.grants {
        out.push_str(&format!("  {}\n", super::grant::line(grant, now, look)));
    }
    out.push_str(&format!(
        "\nnext   bursar budget history {0}, bursar budget usage {0}\n",
        plain(&view.path)
    ));
    out
}

fn in_pool(pool: &BudgetInPool, window_ms: u64) -> String {
    let Some(row) = &pool.row else { return String::new() };
    let usage = row.r#use.clone().unwrap_or_default();
    let mut out = format!("  in {}, {}\n", plain(&pool.pool), duration::long(window_ms));
    let mut line = |name: &str, text: String| out.push_str(&block(&format!("    {name}"), 17, &[text]));
    let own = if row.own_ppm == row.with_grants_ppm {
        gpu_time::percent(row.own_ppm)
    } else {
        let (own, with) = (gpu_time::percent(row.own_ppm), gpu_time::percent(row.with_grants_ppm));
        format!("{own}, {with} with grants")
    };
    line("share", format!("{own} of the budget above, {} of all", gpu_time::percent(row.share_ppm)));
    line("allocated", format!("{} GPU-h", gpu_time::hours(&usage.allocation_milli_gpu_ms)));
    line("charged", format!("{} GPU-h", gpu_time::hours(&usage.charged_milli_gpu_ms)));
    line("set aside", format!("{} GPU-h", gpu_time::hours(&usage.set_aside_milli_gpu_ms)));
    line("use", format!("{} (lower goes first)", gpu_time::usage(usage.use_ppm)));
    line("headroom", format!("{} GPU-h", gpu_time::hours(&usage.headroom_milli_gpu_ms)));
    let hours = |gpu_ms: u64| gpu_time::hours_of(i128::from(gpu_ms) * 1000);
    line("free tier", format!("{} GPU-h, not charged", hours(pool.free_tier_gpu_ms)));
    if row.depth > 0 {
        line("goes", format!("{} of {} below the same budget", ordinal(row.goes), pool.siblings));
    }
    line("waiting", format!("{} jobs", row.waiting_jobs));
    line(
        "running",
        format!(
            "{} GPUs: {} protected, {} interruptible, {} free tier",
            row.running_gpus, pool.protected_gpus, pool.interruptible_gpus, pool.free_tier_gpus
        ),
    );
    out
}

fn defaults(defaults: Option<&ContractDefaults>) -> String {
    let Some(of) = defaults else { return "none".into() };
    let mut parts = Vec::new();
    match of.min_runtime_ms {
        Some(0) => parts.push("free tier".into()),
        Some(ms) => parts.push(format!("minimum runtime {}", duration::long(ms))),
        None => {}
    }
    if let Some(resumable) = of.resumable {
        parts.push(if resumable { "resumable".into() } else { "not resumable".into() });
    }
    if let Some(ms) = of.time_limit_ms {
        parts.push(format!("time limit {}", duration::long(ms)));
    }
    if parts.is_empty() { "none: each submission says its minimum runtime".into() } else { parts.join(", ") }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "-".into() } else { plain(&names.join(", ")) }
}
