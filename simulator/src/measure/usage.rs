//! Use over time: what was charged to each budget in the window, against what its share was worth in it.

use serde::{Deserialize, Serialize};

use super::books::{Account, Books, hours};
use super::number::{count, part_of, ratio, real};

/// A budget's use over the run, sampled hourly from the first whole window on; from the beginning if there was none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Its path; the root's is empty.
    pub budget: String,
    /// Its part of the pool.
    pub share_ratio: f64,
    /// The mean of charged / allocation.
    pub mean_ratio: Option<f64>,
    /// The largest.
    pub max_ratio: Option<f64>,
    /// The one at the end of the run.
    pub last_ratio: Option<f64>,
}

/// One moment of one budget: parts of the allocation in the window, 1 is the whole of it; none without allocation.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    /// Charged: what its funded jobs occupied.
    pub charged: Option<f64>,
    /// What its funded jobs had or wanted, at each moment at most the GPUs in service. Never less than charged.
    pub demand: Option<f64>,
    /// What its free tier occupied: not charged.
    pub free: Option<f64>,
}

/// Returns the moments at which use is sampled: each hour, and the end.
pub(crate) fn moments(books: &Books<'_>) -> Vec<u64> {
    hours(books.run()).split_off(1)
}

/// Returns the use of a budget at each of `moments`.
pub(crate) fn points(books: &Books<'_>, account: &Account, moments: &[u64]) -> Vec<Point> {
    let window = books.record.window.as_millis();
    let share = books.record.budgets[account.budget].share;
    let point = |now: &u64| {
        let from = now.saturating_sub(window);
        let worth = part_of(capacity(books, *now), share);
        Point {
            charged: ratio(account.funded.between(from, *now), worth),
            demand: ratio(account.demand.between(from, *now), worth),
            free: ratio(account.free.between(from, *now), worth),
        }
    };
    moments.iter().map(point).collect()
}

/// Returns the GPU time in service in the whole window before a moment. Time before the run counts at the mean since its
/// beginning, as the order takes it.
fn capacity(books: &Books<'_>, now: u64) -> u64 {
    let window = books.record.window.as_millis();
    let begin = books.run().0.max(now.saturating_sub(window));
    let age = now - begin;
    if age == 0 {
        return books.in_service.at(now).saturating_mul(window);
    }
    let measured = books.in_service.between(begin, now);
    if age >= window {
        return measured;
    }
    let whole = u128::from(measured) * u128::from(window) / u128::from(age);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// Returns the moments that the use of a whole run is made of: those after the first whole window, if there was one.
pub(crate) fn later_moments(books: &Books<'_>) -> Vec<u64> {
    let all = moments(books);
    let whole = books.run().0.saturating_add(books.record.window.as_millis());
    let later: Vec<u64> = all.iter().copied().filter(|at| *at >= whole).collect();
    if later.is_empty() { all } else { later }
}

/// Returns the use of a budget, from that at each of `moments`.
pub(crate) fn of_budget(books: &Books<'_>, account: &Account, moments: &[u64]) -> Use {
    let budget = &books.record.budgets[account.budget];
    let charged: Vec<f64> =
        points(books, account, moments).into_iter().filter_map(|point| point.charged).collect();
    Use {
        budget: budget.path.clone(),
        share_ratio: budget.share,
        mean_ratio: (!charged.is_empty()).then(|| charged.iter().sum::<f64>() / real(count(&charged))),
        max_ratio: charged.iter().copied().max_by(f64::total_cmp),
        last_ratio: charged.last().copied(),
    }
}
