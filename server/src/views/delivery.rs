//! What budgets were owed, and what of it was delivered.

use proto::v1;
use scheduler_core::budget::{self, ROOT};
use scheduler_core::id::{BudgetId, Name};
use scheduler_core::report::{self, Delivery, Hour, Rows};
use scheduler_core::state::State;
use scheduler_core::unit::{GpuMillis, Timestamp};

use super::{Scene, words};

/// Returns the report: of all budgets with their sums, or of one with its hours.
#[must_use]
pub fn view(scene: Scene<'_>, one: Option<BudgetId>, time: (Timestamp, Timestamp)) -> v1::BudgetUsageView {
    let pools = scene.state().books.pools().keys();
    v1::BudgetUsageView {
        schema: "budget-usage/v1".to_owned(),
        as_of: scene.as_of(),
        since_at: time.0.as_millis(),
        until_at: time.1.as_millis(),
        pools: pools.map(|pool| in_pool(scene.state(), pool, one, time)).collect(),
    }
}

fn in_pool(
    state: &State,
    pool: &Name,
    one: Option<BudgetId>,
    time: (Timestamp, Timestamp),
) -> v1::PoolDelivery {
    let did = report::occupancy(state, pool, time);
    let mut budgets = Vec::new();
    match (Rows::new(state, pool, time), one) {
        (Some(rows), Some(id)) => budgets.push(of_budget(state, &rows, (id, 0), true)),
        (Some(rows), None) => below(state, &rows, (ROOT, 0), &mut budgets),
        (None, _) => {}
    }
    v1::PoolDelivery {
        pool: pool.to_string(),
        capacity_gpu_ms: did.capacity.get(),
        funded_gpu_ms: did.funded.get(),
        free_tier_gpu_ms: did.free.get(),
        handover_gpu_ms: did.handover.get(),
        overhead_gpu_ms: did.overhead.get(),
        idle_gpu_ms: did.idle.get(),
        lost_gpu_ms: did.lost.get(),
        occupied_ppm: did.occupied_ppm(),
        useful_ppm: did.useful_ppm(),
        free_tier_ppm: did.free_ppm(),
        budgets,
    }
}

/// Adds a budget and those below it; closed ones that had and wanted nothing are left out.
fn below(state: &State, rows: &Rows<'_>, (id, depth): (BudgetId, u32), out: &mut Vec<v1::BudgetDelivery>) {
    let Some(record) = state.budgets.get(&id) else { return };
    let row = of_budget(state, rows, (id, depth), false);
    if record.is_closed && row.demand_gpu_ms == 0 && row.delivered_gpu_ms == 0 && row.free_tier_gpu_ms == 0 {
        return;
    }
    out.push(row);
    for child in &record.children {
        below(state, rows, (*child, depth + 1), out);
    }
}

fn of_budget(
    state: &State,
    rows: &Rows<'_>,
    (id, depth): (BudgetId, u32),
    with_hours: bool,
) -> v1::BudgetDelivery {
    let hours = rows.of(id);
    let sum = Delivery::of(&hours);
    v1::BudgetDelivery {
        budget: budget::label(state, id),
        depth,
        allocation_gpu_ms: sum.allocation.get(),
        demand_gpu_ms: sum.demand.get(),
        owed_gpu_ms: sum.owed.get(),
        delivered_gpu_ms: sum.delivered.get(),
        delivered_strictly_gpu_ms: sum.strictly.get(),
        strictly_ppm: sum.strictly_ppm(),
        over_period_ppm: sum.over_period_ppm(),
        free_tier_gpu_ms: sum.free.get(),
        lost_gpu_ms: sum.lost.get(),
        hours: if with_hours { hours.iter().map(hour).collect() } else { Vec::new() },
    }
}

fn hour(hour: &Hour) -> v1::DeliveryHour {
    let lost = hour.lost.iter().map(|((cause, basis), lost): (_, &GpuMillis)| v1::LostPart {
        cause: words::bill_cause(*cause).to_owned(),
        basis: words::basis(*basis).to_owned(),
        lost_gpu_ms: lost.get(),
    });
    v1::DeliveryHour {
        from_at: hour.from.as_millis(),
        until_at: hour.until.as_millis(),
        capacity_gpu_ms: hour.capacity.get(),
        allocation_gpu_ms: hour.allocation.get(),
        demand_gpu_ms: hour.demand.get(),
        owed_gpu_ms: hour.owed.get(),
        delivered_gpu_ms: hour.delivered.get(),
        free_tier_gpu_ms: hour.free.get(),
        lost: lost.collect(),
    }
}
