//! What holds in the books at every moment. `apply`, the properties and the simulator all call these.
//!
//! Each law has two forms: of the whole books, and of one change of them, which costs what was touched. If a law held
//! before a change and holds of the change, it holds after it.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Account, Books, Curve, PoolBooks};
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
    books.pools().iter().try_for_each(|(name, pool)| {
        let classes = sum(pool.class_curves().values().map(|curve| gpus(curve, now)));
        equal(name, classes, gpus(pool.installed_curve(), now))
    })
}

/// Checks that what one change did to the classes of each pool adds up to what it did to its GPUs and their time.
/// `after` must have grown from a clone of `before`.
///
/// # Errors
/// With what does not add up, in words.
pub fn check_occupancy_change(before: &Books, after: &Books, now: Timestamp) -> Result<(), String> {
    after.pools().touched_since(before.pools()).try_for_each(|(name, pool)| {
        let none;
        let old = match before.pool(name) {
            Some(old) => old,
            None => {
                none = PoolBooks::default();
                &none
            }
        };
        let touched = pool.class_curves().touched_since(old.class_curves());
        let classes = sum(touched.filter_map(|(class, curve)| {
            let was = old.class_curves().get(class);
            // A chunk's other records did not change.
            let is_other = was.is_none_or(|was| !curve.is_shared_with(was));
            is_other.then(|| less(gpus(curve, now), was.map_or([0; 2], |was| gpus(was, now))))
        }));
        // A class that left gave its time to another.
        let left = old.class_curves().touched_since(pool.class_curves());
        let left = left.filter(|(class, _)| !pool.class_curves().contains(*class));
        let classes = less(classes, sum(left.map(|(_, curve)| gpus(curve, now))));
        equal(name, classes, less(gpus(pool.installed_curve(), now), gpus(old.installed_curve(), now)))
    })
}

/// Checks that every budget's charge, rate and set-aside hold those of its children. More it has only if it was a leaf
/// with jobs of its own before it got children.
///
/// # Errors
/// With what does not add up, in words.
pub fn check_tree_sums(books: &Books, tree: &Table<BudgetId, Budget>, now: Timestamp) -> Result<(), String> {
    for (name, pool) in books.pools().iter() {
        let figures = pool.accounts().iter().map(|(key, account)| (*key, charges(account, now)));
        let (own, below) = by_parent(figures, tree)?;
        for (key, sum) in below {
            let own = of(&own, key);
            if own.iter().zip(sum).any(|(own, below)| *own < below) {
                return Err(unlike(name, key, own, sum));
            }
        }
    }
    Ok(())
}

/// Checks that what one change did to each inner budget's charge, rate and set-aside is what it did to its children's.
/// `after` must have grown from a clone of `before`, and jobs must be in leaves.
///
/// # Errors
/// With what does not add up, in words.
pub fn check_tree_change(
    before: &Books,
    after: &Books,
    tree: &Table<BudgetId, Budget>,
    now: Timestamp,
) -> Result<(), String> {
    let none = Table::default();
    for (name, pool) in after.pools().touched_since(before.pools()) {
        let old = before.pool(name).map_or(&none, PoolBooks::accounts);
        let changes = pool.accounts().touched_since(old).filter_map(|(key, account)| {
            let was = old.get(key);
            let is_other = was.is_none_or(|was| !Arc::ptr_eq(was, account));
            is_other.then(|| (*key, less(charges(account, now), was.map_or([0; 3], |was| charges(was, now)))))
        });
        let (own, below) = by_parent(changes, tree)?;
        // Whose own account did not change has children that did neither, in sum.
        for &(key, _) in own.iter().chain(&below) {
            let is_inner = tree.get(&key.0).is_some_and(|budget| !budget.children.is_empty());
            let (own, sum) = (of(&own, key), of(&below, key));
            if is_inner && own != sum {
                return Err(unlike(name, key, own, sum));
            }
        }
    }
    Ok(())
}

type Key = (BudgetId, Tier);
/// Charge, rate, set aside; or what a change did to them.
type Charges = [i128; 3];
/// In order of their keys: few, and made with each entry.
type Accounts = Vec<(Key, Charges)>;

fn of(accounts: &Accounts, key: Key) -> Charges {
    let at = accounts.binary_search_by_key(&key, |(key, _)| *key);
    at.map_or([0; 3], |at| accounts[at].1)
}

/// Returns figures by account, which come in order, and their sums by parent account.
fn by_parent(
    figures: impl Iterator<Item = (Key, Charges)>,
    tree: &Table<BudgetId, Budget>,
) -> Result<(Accounts, Accounts), String> {
    let own: Accounts = figures.collect();
    let mut below = Accounts::new();
    for &((budget, tier), part) in &own {
        let record = tree.get(&budget);
        let record = record.ok_or_else(|| format!("an account of budget {budget}, which does not exist"))?;
        below.extend(record.parent.map(|parent| ((parent, tier), part)));
    }
    below.sort_unstable_by_key(|(key, _)| *key);
    below.dedup_by(|(key, part), (of, total)| {
        let is_same = key == of;
        if is_same {
            *total = sum([*total, *part].into_iter());
        }
        is_same
    });
    Ok((own, below))
}

fn charges(account: &Account, now: Timestamp) -> Charges {
    [
        signed(account.charged_ever(now).get()),
        i128::from(account.rate().get()),
        signed(account.set_aside(now).get()),
    ]
}

/// Returns GPUs and GPU time.
fn gpus(curve: &Curve, now: Timestamp) -> [i128; 2] {
    [i128::from(curve.rate()), signed(curve.total(now))]
}

fn signed(amount: u128) -> i128 {
    i128::try_from(amount).expect("no pool's time comes near 2^127")
}

fn sum<const N: usize>(all: impl Iterator<Item = [i128; N]>) -> [i128; N] {
    all.fold([0; N], |sum, part| core::array::from_fn(|n| sum[n] + part[n]))
}

fn less<const N: usize>(a: [i128; N], b: [i128; N]) -> [i128; N] {
    core::array::from_fn(|n| a[n] - b[n])
}

fn equal(name: &Name, classes: [i128; 2], installed: [i128; 2]) -> Result<(), String> {
    if classes == installed {
        return Ok(());
    }
    Err(format!(
        "pool {name}: {} GPUs and {} GPU-ms in classes, {} and {} in all",
        classes[0], classes[1], installed[0], installed[1]
    ))
}

fn unlike(name: &Name, (budget, tier): Key, own: Charges, below: Charges) -> String {
    format!(
        "pool {name}: {tier:?} account of budget {budget} has {own:?} (charge, rate, set aside), those below it {below:?}"
    )
}
