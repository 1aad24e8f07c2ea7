//! What a share is worth: the capacity over the window, divided level by level.
//!
//! A share that was edited counts as if it had always been so; a grant counts over its own time alone. So the window is
//! cut where a grant on the path begins or ends, and each piece is divided by the shares that hold in it.

use alloc::vec::Vec;

use super::PoolBooks;
use super::pool::part_of;
use crate::budget::Budget;
use crate::id::{BudgetId, Name};
use crate::table::Table;
use crate::unit::{ChargeMillis, Span, Timestamp};

/// Returns what a budget's share is worth in the window; nothing if it isn't in the tree.
pub(super) fn allocation(
    books: &PoolBooks,
    budget: BudgetId,
    (tree, pool): (&Table<BudgetId, Budget>, &Name),
    window: Span,
    now: Timestamp,
) -> ChargeMillis {
    let Some(path) = path(budget, tree) else {
        return ChargeMillis::ZERO;
    };
    let whole = books.capacity(window, now);
    let mut worth = 0;
    let (mut from, mut before) = (now.minus(window), 0);
    let changes =
        path.iter().flat_map(|budget| &budget.slices).flat_map(|slice| [slice.begins_at, slice.until]);
    for cut in cuts(changes, from, now) {
        let upto = if cut == now { whole.get() } else { books.capacity_before(cut, window, now) };
        let piece = ChargeMillis::new(upto.saturating_sub(before));
        worth += path.iter().fold(piece, |part, budget| part_of(part, budget.share_in(pool, from))).get();
        (from, before) = (cut, upto);
    }
    ChargeMillis::new(worth)
}

/// Returns what a share was worth between two moments, in milli-GPU-milliseconds: of the GPUs in service then, with the
/// shares and the grants that held then.
pub(super) fn between(
    books: &PoolBooks,
    budget: BudgetId,
    (tree, pool): (&Table<BudgetId, Budget>, &Name),
    (mut from, to): (Timestamp, Timestamp),
) -> u128 {
    let Some(path) = path(budget, tree) else { return 0 };
    let grants =
        path.iter().flat_map(|budget| &budget.slices).flat_map(|slice| [slice.begins_at, slice.until]);
    let edits = path.iter().flat_map(|budget| &budget.was).map(|was| was.until);
    let mut worth = 0;
    for cut in cuts(grants.chain(edits), from, to) {
        let piece = ChargeMillis::new(books.in_service_between(from, cut) * 1000);
        worth += path.iter().fold(piece, |part, budget| part_of(part, budget.share_then(pool, from))).get();
        from = cut;
    }
    worth
}

/// Returns a budget's share, as it is at a moment, of `whole` of a pool, rounded down level by level; nothing if it isn't
/// in the tree.
#[must_use]
pub fn part_now(
    budget: BudgetId,
    (tree, pool): (&Table<BudgetId, Budget>, &Name),
    whole: u64,
    now: Timestamp,
) -> u64 {
    let Some(path) = path(budget, tree) else { return 0 };
    let whole = ChargeMillis::new(whole.into());
    let part = path.iter().fold(whole, |part, budget| part_of(part, budget.share_in(pool, now)));
    u64::try_from(part.get()).unwrap_or(u64::MAX)
}

/// Returns the budgets from the root down; none if one is not in the tree.
fn path(budget: BudgetId, tree: &Table<BudgetId, Budget>) -> Option<Vec<&Budget>> {
    let mut path: Vec<&Budget> = Vec::new();
    let mut at = Some(budget);
    while let Some(id) = at {
        let record = tree.get(&id)?;
        path.push(record);
        at = record.parent;
    }
    path.reverse();
    Some(path)
}

/// Returns the moments between two others at which something changes, and the last of them.
fn cuts(changes: impl Iterator<Item = Timestamp>, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
    let mut cuts: Vec<Timestamp> = changes.filter(|at| from < *at && *at < to).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.push(to);
    cuts
}
