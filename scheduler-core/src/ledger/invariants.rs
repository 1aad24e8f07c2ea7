//! What holds in the books at every moment. `apply`, the properties and the simulator all call these.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::{Books, PoolBooks};
use crate::budget::Budget;
use crate::id::{BudgetId, Name};
use crate::spec::Tier;
use crate::table::Table;
use crate::unit::Timestamp;

/// Checks that the classes of each pool add up to its GPUs, and their time to its GPU time, exactly.
///
/// # Errors
/// With what does not add up, in words.
pub fn check_occupancy(books: &Books, now: Timestamp) -> Result<(), String> {
    books.pools().iter().try_for_each(|(name, pool)| check_pool(name, pool, now))
}

/// Checks that every budget's charge, rate and set-aside hold those of its children. More it has only if it was a leaf
/// with jobs of its own before it got children.
///
/// # Errors
/// With what does not add up, in words.
pub fn check_tree_sums(books: &Books, tree: &Table<BudgetId, Budget>, now: Timestamp) -> Result<(), String> {
    for (name, pool) in books.pools().iter() {
        let mut sums: BTreeMap<(BudgetId, Tier), [u128; 3]> = BTreeMap::new();
        for (&(budget, tier), account) in pool.accounts().iter() {
            let record = tree
                .get(&budget)
                .ok_or_else(|| format!("account of budget {budget}, which is not in the tree"))?;
            let Some(parent) = record.parent else {
                continue;
            };
            let sum = sums.entry((parent, tier)).or_default();
            for (total, part) in sum.iter_mut().zip(figures(account, now)) {
                *total += part;
            }
        }
        for (&(budget, tier), account) in pool.accounts().iter() {
            let is_inner = tree.get(&budget).is_some_and(|record| !record.children.is_empty());
            let own = figures(account, now);
            let below = sums.get(&(budget, tier)).copied().unwrap_or_default();
            if is_inner && own.iter().zip(below).any(|(own, below)| *own < below) {
                return Err(format!(
                    "pool {name}: {tier:?} account of budget {budget} is {own:?} (charge, rate, set aside), its children's sum is {below:?}"
                ));
            }
        }
    }
    Ok(())
}

fn figures(account: &super::Account, now: Timestamp) -> [u128; 3] {
    [account.charged_ever(now).get(), u128::from(account.rate().get()), account.set_aside(now).get()]
}

fn check_pool(name: &Name, pool: &PoolBooks, now: Timestamp) -> Result<(), String> {
    let (mut count, mut time) = (0, 0);
    for (_, tally) in pool.by_class(now) {
        count += u64::from(tally.count.get());
        time += u128::from(tally.time.get());
    }
    let installed = pool.installed(now);
    if count != u64::from(installed.count.get()) {
        return Err(format!("pool {name}: {count} GPUs in classes, {} installed", installed.count));
    }
    if time != u128::from(installed.time.get()) {
        return Err(format!("pool {name}: {time} GPU-ms in classes, {} installed", installed.time.get()));
    }
    Ok(())
}
