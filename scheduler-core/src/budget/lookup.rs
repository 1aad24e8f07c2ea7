//! Questions to the tree.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::rights::is_member;
use super::suggest::nearest;
use super::{Budget, ROOT, TreeNode};
use crate::command::{Code, Rejection};
use crate::id::{BudgetId, BudgetPath, Name};
use crate::spec::ContractDefaults;
use crate::state::State;
use crate::unit::Share;

/// Returns the ids from the root down to `id`, both included; empty for an unknown one.
#[must_use]
pub fn path(state: &State, id: BudgetId) -> Vec<BudgetId> {
    let mut ids = Vec::new();
    let mut at = Some(id);
    while let Some(id) = at
        && let Some(budget) = state.budgets.get(&id)
    {
        ids.push(id);
        at = budget.parent;
    }
    ids.reverse();
    ids
}

/// Returns the path of names from below the root; the root's own is empty.
#[must_use]
pub fn path_of(state: &State, id: BudgetId) -> BudgetPath {
    let below = path(state, id).into_iter().skip(1);
    BudgetPath::new(below.filter_map(|id| state.budgets.get(&id)).map(|b| b.name.clone()).collect())
}

/// Returns what people call it: its path, or the root's name.
#[must_use]
pub fn label(state: &State, id: BudgetId) -> String {
    match state.budgets.get(&id) {
        Some(budget) if budget.parent.is_none() => budget.name.to_string(),
        Some(_) => path_of(state, id).to_string(),
        None => format!("#{id}"),
    }
}

/// Returns the budget at a path, with or without the root's name in front; closed ones too.
#[must_use]
pub fn find(state: &State, text: &str) -> Option<BudgetId> {
    let root = state.budgets.get(&ROOT)?;
    descend(state, text).or_else(|| match text.split_once('/') {
        Some((first, rest)) if first == root.name.as_str() => descend(state, rest),
        None if text == root.name.as_str() => Some(ROOT),
        Some(_) | None => None,
    })
}

/// Returns the budget at a path, closed ones too.
///
/// # Errors
/// When there is none; the refusal says which may be meant.
pub fn named(state: &State, text: &str) -> Result<BudgetId, Rejection> {
    find(state, text).ok_or_else(|| {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        let fix = match nearest(state, text) {
            Some(near) => format!("did you mean `{near}`? `bursar budget tree` shows all"),
            None => String::from("`bursar budget tree` shows all"),
        };
        Rejection::new(Code::UnknownBudget, format!("there is no budget `{shown}`"), "", fix)
    })
}

fn descend(state: &State, text: &str) -> Option<BudgetId> {
    text.split('/').try_fold(ROOT, |at, level| child(state, at, level))
}

fn child(state: &State, parent: BudgetId, name: &str) -> Option<BudgetId> {
    let is_named = |id: &BudgetId| state.budgets.get(id).is_some_and(|b| b.name.as_str() == name);
    state.budgets.get(&parent)?.children.iter().copied().find(is_named)
}

/// Returns the children of a budget by name, closed ones too: for walks over whole trees.
pub(super) fn children_by_name<'a>(state: &'a State, budget: &Budget) -> BTreeMap<&'a Name, BudgetId> {
    let named = |id: &BudgetId| Some((&state.budgets.get(id)?.name, *id));
    budget.children.iter().filter_map(named).collect()
}

/// Whether jobs may be submitted to it, if it is open: it has no children, not even closed ones.
#[must_use]
pub fn is_leaf(state: &State, id: BudgetId) -> bool {
    state.budgets.get(&id).is_some_and(|budget| budget.children.is_empty())
}

