//! Changes of the tree: what an edit does, and the history of edits.

use proto::v1::{AuditView, BudgetChange, BudgetPoolEffect, BudgetRowEffect, BudgetShift, EditView};

use super::reach;
use crate::commands::budget_read::HistoryView;
use crate::form::gpu_time;
use crate::form::table::Table;
use crate::form::text::{count, cut, ordinal, plain};
use crate::shell::Look;

/// The most lines about who may take whom, without `-o wide`.
const SHIFTS_SHOWN: usize = 12;

/// Renders what an edit does besides changing the tree.
pub fn effects(pools: &[BudgetPoolEffect], look: &Look) -> String {
    let mut out = String::new();
    for pool in pools {
        out.push_str(&format!("\nwhat that does in {}:\n", plain(&pool.pool)));
        if !pool.rows.is_empty() {
            out.push_str(&rows(&pool.rows, look));
        }
        out.push_str(&shifts(&pool.shifts, look));
        if pool.protected_gpus > 0 {
            let gpus = count(u64::from(pool.protected_gpus), "GPU");
            out.push_str(&format!("  {gpus} with protected work: nothing of that changes\n"));
        }
    }
    out
}

fn rows(rows: &[BudgetRowEffect], look: &Look) -> String {
    let mut table = Table::new(&["BUDGET", ">SHARE", ">USE", ">HEADROOM (GPU-h)", "GOES"]);
    for row in rows {
        let both = |of: &dyn Fn(&proto::v1::BudgetSide) -> String| {
            let side = |side: &Option<proto::v1::BudgetSide>| side.as_ref().map_or_else(|| "-".into(), of);
            let (before, after) = (side(&row.before), side(&row.after));
            if before == after { before } else { format!("{before} -> {after}") }
        };
        let headroom = |side: &proto::v1::BudgetSide| {
            let used = side.r#use.as_ref();
            used.map_or_else(|| "-".into(), |used| gpu_time::hours(&used.headroom_milli_gpu_ms))
        };
        table.row([
            if look.is_wide { row.path.clone() } else { cut(&row.path, 32) },
            both(&|side| gpu_time::percent(side.share_ppm)),
            both(&|side| gpu_time::usage(side.r#use.as_ref().and_then(|used| used.use_ppm))),
            both(&headroom),
            both(&|side| ordinal(side.goes)),
        ]);
    }
    table.render()
}

fn shifts(shifts: &[BudgetShift], look: &Look) -> String {
    let mut out = String::new();
    let shown = if look.is_wide { shifts.len() } else { SHIFTS_SHOWN };
    for shift in shifts.iter().take(shown) {
        let (from, to) = (plain(&shift.from), plain(&shift.to));
        let running = count(u64::from(shift.attempts), "attempt");
        let gpus = count(u64::from(shift.gpus), "GPU");
        let waiting = count(u64::from(shift.waiting_jobs), "waiting job");
        out.push_str(&if shift.may {
            format!("  {running} of {from} past protection ({gpus}) may be taken by {waiting} of {to}\n")
        } else {
            format!(
                "  {running} of {from} past protection ({gpus}) may no more be taken by {waiting} of {to}\n"
            )
        });
    }
    if shifts.len() > shown {
        out.push_str(&format!("  and {} more of these (-o wide)\n", shifts.len() - shown));
    }
    out
}

/// Renders the history of edits.
pub fn history(view: &HistoryView, asked: Option<u64>, look: &Look) -> String {
    let mut out = String::new();
    for edit in &view.to_come {
        out.push_str(&to_come(edit, look));
    }
    for row in &view.rows {
        out.push_str(&entry(row, look));
    }
    if view.to_come.is_empty() && view.rows.is_empty() {
        out.push_str("nothing was changed in this time\n");
    }
    out.push_str(&reach::reach(view.reach.as_ref(), asked, look));
    out
}

fn to_come(edit: &EditView, look: &Look) -> String {
    let when = look.zone.full(edit.at);
    let head =
        format!("to come {when}  edit {} by {}: {}\n", edit.edit, plain(&edit.by), plain(&edit.reason));
    let none = "  changes nothing any more, or does not hold with the tree of now\n".to_owned();
    head + &if edit.changes.is_empty() { none } else { changes(&edit.changes, look) }
}

fn entry(row: &AuditView, look: &Look) -> String {
    let reason = if row.reason.is_empty() { String::new() } else { format!(": {}", plain(&row.reason)) };
    let refused = if row.refused.is_some() { " (refused)" } else { "" };
    let head = format!("{}  {}{refused}{reason}\n", look.zone.full(row.at), plain(&row.actor));
    // The single change is the sentence.
    let about = row.budget.as_deref().map_or_else(String::new, |budget| format!("{}: ", plain(budget)));
    let said = format!("  {about}{}\n", plain(&row.sentence));
    head + &if row.changes.is_empty() { said } else { changes(&row.changes, look) }
}

fn changes(changes: &[BudgetChange], look: &Look) -> String {
    let shown = if look.is_wide { changes.len() } else { SHIFTS_SHOWN };
    let mut out = String::new();
    for change in changes.iter().take(shown) {
        let (kind, path) = (plain(&change.kind), plain(&change.path));
        let none = |text: &str| if text.is_empty() { "-".into() } else { plain(text) };
        out.push_str(&format!("  {kind:<9} {path}: {} -> {}\n", none(&change.before), none(&change.after)));
    }
    if changes.len() > shown {
        out.push_str(&format!("  and {} more (-o wide)\n", changes.len() - shown));
    }
    out
}
