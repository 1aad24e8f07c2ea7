//! Edits of the tree with a start time.

use scheduler_core::budget::{Became, Edited, TimedEdit, TreeNode, Trees};
use scheduler_core::id::{EditId, Revision};

use crate::error::Error;
use crate::state::v1 as state;
use crate::state::v1::timed_edit::Became as Kind;
use crate::wire::{Wire, moment, name};

pub(super) fn edit(id: EditId, edit: &TimedEdit) -> state::TimedEdit {
    let became = edit.became.as_ref().map(|became| match became {
        Became::Applied { revision, changes } => Kind::Applied(state::EditApplied {
            revision: revision.get(),
            changes: changes.iter().map(edited).collect(),
        }),
        Became::Dropped { why } => Kind::Dropped(why.clone()),
    });
    state::TimedEdit {
        id: id.get(),
        at_ms: edit.at.as_millis(),
        base: edit.trees.as_ref().map(|trees| trees.base.to_wire()),
        want: edit.trees.as_ref().map(|trees| trees.want.to_wire()),
        by: edit.by.to_string(),
        made_at_ms: edit.made_at.as_millis(),
        reason: edit.reason.clone(),
        became,
    }
}

fn edited(change: &Edited) -> state::Edited {
    state::Edited {
        budget: change.budget.clone(),
        kind: change.kind.clone(),
        before: change.before.clone(),
        after: change.after.clone(),
    }
}

pub(super) fn read_edit(m: state::TimedEdit) -> Result<(EditId, TimedEdit), Error> {
    let trees = match (m.base, m.want) {
        (Some(base), Some(want)) => {
            Some(Box::new(Trees { base: TreeNode::from_wire(base)?, want: TreeNode::from_wire(want)? }))
        }
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(Error::Missing("the edit's other tree")),
    };
    let became = m.became.map(|became| match became {
        Kind::Applied(applied) => Became::Applied {
            revision: Revision::new(applied.revision),
            changes: applied.changes.into_iter().map(read_edited).collect(),
        },
        Kind::Dropped(why) => Became::Dropped { why },
    });
    let edit = TimedEdit {
        at: moment(m.at_ms),
        trees,
        by: name("by", &m.by)?,
        made_at: moment(m.made_at_ms),
        reason: m.reason,
        became,
    };
    Ok((EditId::new(m.id), edit))
}

fn read_edited(m: state::Edited) -> Edited {
    Edited { budget: m.budget, kind: m.kind, before: m.before, after: m.after }
}