/// Returns the leaf that a submission by `who` names.
///
/// # Errors
/// When it is unknown, closed, not a leaf, or `who` is no member: each with the way out.
pub fn for_submission(state: &State, text: &str, who: &Name) -> Result<BudgetId, Rejection> {
    let Some((id, budget)) = find(state, text).and_then(|id| Some((id, state.budgets.get(&id)?))) else {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
        let fix = match nearest(state, text) {
            Some(near) => format!("did you mean `{near}`?"),
            None => String::from("`bursar budget tree` lists them"),
        };
        return Err(Rejection::new(Code::UnknownBudget, format!("there is no budget `{shown}`"), "", fix));
    };
    let name = label(state, id);
    if path(state, id).iter().any(|id| state.budgets.get(id).is_some_and(|b| b.is_closed)) {
        let what = format!("budget `{name}` is closed");
        return Err(Rejection::new(
            Code::ClosedBudget,
            what,
            "it lets work finish and takes none",
            String::from("submit to another budget; `bursar budget tree` lists them"),
        ));
    }
    if !is_leaf(state, id) {
        let open: Vec<String> =
            open_children(state, budget).map(|(id, _)| label(state, id)).take(5).collect();
        let fix = match open.as_slice() {
            [] => String::from("its children are closed; submit to another budget"),
            some => format!("name one below it, such as `{}`", some.join("`, `")),
        };
        let what = format!("budget `{name}` has budgets below it");
        return Err(Rejection::new(Code::InnerBudget, what, "jobs are submitted to leaves", fix));
    }
    if !is_member(state, who, id) {
        let owner = path(state, id).iter().rev().find_map(|id| state.budgets.get(id)?.owner.clone());
        let fix = match owner {
            Some(owner) => format!("ask `{owner}`, who owns it, or submit to a budget of yours"),
            None => String::from("submit to a budget of yours"),
        };
        let what = format!("`{who}` is not a member of budget `{name}` or of one above it");
        return Err(Rejection::new(Code::NotAllowed, what, "members submit", fix));
    }
    Ok(id)
}

/// Returns what a submission to `id` takes where it says nothing itself: for each term, the nearest level up the path.
#[must_use]
pub fn defaults(state: &State, id: BudgetId) -> ContractDefaults {
    let mut found = ContractDefaults::default();
    for budget in path(state, id).iter().rev().filter_map(|id| state.budgets.get(id)) {
        found.min_runtime = found.min_runtime.or(budget.defaults.min_runtime);
        found.resumable = found.resumable.or(budget.defaults.resumable);
        found.time_limit = found.time_limit.or(budget.defaults.time_limit);
    }
    found
}

/// Returns the product of shares up to the root, with the grants of this moment, rounded down at each level, for
/// screens.
#[must_use]
pub fn effective_share(state: &State, id: BudgetId) -> Share {
    let budgets = path(state, id).into_iter().filter_map(|id| state.budgets.get(&id));
    budgets.map(|budget| budget.share_at(state.meta.time)).fold(Share::WHOLE, Share::of)
}

/// Whether a share of zero is on its path in every pool, and no grant adds to it now: then its jobs go after everyone
/// else's and can have no protection.
#[must_use]
pub fn is_worth_nothing(state: &State, id: BudgetId) -> bool {
    let now = state.meta.time;
    let budgets: Vec<&Budget> = path(state, id).iter().filter_map(|id| state.budgets.get(id)).collect();
    let has_zero = |of: &dyn Fn(&Budget) -> Share| budgets.iter().any(|budget| of(budget).ppm() == 0);
    let pools = state.books.pools();
    if pools.is_empty() {
        return has_zero(&|budget| budget.share_at(now));
    }
    pools.keys().all(|pool| has_zero(&|budget| budget.share_in(pool, now)))
}

/// Returns the tree of open budgets as a file would say it; none before the founding.
#[must_use]
pub fn tree(state: &State) -> Option<TreeNode> {
    state.budgets.get(&ROOT).map(|root| node(state, root))
}

fn node(state: &State, budget: &Budget) -> TreeNode {
    TreeNode {
        name: budget.name.clone(),
        share: budget.share,
        pools: budget.pools.clone(),
        owner: budget.owner.clone(),
        members: budget.members.clone(),
        defaults: budget.defaults.clone(),
        children: open_children(state, budget).map(|(_, child)| node(state, child)).collect(),
    }
}

pub(super) fn open_children<'a>(
    state: &'a State,
    budget: &'a Budget,
) -> impl Iterator<Item = (BudgetId, &'a Budget)> {
    let record = |id: &BudgetId| Some((*id, state.budgets.get(id)?));
    budget.children.iter().filter_map(record).filter(|(_, child)| !child.is_closed)
}
