//! The budget tree becomes what a file says; budgets get share for a time.

use alloc::format;
use alloc::string::String;

use super::context::Context;
use super::entry::DONE;
use super::rights;
use crate::budget;
use crate::command::{Answer, ApplyBudgets, CancelEdit, Code, EndGrant, GrantShare, Outcome, Rejection};
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
    if let Some(at) = budgets.at.filter(|at| *at > cx.now) {
        let who = rights::person(state, cx)?.0.clone();
        let edit = budget::plan_edit(state, budgets, at, (cx.actor, &who), cx.now)?;
        return Ok(Outcome::EditPlanned { edit });
    }
    budget::apply_tree(state, &budgets.root, cx.actor)?;
    Ok(Outcome::BudgetsApplied { revision: state.meta.tree })
}

/// Takes an edit back whose time has not come.
pub(super) fn cancel_edit(state: &mut State, cx: &Context<'_>, cancel: &CancelEdit) -> Answer {
    let who = rights::person(state, cx)?.0.clone();
    budget::cancel_edit(state, cancel.edit, &who, &cancel.reason, cx.now)?;
    DONE
}

/// Gives a budget more share for a time.
pub(super) fn grant(state: &mut State, cx: &Context<'_>, asked: &GrantShare) -> Answer {
    let who = rights::person(state, cx)?.0.clone();
    let grant = budget::grant(state, asked, (cx.actor, &who), cx.now)?;
    Ok(Outcome::Granted { grant })
}

/// Ends a grant early, or takes it back before it begins.
pub(super) fn end_grant(state: &mut State, cx: &Context<'_>, end: &EndGrant) -> Answer {
    let who = rights::person(state, cx)?.0.clone();
    budget::end_grant(state, end.grant, (cx.actor, &who), &end.reason, cx.now)?;
    DONE
}
