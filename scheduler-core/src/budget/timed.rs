//! Edits of the tree that take effect later.
//!
//! An edit keeps the tree that it was made for and the one that it wants. When its time comes, what it changes is
//! carried over to the tree of that moment; if something was changed in another way since, or whoever asked for it may
//! not any more, it is dropped, with the reason.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::edit::{apply_tree_at, may_change};
use super::grant::{LENGTH_MAX, cut};
use super::lookup::tree;
use super::merge::merge;
use super::{Change, ROOT, TreeNode, diff, edited, is_operator, owns};
use crate::command::{ApplyBudgets, Code, Rejection};
use crate::id::{EditId, Name, Revision};
use crate::principal::Actor;
use crate::state::{State, Timer};
use crate::unit::Timestamp;

/// The most edits in state: those to come, and late ones with what became of them.
pub const EDITS_MAX: usize = 64;

/// An edit with a start time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TimedEdit {
    /// When it takes effect.
    pub at: Timestamp,
    /// What it changes; none when its time is over.
    pub trees: Option<Box<Trees>>,
    /// Who asked for it.
    pub by: Name,
    /// When.
    pub made_at: Timestamp,
    /// Why.
    pub reason: String,
    /// What became of it; none while its time has not come.
    pub became: Option<Became>,
}

/// The two sides of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trees {
    /// The tree that it was made for.
    pub base: TreeNode,
    /// The tree that it makes of that.
    pub want: TreeNode,
}

/// What became of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Became {
    /// It took effect.
    Applied {
        /// The tree has this revision since.
        revision: Revision,
        /// What it changed.
        changes: Vec<Edited>,
    },
    /// It did not hold any more.
    Dropped {
        /// Why.
        why: String,
    },
}

/// A change that was made, in the words of people.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Edited {
    /// The budget's path then.
    pub budget: String,
    /// Which kind of change; see [`What::kind`](super::What::kind).
    pub kind: String,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

impl Edited {
    fn of(change: &Change) -> Self {
        let (before, after) = change.what.sides();
        Self { budget: change.budget.clone(), kind: change.what.kind().to_string(), before, after }
    }
}

/// Keeps an edit for later, and returns its number. It is judged as if it took effect now, and once more then.
///
/// # Errors
/// When it would be refused now, changes nothing, or comes too late.
pub fn plan_edit(
    state: &mut State,
    asked: &ApplyBudgets,
    at: Timestamp,
    (actor, who): (&Actor, &Name),
    now: Timestamp,
) -> Result<EditId, Rejection> {
    if asked.reason.trim().is_empty() {
        let what = String::from("an edit of the tree needs a reason");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("add --reason")));
    }
    if at.since(now) > LENGTH_MAX {
        let what = String::from("an edit takes effect within 366 days");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("give an earlier --at")));
    }
    let changes = may_change(state, &asked.root, actor)?;
    edited(state, &asked.root, now)?;
    let base = tree(state).filter(|_| !changes.is_empty());
    let Some(base) = base else {
        let what = String::from("the tree is already as the file says");
        return Err(Rejection::new(Code::BadTree, what, "there is nothing to do later", String::new()));
    };
    make_room(state)?;
    let id = state.meta.next_edit;
    state.meta.next_edit = EditId::new(id.get().checked_add(1).expect("fewer than 2^32 edits in a life"));
    let edit = TimedEdit {
        at,
        trees: Some(Box::new(Trees { base, want: asked.root.clone() })),
        by: who.clone(),
        made_at: now,
        reason: cut(&asked.reason),
        became: None,
    };
    state.timers.insert((at, Timer::Edit(id)), ());
    state.edits.insert(id, edit);
    Ok(id)
}

