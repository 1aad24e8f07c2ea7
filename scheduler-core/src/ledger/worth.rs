//! What a share is worth: the capacity over the window, divided level by level.
//!
//! A share that was edited counts as if it had always been so; a grant counts over its own time alone. So the window is
//! cut where a grant on the path begins or ends, and each piece is divided by the shares that hold in it.

use alloc::vec::Vec;

use super::PoolBooks;
use super::pool::part_of;
use crate::budget::Budget;
use crate::id::BudgetId;
use crate::table::Table;
use crate::unit::{ChargeMillis, Span, Timestamp};

/// Returns what a budget's share is worth in the window; nothing if it isn't in the tree.
pub(super) fn allocation(
    books: &PoolBooks,
    budget: BudgetId,
    tree: &Table<BudgetId, Budget>,
    window: Span,
    now: Timestamp,
) -> ChargeMillis {
    let mut path: Vec<&Budget> = Vec::new();
    let mut at = Some(budget);
    while let Some(id) = at {
        let Some(record) = tree.get(&id) else {
            return ChargeMillis::ZERO;
        };
        path.push(record);
        at = record.parent;
    }
    path.reverse();
    let whole = books.capacity(window, now);
    let mut worth = 0;
    let (mut from, mut before) = (now.minus(window), 0);
    for cut in cuts(&path, from, now) {
        let upto = if cut == now { whole.get() } else { books.capacity_before(cut, window, now) };
        let piece = ChargeMillis::new(upto.saturating_sub(before));
        worth += path.iter().fold(piece, |part, budget| part_of(part, budget.share_at(from))).get();
        (from, before) = (cut, upto);
    }
    ChargeMillis::new(worth)
}

/// Returns the moments in the window at which a share on the path changes by a grant, and `now` behind them.
fn cuts(path: &[&Budget], from: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    let slices = path.iter().flat_map(|budget| &budget.slices);
    let moments = slices.flat_map(|slice| [slice.begins_at, slice.until]);
    let mut cuts: Vec<Timestamp> = moments.filter(|at| from < *at && *at < now).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.push(now);
    cuts
}
