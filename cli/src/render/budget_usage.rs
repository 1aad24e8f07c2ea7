//! What was owed, and what of it was delivered.

use proto::v1::{BudgetDelivery, BudgetUsageView, DeliveryHour, PoolDelivery};

use crate::form::table::Table;
use crate::form::text::{cut, plain};
use crate::form::{duration, gpu_time};
use crate::shell::Look;

/// Renders the report.
pub fn usage(view: &BudgetUsageView, look: &Look) -> String {
    let mut out = String::new();
    let span = duration::long(view.until_at.saturating_sub(view.since_at));
    let (since, until) = (look.zone.day(view.since_at), look.zone.day(view.until_at));
    for pool in &view.pools {
        out.push_str(&format!("{}, {since} to {until}, {span}\n", plain(&pool.pool)));
        out.push_str(&occupancy(pool));
        out.push_str(&budgets(&pool.budgets, look));
        for budget in pool.budgets.iter().filter(|budget| !budget.hours.is_empty()) {
            out.push('\n');
            out.push_str(&hours(&budget.hours, look));
        }
        out.push('\n');
    }
    if view.pools.is_empty() {
        out.push_str("no GPU time yet\n");
    }
    out.push_str("GPU-h. OWED = the lesser of allocation and demand, hour by hour; DELIVERED = occupied by funded jobs.\n");
    out
}

fn occupancy(pool: &PoolDelivery) -> String {
    let part = |ppm: Option<u64>| ppm.map_or_else(|| "-".into(), percent);
    format!(
        "  {} in service, {} occupied, {} useful (after what preemptions lost: {}), {} of it free tier\n\n",
        hours_of(pool.capacity_gpu_ms),
        part(pool.occupied_ppm),
        part(pool.useful_ppm),
        hours_of(pool.lost_gpu_ms),
        part(pool.free_tier_ppm)
    )
}

fn budgets(rows: &[BudgetDelivery], look: &Look) -> String {
    let mut table = Table::new(&[
        "BUDGET",
        ">ALLOCATED",
        ">DEMAND",
        ">OWED",
        ">DELIVERED",
        ">HOURLY",
        ">OVERALL",
        ">FREE TIER",
        ">LOST",
    ]);
    let part = |ppm: Option<u64>| ppm.map_or_else(|| "-".into(), percent);
    for row in rows {
        table.row([
            if look.is_wide { row.budget.clone() } else { cut(&row.budget, 28) },
            hours_of(row.allocation_gpu_ms),
            hours_of(row.demand_gpu_ms),
            hours_of(row.owed_gpu_ms),
            hours_of(row.delivered_gpu_ms),
            part(row.strictly_ppm),
            part(row.over_period_ppm),
            hours_of(row.free_tier_gpu_ms),
            hours_of(row.lost_gpu_ms),
        ]);
    }
    table.render()
}

fn hours(rows: &[DeliveryHour], look: &Look) -> String {
    let mut table =
        Table::new(&["FROM", ">ALLOCATED", ">DEMAND", ">OWED", ">DELIVERED", ">FREE TIER", ">LOST"]);
    for hour in rows {
        let lost = hour.lost.iter().map(|part| part.lost_gpu_ms).fold(0, u64::saturating_add);
        table.row([
            look.zone.day(hour.from_at),
            hours_of(hour.allocation_gpu_ms),
            hours_of(hour.demand_gpu_ms),
            hours_of(hour.owed_gpu_ms),
            hours_of(hour.delivered_gpu_ms),
            hours_of(hour.free_tier_gpu_ms),
            hours_of(lost),
        ]);
    }
    table.render()
}

fn hours_of(gpu_ms: u64) -> String {
    gpu_time::hours_of(i128::from(gpu_ms) * 1000)
}

/// Writes parts per million as percent with one decimal, rounded down.
fn percent(ppm: u64) -> String {
    format!("{}.{}%", ppm / 10_000, ppm / 1_000 % 10)
}
