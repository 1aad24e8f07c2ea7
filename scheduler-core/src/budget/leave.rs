//! Closed budgets leave state when there are too many and nothing refers to them any more.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::COUNT_MAX;
use crate::id::BudgetId;
use crate::state::State;

/// If there are more budgets than a tree has at most, takes closed ones out of state that have no jobs, no bills, no
/// grants, no budgets below them, and used nothing in the window. Their GPU time counts with the budget above. A number is never
/// given again.
pub(super) fn closed(state: &mut State) {
    if state.budgets.len() <= COUNT_MAX {
        return;
    }
    let jobs = state.jobs.values().map(|job| job.budget);
    let needed: BTreeSet<BudgetId> = jobs.chain(state.bills.values().map(|bill| bill.budget)).collect();
    let from = state.meta.time.minus(state.meta.settings.window);
    // Children have larger numbers than what they are below, for nothing ever moves.
    let closed: Vec<BudgetId> =
        state.budgets.iter().rev().filter(|(_, budget)| budget.is_closed).map(|(id, _)| *id).collect();
    for id in closed {
        let Some(budget) = state.budgets.get(&id) else { continue };
        let Some(parent) = budget.parent else { continue };
        if needed.contains(&id)
            || !budget.children.is_empty()
            || !budget.slices.is_empty()
            || state.books.has_used(id, from)
        {
            continue;
        }
        state.budgets.remove(&id);
        if let Some(above) = state.budgets.get_mut(&parent) {
            above.children.remove(&id);
        }
        state.books.budget_left(id, parent);
    }
}
