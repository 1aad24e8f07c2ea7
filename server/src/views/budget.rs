//! The budget tree with its books.

use proto::{Wire as _, v1};
use scheduler_core::budget::{self, Change, Grant, PoolUsage, Row};
use scheduler_core::decision::UseOf;
use scheduler_core::id::{BudgetId, GrantId, Name};
use scheduler_core::spec::Tier;

use super::{Scene, budget_edit, charge, use_view};

/// Returns the whole tree, with its books in each pool.
#[must_use]
pub fn tree(scene: Scene<'_>) -> v1::BudgetTreeView {
    let state = scene.state();
    v1::BudgetTreeView {
        schema: "budget-tree/v1".to_owned(),
        as_of: scene.as_of(),
        revision: state.meta.tree.get(),
        window_ms: state.meta.settings.window.as_millis(),
        pools: budget::usage(state, scene.now).iter().map(|pool| pool_view(scene, pool)).collect(),
        tree: budget::tree(state).map(|tree| tree.to_wire()),
        edits: state.edits.iter().map(|(id, edit)| budget_edit::edit(state, *id, edit)).collect(),
        grants: state.grants.iter().map(|(id, grant)| grant_view(scene, *id, grant)).collect(),
    }
}

fn pool_view(scene: Scene<'_>, pool: &PoolUsage) -> v1::BudgetPoolView {
    v1::BudgetPoolView {
        pool: pool.pool.to_string(),
        gpus: pool.gpus.get(),
        rows: pool.rows.iter().map(|row| row_view(scene, row)).collect(),
    }
}

/// Returns one row of the tree.
#[must_use]
pub fn row_view(scene: Scene<'_>, row: &Row) -> v1::BudgetRow {
    let state = scene.state();
    let budget = state.budgets.get(&row.id);
    v1::BudgetRow {
        budget: row.id.get(),
        path: row.path.clone(),
        name: budget.map(|budget| budget.name.to_string()).unwrap_or_default(),
        depth: row.depth,
        owner: budget.and_then(|budget| budget.owner.as_ref()).map(ToString::to_string),
        members: budget.iter().flat_map(|budget| &budget.members).map(ToString::to_string).collect(),
        share_ppm: row.share.ppm(),
        r#use: Some(use_view(state, &row.funded)),
        free_tier_milli_gpu_ms: charge(row.free.charged),
        goes: row.goes,
        closed: budget.is_some_and(|budget| budget.is_closed),
        waiting_jobs: row.waiting,
        running_gpus: row.running.get(),
        own_ppm: row.own.ppm(),
        with_grants_ppm: row.with_grants.ppm(),
    }
}

/// Returns one grant.
#[must_use]
pub fn grant_view(scene: Scene<'_>, id: GrantId, grant: &Grant) -> v1::GrantView {
    let state = scene.state();
    v1::GrantView {
        schema: "budget-grant/v1".to_owned(),
        grant: id.get(),
        budget: budget::label(state, grant.to),
        from_budget: grant.from.map(|from| budget::label(state, from)),
        share_ppm: grant.share.ppm(),
        begins_at: grant.begins_at.as_millis(),
        until_at: grant.until.as_millis(),
        state: grant.standing(scene.now).word().to_owned(),
        reason: grant.reason.clone(),
        by: grant.by.to_string(),
        made_at: grant.made_at.as_millis(),
        ended_by: grant.ended.as_ref().and_then(|ended| ended.by.as_ref()).map(ToString::to_string),
        end_reason: grant.ended.as_ref().map(|ended| ended.reason.clone()),
    }
}

/// Returns a budget's use in a pool.
#[must_use]
pub fn use_of(scene: Scene<'_>, pool: &Name, id: BudgetId, tier: Tier) -> UseOf {
    let state = scene.state();
    state.books.use_of(id, pool, tier, &state.budgets, state.meta.settings.window, scene.now)
}

/// Returns one change of a tree.
#[must_use]
pub fn change(change: &Change) -> v1::BudgetChange {
    let (before, after) = change.what.sides();
    v1::BudgetChange { path: change.budget.clone(), kind: change.what.kind().to_owned(), before, after }
}
