//! Edits of the tree: what they change, what that does, and those to come.

use proto::v1;
use scheduler_core::budget::{self, Became, TimedEdit};
use scheduler_core::id::EditId;
use scheduler_core::report::{PoolEdit, RowEdit, Shift, Side};
use scheduler_core::state::State;

use super::budget::change;
use super::use_view;

/// Returns what an edit does besides changing the tree; pools in which it does nothing are left out.
#[must_use]
pub fn effects(state: &State, pools: &[PoolEdit]) -> Vec<v1::BudgetPoolEffect> {
    let has_any = |pool: &&PoolEdit| !pool.rows.is_empty() || !pool.shifts.is_empty();
    pools.iter().filter(has_any).map(|pool| effect(state, pool)).collect()
}

fn effect(state: &State, pool: &PoolEdit) -> v1::BudgetPoolEffect {
    let side = |side: &Side| v1::BudgetSide {
        share_ppm: side.share.ppm(),
        r#use: Some(use_view(state, &side.used)),
        goes: side.goes,
    };
    let row = |row: &RowEdit| v1::BudgetRowEffect {
        path: row.path.clone(),
        before: row.before.as_ref().map(side),
        after: row.after.as_ref().map(side),
    };
    let shift = |shift: &Shift| v1::BudgetShift {
        from: budget::label(state, shift.from),
        to: budget::label(state, shift.to),
        may: shift.may,
        attempts: shift.attempts,
        gpus: shift.gpus,
        waiting_jobs: shift.waiting,
    };
    v1::BudgetPoolEffect {
        pool: pool.pool.to_string(),
        rows: pool.rows.iter().map(row).collect(),
        shifts: pool.shifts.iter().map(shift).collect(),
        protected_gpus: pool.protected_gpus,
    }
}

/// Returns one edit with a start time.
#[must_use]
pub fn edit(state: &State, id: EditId, edit: &TimedEdit) -> v1::EditView {
    let (word, dropped, changes) = match &edit.became {
        None => {
            let changes =
                edit.trees.as_ref().map(|trees| budget::changes_of(state, trees)).unwrap_or_default();
            ("to-come", None, changes.iter().map(change).collect())
        }
        Some(Became::Applied { changes, .. }) => ("applied", None, changes.iter().map(edited).collect()),
        Some(Became::Dropped { why }) => ("dropped", Some(why.clone()), Vec::new()),
    };
    v1::EditView {
        edit: id.get(),
        at: edit.at.as_millis(),
        by: edit.by.to_string(),
        made_at: edit.made_at.as_millis(),
        reason: edit.reason.clone(),
        state: word.to_owned(),
        dropped,
        changes,
    }
}

/// Returns a change that was made.
#[must_use]
pub fn edited(change: &budget::Edited) -> v1::BudgetChange {
    v1::BudgetChange {
        path: change.budget.clone(),
        kind: change.kind.clone(),
        before: change.before.clone(),
        after: change.after.clone(),
    }
}
