//! The budget tree becomes what a file says.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use crate::budget;
use crate::command::{Answer, ApplyBudgets, Code, Outcome, Rejection};
use crate::state::State;

/// Applies a tree, if state still has the one that the difference was shown for.
pub(super) fn apply_budgets(state: &mut State, cx: &Context<'_>, budgets: &ApplyBudgets) -> Answer {
    if budgets.base != state.meta.tree {
        return Err(Rejection::new(
            Code::Stale,
            format!("the plan was made for revision {}, the tree is at {}", budgets.base, state.meta.tree),
            "somebody changed it since; nothing was done",
            String::from("run `bursar budget plan` again"),
        ));
    }
    budget::apply_tree(state, &budgets.root, cx.actor)?;
    Ok(Outcome::BudgetsApplied { revision: state.meta.tree })
}
