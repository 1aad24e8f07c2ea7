//! The tree of budgets, and the difference between a file's tree and the present one.

use proto::v1::{BudgetPlanReply, BudgetPoolView, BudgetRow, BudgetTreeView};

use crate::form::table::Table;
use crate::form::text::{count, cut, ordinal, plain};
use crate::form::{duration, gpu_time};
use crate::shell::Look;

/// Renders the tree, once for each pool.
pub fn tree(view: &BudgetTreeView, look: &Look) -> String {
    let mut out = String::new();
    for pool in &view.pools {
        out.push_str(&head(view, pool, look));
        out.push_str(&rows(pool, look));
        out.push('\n');
    }
    if view.pools.is_empty() {
        out.push_str("no nodes yet: the tree stands, and its hours come with the first GPU\n");
    }
    out.push_str(
        "USE = charged / allocated in the window. Lower goes first. Free-tier time is not charged.\n",
    );
    out.push_str(&granted(view, look));
    let window = duration::long(view.window_ms);
    out.push_str(&format!("Headroom is not saved up: hours leave the window after {window}, used or not.\n"));
    out
}

fn head(view: &BudgetTreeView, pool: &BudgetPoolView, look: &Look) -> String {
    let until =
        view.as_of.as_ref().map_or(String::new(), |as_of| format!(" to {}", look.zone.day(as_of.time_at)));
    let hours = u128::from(pool.gpus) * u128::from(view.window_ms) * 1000;
    let hours = i128::try_from(hours).map_or_else(|_| "?".into(), gpu_time::hours_of);
    let gpus = count(u64::from(pool.gpus), "GPU");
    format!(
        "{}{until}, {}, {gpus} installed = {hours} GPU-h\n\n",
        duration::long(view.window_ms),
        plain(&pool.pool)
    )
}

fn rows(pool: &BudgetPoolView, look: &Look) -> String {
    let mut headings = vec![
        "BUDGET",
        "OWNER",
        ">SHARE",
        ">ALLOCATED",
        ">CHARGED",
        ">USE",
        ">HEADROOM",
        ">FREE TIER",
        "GOES",
    ];
    if look.is_wide {
        headings.extend([">WAITING", ">RUNNING GPUS", "MEMBERS"]);
    }
    let mut table = Table::new(&headings);
    for (n, row) in pool.rows.iter().enumerate() {
        let usage = row.r#use.clone().unwrap_or_default();
        let charged = gpu_time::sum(&usage.charged_milli_gpu_ms, &usage.set_aside_milli_gpu_ms)
            .map_or_else(|| "?".into(), gpu_time::hours_of);
        let name =
            format!("{}{}{}", branch(&pool.rows, n), row.name, if row.closed { " (closed)" } else { "" });
        let owner = row.owner.clone().unwrap_or_else(|| "-".into());
        let mut cells = vec![
            if look.is_wide { name } else { cut(&name, 24) },
            if look.is_wide { owner } else { cut(&owner, 10) },
            share(row),
            gpu_time::hours(&usage.allocation_milli_gpu_ms),
            charged,
            gpu_time::usage(usage.use_ppm),
            gpu_time::hours(&usage.headroom_milli_gpu_ms),
            gpu_time::hours(&row.free_tier_milli_gpu_ms),
            goes(row),
        ];
        if look.is_wide {
            cells.push(row.waiting_jobs.to_string());
            cells.push(row.running_gpus.to_string());
            cells.push(row.members.join(", "));
        }
        table.row(cells);
    }
    table.render()
}

/// The product of the shares; marked where grants are in it.
fn share(row: &BudgetRow) -> String {
    let mark = if row.own_ppm == row.with_grants_ppm { "" } else { "*" };
    format!("{mark}{}", gpu_time::percent(row.share_ppm))
}

/// Says which grants run and will, under the tree.
fn granted(view: &BudgetTreeView, look: &Look) -> String {
    let now = view.as_of.as_ref().map_or(0, |as_of| as_of.time_at);
    let open = view.grants.iter().filter(|grant| grant.state != "over");
    open.map(|grant| {
        let mark = if grant.state == "on" { "* " } else { "  " };
        format!("{mark}{}\n", super::grant::line(grant, now, look))
    })
    .collect()
}

fn goes(row: &BudgetRow) -> String {
    if row.depth == 0 || row.goes == 0 {
        return String::new();
    }
    let indent = usize::try_from(row.depth.saturating_sub(1)).unwrap_or(0) * 2;
    format!("{}{}", " ".repeat(indent), ordinal(row.goes))
}

/// Returns the branch that leads to a row: whether a sibling follows at each level above decides its strokes.
fn branch(rows: &[BudgetRow], n: usize) -> String {
    // A part of the tree is drawn as a tree of its own.
    let base = rows.first().map_or(0, |row| row.depth);
    let depth = rows[n].depth;
    let follows =
        |level: u32| rows[n + 1..].iter().take_while(|row| row.depth >= level).any(|row| row.depth == level);
    let mut out: String = (base + 1..depth).map(|level| if follows(level) { "│ " } else { "  " }).collect();
    if depth > base {
        out.push_str(if follows(depth) { "├ " } else { "└ " });
    }
    out
}

/// Renders the difference between a file's tree and the present one.
pub fn plan(plan: &BudgetPlanReply, look: &Look) -> String {
    if plan.changes.is_empty() {
        return "no difference: the tree is as the file says\n".into();
    }
    let mut table = Table::new(&["CHANGE", "BUDGET", "BEFORE", "AFTER"]);
    for change in &plan.changes {
        let size = |width: usize, text: &str| if look.is_wide { text.into() } else { cut(text, width) };
        table.row([
            change.kind.clone(),
            size(32, &change.path),
            size(24, &change.before),
            size(24, &change.after),
        ]);
    }
    let changes = count(u64::try_from(plan.changes.len()).unwrap_or(u64::MAX), "change");
    let effects = super::budget_edit::effects(&plan.effects, look);
    format!(
        "{}{effects}\n{changes} to revision {}. Takes effect on the order at once; takes no protection back.\n",
        table.render(),
        plan.revision
    )
}