/// Lets the oldest edit go whose time is over, if there are as many as may be.
fn make_room(state: &mut State) -> Result<(), Rejection> {
    if state.edits.len() < EDITS_MAX {
        return Ok(());
    }
    let over = state.edits.iter().filter(|(_, edit)| edit.became.is_some()).min_by_key(|(_, edit)| edit.at);
    let Some((id, _)) = over.map(|(id, edit)| (*id, edit)) else {
        let what = format!("{EDITS_MAX} edits of the tree wait for their time");
        let fix = String::from("take one back with `bursar budget cancel`, or put several into one file");
        return Err(Rejection::new(Code::Full, what, "", fix));
    };
    forget(state, id);
    Ok(())
}

fn forget(state: &mut State, id: EditId) {
    if let Some(edit) = state.edits.remove(&id) {
        let look = next_look(state, &edit);
        state.timers.remove(&(look, Timer::Edit(id)));
    }
}

/// Returns when an edit is looked at next: at its time, and then when it is forgotten.
#[must_use]
pub fn next_look(state: &State, edit: &TimedEdit) -> Timestamp {
    match edit.became {
        None => edit.at,
        Some(_) => edit.at.plus(state.meta.settings.keep_results),
    }
}

/// Takes an edit back whose time has not come; or says that somebody has seen that it was dropped.
///
/// # Errors
/// When there is none, or `who` is neither who asked for it, nor an operator, nor the owner of the root.
pub fn cancel_edit(
    state: &mut State,
    id: EditId,
    who: &Name,
    reason: &str,
    now: Timestamp,
) -> Result<(), Rejection> {
    let Some(edit) = state.edits.get(&id) else {
        let what = format!("there is no edit {id} to come");
        return Err(Rejection::new(Code::NotFound, what, "", String::from("bursar budget history")));
    };
    let is_dropped = matches!(edit.became, Some(Became::Dropped { .. }));
    if !is_dropped && (edit.became.is_some() || edit.at <= now) {
        let what = format!("the time of edit {id} is over");
        let fix = String::from("apply a file that says otherwise");
        return Err(Rejection::new(Code::Stale, what, "what took effect is not taken back", fix));
    }
    if edit.by != *who && !is_operator(state, who) && !owns(state, who, ROOT) {
        let what = format!("`{who}` may not take edit {id} back");
        let why = "who asked for it may, an operator, and the owner of the root";
        return Err(Rejection::new(Code::NotAllowed, what, why, format!("ask `{}`", edit.by)));
    }
    if reason.trim().is_empty() {
        let what = String::from("taking an edit back needs a reason");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("add --reason")));
    }
    forget(state, id);
    Ok(())
}

/// The time of an edit has come: it takes effect if it still holds, else it is dropped. Later it is forgotten.
pub fn due_edit(state: &mut State, id: EditId, at: Timestamp) {
    let Some(mut edit) = state.edits.get(&id).cloned() else { return };
    let Some(trees) = edit.trees.take() else {
        state.edits.remove(&id);
        return;
    };
    edit.became = Some(match carry_over(state, &trees, &edit.by, at) {
        Ok(changes) => {
            Became::Applied { revision: state.meta.tree, changes: changes.iter().map(Edited::of).collect() }
        }
        Err(why) => Became::Dropped { why },
    });
    state.timers.insert((next_look(state, &edit), Timer::Edit(id)), ());
    state.edits.insert(id, edit);
}

/// Returns what an edit would change in the tree of now; nothing if it does not hold any more.
#[must_use]
pub fn changes_of(state: &State, trees: &Trees) -> Vec<Change> {
    let file = tree(state).and_then(|now| merge(&trees.base, &trees.want, &now).ok());
    file.and_then(|file| diff(state, &file).ok()).unwrap_or_default()
}

fn carry_over(state: &mut State, trees: &Trees, by: &Name, at: Timestamp) -> Result<Vec<Change>, String> {
    if state.principals.get(by).is_none_or(|principal| principal.is_revoked) {
        return Err(format!("the token of `{by}`, who asked for it, opens nothing any more"));
    }
    let now = tree(state).ok_or_else(|| String::from("there is no tree any more"))?;
    let file = merge(&trees.base, &trees.want, &now)?;
    let actor = Actor::Principal(by.clone());
    apply_tree_at(state, &file, &actor, at).map_err(|refused| refused.what)
}
