//! One budget in full.

use std::collections::BTreeSet;

use proto::{Wire as _, v1};
use scheduler_core::budget::{self, Budget, PoolUsage};
use scheduler_core::id::{BudgetId, Name};
use scheduler_core::ledger::Class;
use scheduler_core::lifecycle::book::gpu_count;
use scheduler_core::spec::Tier;
use scheduler_core::state::State;

use super::Scene;
use super::budget::{grant_view, row_view};

/// Returns all there is to say of a budget.
#[must_use]
pub fn view(scene: Scene<'_>, id: BudgetId, record: &Budget) -> v1::BudgetView {
    let state = scene.state();
    let mut path = budget::path(state, id);
    path.pop();
    path.reverse();
    let above: Vec<&Budget> = path.iter().filter_map(|id| state.budgets.get(id)).collect();
    let names = |names: &mut dyn Iterator<Item = &Name>| names.map(ToString::to_string).collect::<Vec<_>>();
    let members_above: BTreeSet<&Name> = above.iter().flat_map(|budget| &budget.members).collect();
    let concerns = |grant: &&budget::Grant| grant.to == id || grant.from == Some(id);
    v1::BudgetView {
        schema: "budget/v1".to_owned(),
        as_of: scene.as_of(),
        budget: id.get(),
        path: budget::label(state, id),
        above: record.parent.map(|parent| budget::label(state, parent)),
        children: record
            .children
            .iter()
            .filter(|id| is_open(state, **id))
            .map(|id| budget::label(state, *id))
            .collect(),
        closed: record.is_closed,
        owner: record.owner.as_ref().map(ToString::to_string),
        owners_above: names(&mut above.iter().filter_map(|budget| budget.owner.as_ref())),
        members: names(&mut record.members.iter()),
        members_above: names(&mut members_above.into_iter()),
        own_defaults: Some(record.defaults.to_wire()),
        defaults: Some(budget::defaults(state, id).to_wire()),
        window_ms: state.meta.settings.window.as_millis(),
        pools: budget::usage(state, scene.now).iter().filter_map(|pool| in_pool(scene, pool, id)).collect(),
        grants: state
            .grants
            .iter()
            .filter(|(_, grant)| concerns(grant))
            .map(|(id, grant)| grant_view(scene, *id, grant))
            .collect(),
    }
}

fn is_open(state: &State, id: BudgetId) -> bool {
    state.budgets.get(&id).is_some_and(|budget| !budget.is_closed)
}

fn in_pool(scene: Scene<'_>, pool: &PoolUsage, id: BudgetId) -> Option<v1::BudgetInPool> {
    let state = scene.state();
    let row = pool.rows.iter().find(|row| row.id == id)?;
    let parent = state.budgets.get(&id).and_then(|record| record.parent);
    let is_sibling = |other: BudgetId| state.budgets.get(&other).and_then(|record| record.parent) == parent;
    let siblings = pool.rows.iter().filter(|other| is_sibling(other.id)).count();
    let from = scene.now.minus(state.meta.settings.window);
    let is_below = |leaf: BudgetId| budget::path(state, leaf).contains(&id);
    let (mut funded, mut free) = (0_u64, 0_u64);
    if let Some(books) = state.books.pool(&pool.pool) {
        for class in books.class_curves().keys() {
            let Class::Occupied { budget, tier } = *class else { continue };
            if is_below(budget) {
                let time = books.time_in_class(*class, from, scene.now).get();
                let sum = if tier == Tier::Funded { &mut funded } else { &mut free };
                *sum = sum.saturating_add(time);
            }
        }
    }
    let (mut protected, mut interruptible, mut unfunded) = (0_u32, 0_u32, 0_u32);
    let on = state.attempts.values().filter(|attempt| attempt.pool == pool.pool && attempt.go_at.is_some());
    for attempt in on.filter(|attempt| attempt.ended.is_none() && is_below(attempt.budget)) {
        let sum = match (attempt.tier, attempt.is_protected(scene.now)) {
            (Tier::Free, _) => &mut unfunded,
            (Tier::Funded, true) => &mut protected,
            (Tier::Funded, false) => &mut interruptible,
        };
        *sum = sum.saturating_add(gpu_count(attempt));
    }
    Some(v1::BudgetInPool {
        pool: pool.pool.to_string(),
        row: Some(row_view(scene, row)),
        siblings: u32::try_from(siblings).unwrap_or(u32::MAX),
        funded_gpu_ms: funded,
        free_tier_gpu_ms: free,
        protected_gpus: protected,
        interruptible_gpus: interruptible,
        free_tier_gpus: unfunded,
    })
}
