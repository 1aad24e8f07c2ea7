//! Changes of the tree in state.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::diff::{Change, diff};
use super::lookup::{children_by_name, open_children};
use super::{Budget, KEPT_MAX, ROOT, TreeNode, fit, grant, leave, may_edit};
use crate::command::{Code, Rejection};
use crate::id::{BudgetId, Name, Revision};
use crate::principal::Actor;
use crate::state::State;
use crate::unit::{Share, Span, Timestamp};

/// Former shares are kept this much longer than the window: hours that it cuts are told whole.
const WAS_SLACK: Span = Span::from_hours(2);

/// Makes the root of a new tree.
pub fn found(state: &mut State, name: Name, owner: Name) {
    let root = Budget { owner: Some(owner), ..Budget::new(name, None, Share::WHOLE) };
    state.budgets.insert(ROOT, root);
    state.meta.next_budget = BudgetId::new(ROOT.get() + 1);
    state.meta.tree = Revision::new(1);
}

/// Makes the tree in state what `file` says and returns what changed. If anything did, the tree has a new revision. A
/// budget that the file leaves out is closed and worth nothing; one that it names again is reopened.
///
/// # Errors
/// When the file is no tree, or `actor` may not make one of the changes; then nothing has changed.
pub fn apply_tree(state: &mut State, file: &TreeNode, actor: &Actor) -> Result<Vec<Change>, Rejection> {
    apply_tree_at(state, file, actor, state.meta.time)
}

/// The same at a moment that state has not come to yet, but for the timers before it.
pub(super) fn apply_tree_at(
    state: &mut State,
    file: &TreeNode,
    actor: &Actor,
    now: Timestamp,
) -> Result<Vec<Change>, Rejection> {
    let changes = may_change(state, file, actor)?;
    if !changes.is_empty() {
        *state = changed(state, file, now)?;
    }
    Ok(changes)
}

/// Returns what would change if the tree became `file`.
///
/// # Errors
/// When the file is no tree, or `actor` may not make one of the changes.
pub(super) fn may_change(state: &State, file: &TreeNode, actor: &Actor) -> Result<Vec<Change>, Rejection> {
    let changes = diff(state, file)?;
    changes.iter().try_for_each(|change| check_right(state, actor, change))?;
    Ok(changes)
}

/// Returns the state with the tree that `file` says, whoever asks.
///
/// # Errors
/// When the file is no tree, a grant would not fit any more, or there would be too many budgets.
pub fn edited(state: &State, file: &TreeNode, now: Timestamp) -> Result<State, Rejection> {
    if diff(state, file)?.is_empty() { Ok(state.clone()) } else { changed(state, file, now) }
}

fn changed(state: &State, file: &TreeNode, now: Timestamp) -> Result<State, Rejection> {
    let mut next = state.clone();
    if let Some(root) = next.budgets.get_mut(&ROOT) {
        root.name = file.name.clone();
    }
    let oldest = now.minus(state.meta.settings.window).minus(WAS_SLACK);
    update(&mut next, ROOT, file, (now, oldest));
    grant::end_of_closed(&mut next, now);
    fit::check_all(&next, now)?;
    leave::closed(&mut next);
    if next.budgets.len() > KEPT_MAX {
        return Err(too_many(&next));
    }
    next.meta.tree = Revision::new(state.meta.tree.get() + 1);
    Ok(next)
}

fn too_many(state: &State) -> Rejection {
    let kept = state.budgets.len();
    let closed = state.budgets.values().filter(|budget| budget.is_closed).count();
    Rejection::new(
        Code::Full,
        format!("there would be {kept} budgets, {closed} of them closed; at most {KEPT_MAX}"),
        "a closed budget leaves when its work has ended and its charge is older than the window",
        String::from("use names again that were in the tree, or change it later"),
    )
}

fn check_right(state: &State, actor: &Actor, change: &Change) -> Result<(), Rejection> {
    // A new budget is below `above`, so `above`'s own owner may open it; an existing one is judged by itself.
    let is_allowed = match (change.id, actor) {
        (Some(id), actor) => may_edit(state, actor, id),
        (None, Actor::Principal(who)) => {
            super::owns(state, who, change.above) || super::is_operator(state, who)
        }
        (None, Actor::Agent(_) | Actor::Replica(_)) => false,
    };
    if is_allowed {
        Ok(())
    } else {
        Err(not_allowed(state, actor, &change.budget, change.above, &change.what))
    }
}

/// Refuses whoever may not change an existing budget; `what` it would be.
pub(super) fn check_may_edit(
    state: &State,
    actor: &Actor,
    id: BudgetId,
    what: &dyn fmt::Display,
) -> Result<(), Rejection> {
    if may_edit(state, actor, id) {
        return Ok(());
    }
    let above = state.budgets.get(&id).and_then(|budget| budget.parent).unwrap_or(ROOT);
    Err(not_allowed(state, actor, &super::label(state, id), above, what))
}

fn not_allowed(
    state: &State,
    actor: &Actor,
    budget: &str,
    above: BudgetId,
    what: &dyn fmt::Display,
) -> Rejection {
    let who = match actor {
        Actor::Principal(name) => format!("`{name}`"),
        Actor::Agent(_) | Actor::Replica(_) => String::from("a machine"),
    };
    let above = super::label(state, above);
    let what = format!("{who} may not change budget `{budget}` ({what})");
    let why = "an owner edits what is below, never its own budget";
    let fix = format!("ask the owner of `{above}` or of one above it, or an operator");
    Rejection::new(Code::NotAllowed, what, why, fix)
}

fn update(state: &mut State, id: BudgetId, file: &TreeNode, when: (Timestamp, Timestamp)) {
    let budget = state.budgets.get_mut(&id).expect("the caller found it or made it");
    budget.set_shares(file.share, &file.pools, when);
    budget.owner.clone_from(&file.owner);
    budget.members.clone_from(&file.members);
    budget.defaults = file.defaults.clone();
    budget.is_closed = false;
    let stays: BTreeSet<&Name> = file.children.iter().map(|child| &child.name).collect();
    let budget = state.budgets.get(&id).expect("the caller found it or made it");
    let existing: BTreeMap<Name, BudgetId> =
        children_by_name(state, budget).into_iter().map(|(name, id)| (name.clone(), id)).collect();
    for (_, child) in existing.iter().filter(|(name, _)| !stays.contains(name)) {
        close(state, *child, when);
    }
    for below in &file.children {
        let child = existing.get(&below.name).copied().unwrap_or_else(|| open(state, id, below));
        update(state, child, below, when);
    }
}

fn open(state: &mut State, parent: BudgetId, file: &TreeNode) -> BudgetId {
    let id = state.meta.next_budget;
    state.meta.next_budget =
        BudgetId::new(id.get().checked_add(1).expect("fewer than 2^32 budgets in a life"));
    let budget = Budget::new(file.name.clone(), Some(parent), file.share);
    state.budgets.insert(id, budget);
    let above = state.budgets.get_mut(&parent).expect("the caller found it or made it");
    above.children.insert(id);
    id
}

/// Closes a budget and all below it. Their shares go back, so that the open siblings may use them.
fn close(state: &mut State, id: BudgetId, when: (Timestamp, Timestamp)) {
    let Some(budget) = state.budgets.get(&id) else {
        return;
    };
    let below: Vec<BudgetId> = open_children(state, budget).map(|(child, _)| child).collect();
    for child in below {
        close(state, child, when);
    }
    if let Some(budget) = state.budgets.get_mut(&id) {
        budget.is_closed = true;
        budget.set_shares(Share::default(), &BTreeMap::new(), when);
    }
}
