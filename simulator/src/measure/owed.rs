//! Owed and delivered: what each leaf was due in each hour, and what of it was given (DESIGN 4).

use serde::{Deserialize, Serialize};

use super::books::{Account, Books, hours};
use super::number::{ratio, real};

/// One leaf in one hour, or in the part of it that the run had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hour {
    /// From when, in milliseconds.
    pub from_ms: u64,
    /// What its share of the GPUs in service was worth.
    pub allocation_gpu_ms: u64,
    /// What its funded jobs had or wanted.
    pub demand_gpu_ms: u64,
    /// The smaller of these two.
    pub owed_gpu_ms: u64,
    /// What its funded jobs occupied.
    pub delivered_gpu_ms: u64,
}

/// Owed and delivered over the whole run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Delivery {
    /// Over the whole run: what came late counts too.
    pub period: Spread,
    /// Hour by hour: what came late does not count.
    pub strict: Spread,
    /// Each leaf, in the order of the tree.
    pub leaves: Vec<Leaf>,
}

/// How the parts delivered of what was owed spread over the leaves that were owed anything: each leaf counts once,
/// whatever its size.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// The mean over the leaves.
    pub mean_ratio: Option<f64>,
    /// The smallest.
    pub worst_ratio: Option<f64>,
    /// The leaf that it is.
    pub worst: Option<String>,
    /// How many got at least 95 %.
    pub at_least_95: u64,
    /// Of how many.
    pub leaves: u64,
}

/// One leaf over the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leaf {
    /// Its path.
    pub budget: String,
    /// What its share was worth.
    pub allocation_gpu_ms: u64,
    /// What its funded jobs had or wanted, at each moment at most the GPUs in service.
    pub demand_gpu_ms: u64,
    /// The sum of what was owed in each hour.
    pub owed_gpu_ms: u64,
    /// What its funded jobs occupied.
    pub delivered_gpu_ms: u64,
    /// What its free tier occupied.
    pub free_gpu_ms: u64,
    /// min(delivered, owed) / owed, over the whole run.
    pub period_ratio: Option<f64>,
    /// The sum over the hours of min(delivered, owed) / owed.
    pub strict_ratio: Option<f64>,
}

/// Returns a budget's hours.
pub(crate) fn of_hours(books: &Books<'_>, account: &Account) -> Vec<Hour> {
    let cuts = hours(books.run());
    let hours = cuts.windows(2).map(|cut| {
        let (from, until) = (cut[0], cut[1]);
        let allocation_gpu_ms = books.worth(account.budget, from, until);
        let demand_gpu_ms = account.demand.between(from, until);
        Hour {
            from_ms: from,
            allocation_gpu_ms,
            demand_gpu_ms,
            owed_gpu_ms: allocation_gpu_ms.min(demand_gpu_ms),
            delivered_gpu_ms: account.funded.between(from, until),
        }
    });
    hours.collect()
}

/// Returns what was owed and delivered.
pub(crate) fn delivery(leaves: Vec<Leaf>) -> Delivery {
    Delivery {
        period: spread(leaves.iter().map(|leaf| (leaf, leaf.period_ratio))),
        strict: spread(leaves.iter().map(|leaf| (leaf, leaf.strict_ratio))),
        leaves,
    }
}

/// Returns one leaf.
pub(crate) fn leaf(books: &Books<'_>, account: &Account) -> Leaf {
    let hours = of_hours(books, account);
    let sum = |of: fn(&Hour) -> u64| hours.iter().map(of).sum::<u64>();
    let owed = sum(|hour| hour.owed_gpu_ms);
    let delivered = sum(|hour| hour.delivered_gpu_ms);
    let strictly = sum(|hour| hour.delivered_gpu_ms.min(hour.owed_gpu_ms));
    let (begin, end) = books.run();
    Leaf {
        budget: books.record.budgets[account.budget].path.clone(),
        allocation_gpu_ms: sum(|hour| hour.allocation_gpu_ms),
        demand_gpu_ms: sum(|hour| hour.demand_gpu_ms),
        owed_gpu_ms: owed,
        delivered_gpu_ms: delivered,
        free_gpu_ms: account.free.between(begin, end),
        period_ratio: ratio(delivered.min(owed), owed),
        strict_ratio: ratio(strictly, owed),
    }
}

fn spread<'l>(leaves: impl Iterator<Item = (&'l Leaf, Option<f64>)>) -> Spread {
    let owed: Vec<(&Leaf, f64)> = leaves.filter_map(|(leaf, ratio)| Some((leaf, ratio?))).collect();
    let worst = owed.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let leaves = super::number::count(&owed);
    Spread {
        mean_ratio: (leaves > 0).then(|| owed.iter().map(|(_, ratio)| ratio).sum::<f64>() / real(leaves)),
        worst_ratio: worst.map(|(_, ratio)| *ratio),
        worst: worst.map(|(leaf, _)| leaf.budget.clone()),
        at_least_95: owed.iter().map(|(_, ratio)| u64::from(*ratio >= 0.95)).sum(),
        leaves,
    }
}
