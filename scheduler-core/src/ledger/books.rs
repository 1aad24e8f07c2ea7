//! The books of all pools, and the ways in which lifecycle changes them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::curve::Merged;
use super::weighed::Step;
use super::{Account, Class, Curve, PoolBooks, Weighed};
use crate::budget::Budget;
use crate::decision::UseOf;
use crate::id::{BudgetId, Name};
use crate::job::Attempt;
use crate::mutant::{self, Mutant};
use crate::spec::Tier;
use crate::table::Table;
use crate::unit::{ChargeMillis, MilliGpus, Span, Timestamp, Weight};

/// A live attempt of the free tier counts at least this much time, so that a burst cannot sort ahead on old numbers.
pub const FREE_FLOOR: Span = Span::from_hours(1);

/// Breakpoints younger than this are all kept.
const EXACT: Span = Span::from_hours(1);
/// Of older ones, the first and the last in each of these.
const STEP: Span = Span::from_mins(1);
/// Breakpoints are kept this much longer than the window.
const SLACK: Span = Span::from_hours(1);

/// The books of every pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Books {
    pools: Table<Name, Arc<PoolBooks>>,
    merged: Merged,
}

/// One attempt as the books see it: whose account, at which rate, and the points it passed.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Its pool.
    pub pool: &'a Name,
    /// Its budgets from the root down to the leaf.
    pub path: &'a [BudgetId],
    /// Funded or free.
    pub tier: Tier,
    /// What it is charged a millisecond.
    pub rate: MilliGpus,
    /// The length of its protection.
    pub protection: Span,
    /// Its go, if it passed.
    pub go: Option<Timestamp>,
    /// Its start, if it passed.
    pub started: Option<Timestamp>,
}

impl<'a> Run<'a> {
    /// Returns an attempt as the books see it; `path` is that of its budget, root first.
    #[must_use]
    pub fn of(attempt: &'a Attempt, path: &'a [BudgetId]) -> Self {
        Self {
            pool: &attempt.pool,
            path,
            tier: attempt.tier,
            rate: attempt.rate,
            protection: attempt.protection,
            go: attempt.go_at,
            started: attempt.started_at,
        }
    }

    /// Returns the span that is set aside for it when it is placed.
    fn aside(&self) -> Span {
        match self.tier {
            Tier::Funded => self.protection,
            Tier::Free => FREE_FLOOR,
        }
    }

    /// Returns when what was set aside is used up, if it began to be.
    fn aside_until(&self) -> Option<Timestamp> {
        match self.tier {
            Tier::Funded => self.started.map(|at| at.plus(self.protection)),
            Tier::Free => self.go.map(|at| at.plus(FREE_FLOOR)),
        }
    }
}

impl Books {
    /// Makes the books from what [`Books::pools`] and [`Books::merged`] gave.
    #[must_use]
    pub fn from_parts(pools: Table<Name, Arc<PoolBooks>>, merged: Merged) -> Self {
        Self { pools, merged }
    }

    /// Returns all pools' books.
    #[must_use]
    pub fn pools(&self) -> &Table<Name, Arc<PoolBooks>> {
        &self.pools
    }

    /// Returns which breakpoints were merged.
    #[must_use]
    pub fn merged(&self) -> Merged {
        self.merged
    }

    /// Returns one pool's books; none before its first GPU.
    #[must_use]
    pub fn pool(&self, pool: &Name) -> Option<&PoolBooks> {
        self.pools.get(pool).map(|books| &**books)
    }

    /// New GPUs are in the pool from `at` on, in `class`.
    pub fn gpus_added(&mut self, pool: &Name, gpus: impl Into<Weighed>, class: Class, at: Timestamp) {
        let (merged, gpus) = (self.merged, gpus.into());
        let count = gpus.count;
        let books = self.pool_mut(pool);
        books.since = Some(books.since.map_or(at, |since| since.min(at)));
        books.installed.rise(at, u64::from(count.get()), merged);
        class_mut(books, class).rise(at, u64::from(count.get()), merged);
        books.weigh(gpus, Step::Come(class), at, merged);
    }

    /// GPUs that were in `class` are not in the pool any more, from `at` on.
    ///
    /// # Panics
    /// When there are fewer of them in that class.
    pub fn gpus_removed(&mut self, pool: &Name, gpus: impl Into<Weighed>, class: Class, at: Timestamp) {
        let (merged, gpus) = (self.merged, gpus.into());
        let count = gpus.count;
        let books = self.pool_mut(pool);
        books.installed.fall(at, u64::from(count.get()), merged);
        class_mut(books, class).fall(at, u64::from(count.get()), merged);
        books.weigh(gpus, Step::Leave(class), at, merged);
    }

    /// GPUs in `class` that counted `from` count `to` from `now` on. What they counted before stays.
    ///
    /// # Panics
    /// When fewer counted `from`.
    pub fn reweigh(&mut self, pool: &Name, (from, to): (Weighed, Weight), class: Class, now: Timestamp) {
        let merged = self.merged;
        let books = self.pool_mut(pool);
        books.reweighed_at = books.reweighed_at.max(now);
        books.weigh(from, Step::Leave(class), now, merged);
        books.weigh(Weighed { weight: to, ..from }, Step::Come(class), now, merged);
    }

    /// GPUs in class `from` are in class `to` from `at` on. A late report names a moment in the past: both sides are
    /// corrected back to it. `at` is not before those GPUs came into `from`.
    ///
    /// # Panics
    /// When there are fewer of them in `from`.
    pub fn reclass(&mut self, pool: &Name, gpus: impl Into<Weighed>, from: Class, to: Class, at: Timestamp) {
        let gpus = gpus.into();
        let count = gpus.count;
        if from == to || count.get() == 0 {
            return;
        }
        let merged = self.merged;
        let books = self.pool_mut(pool);
        class_mut(books, from).fall(at, u64::from(count.get()), merged);
        class_mut(books, to).rise(at, u64::from(count.get()), merged);
        books.weigh(gpus, Step::Change(from, to), at, merged);
    }

    /// Funded jobs of the budgets on `path` have or want so many GPUs more, from `at` on.
    pub fn wanted(&mut self, pool: &Name, path: &[BudgetId], gpus: u64, at: Timestamp) {
        let merged = self.merged;
        let books = self.pool_mut(pool);
        for &budget in path {
            if !books.demand.contains(&budget) {
                books.demand.insert(budget, Curve::default());
            }
            let curve = books.demand.get_mut(&budget).expect("it was there or was just put there");
            curve.rise(at, gpus, merged);
        }
    }

    /// They want so many fewer, from `at` on, which they had or wanted before.
    ///
    /// # Panics
    /// When they did not.
    pub fn unwanted(&mut self, pool: &Name, path: &[BudgetId], gpus: u64, at: Timestamp) {
        let merged = self.merged;
        let books = self.pool_mut(pool);
        for &budget in path {
            if let Some(curve) = books.demand.get_mut(&budget) {
                curve.fall(at, gpus, merged);
            }
        }
    }

    /// An attempt was placed: its protection is set aside (in the free tier [`FREE_FLOOR`]). Before its go.
    pub fn placed(&mut self, run: &Run<'_>) {
        self.on_path(run, |account| account.set_aside.fix(run.rate, run.aside()));
    }

    /// A placed attempt passed its go at `at`, not after `now`: charge runs from there. `run` is as it was before.
    pub fn go(&mut self, run: &Run<'_>, at: Timestamp, now: Timestamp) {
        let merged = self.merged;
        self.on_path(run, |account| {
            account.curve.rise(at, run.rate.get(), merged);
            if run.tier == Tier::Free {
                account.set_aside.unfix(run.rate, FREE_FLOOR);
                account.set_aside.run(run.rate, at.plus(FREE_FLOOR), now);
            }
        });
    }

    /// All ranks of an attempt had a process at `at`, not after `now`: what was set aside declines from there. `run`
    /// is as it was before.
    pub fn started(&mut self, run: &Run<'_>, at: Timestamp, now: Timestamp) {
        if run.tier == Tier::Free {
            return;
        }
        self.on_path(run, |account| {
            account.set_aside.unfix(run.rate, run.protection);
            account.set_aside.run(run.rate, at.plus(run.protection), now);
        });
    }

    /// An attempt ended at `at`, not before its go and not after `now`: charge after `at` is taken back, and what is
    /// still set aside leaves.
    pub fn ended(&mut self, run: &Run<'_>, at: Timestamp, now: Timestamp) {
        let merged = self.merged;
        self.on_path(run, |account| {
            if let Some(go) = run.go {
                account.curve.fall(at.max(go), run.rate.get(), merged);
            }
            match run.aside_until() {
                None => account.set_aside.unfix(run.rate, run.aside()),
                Some(_) if mutant::is(Mutant::SetAsideKept) => {}
                Some(end) => account.set_aside.stop(run.rate, end, now),
            }
        });
    }

    /// Returns a budget's use in a pool: its charge in the window, what it has set aside, what its share is worth.
    #[must_use]
    pub fn use_of(
        &self,
        budget: BudgetId,
        pool: &Name,
        tier: Tier,
        tree: &Table<BudgetId, Budget>,
        window: Span,
        now: Timestamp,
    ) -> UseOf {
        let books = self.pool(pool);
        let account = books.and_then(|books| books.account(budget, tier));
        UseOf {
            budget,
            charged: account.map_or(ChargeMillis::ZERO, |account| account.charged(window, now)),
            set_aside: account.map_or(ChargeMillis::ZERO, |account| account.set_aside(now)),
            allocation: books
                .map_or(ChargeMillis::ZERO, |books| books.allocation(budget, (tree, pool), window, now)),
        }
    }

    /// Merges old breakpoints: all of the last hour stay, then two a minute, none older than the window and an hour.
    /// Above `most` in all the oldest merge further. Called when time goes from one moment to another, and does nothing
    /// within a minute, so it may be called with every entry.
    pub fn thin(&mut self, window: Span, most: usize, (before, now): (Timestamp, Timestamp)) {
        if round_down(now, STEP) <= before {
            return;
        }
        let to = round_down(now.minus(EXACT), STEP);
        if to > self.merged.until {
            self.merge(self.merged.until, to, STEP, now.minus(window).minus(SLACK));
            self.merged.until = to;
        }
        self.forget_ended(now);
        self.bound(most, window, now);
    }

    /// Returns how many breakpoints there are in all.
    #[must_use]
    pub fn points(&self) -> usize {
        let in_pool = |pool: &Arc<PoolBooks>| {
            let classes: usize = pool.classes.values().map(|curve| curve.points().len()).sum();
            let accounts: usize = pool.accounts.values().map(|account| account.curve.points().len()).sum();
            let demand: usize = pool.demand.values().map(|curve| curve.points().len()).sum();
            let weighed = pool.weighed.values().flat_map(|of| [&of.installed, &of.unavailable]);
            let weighed: usize = weighed.map(|curve| curve.points().len()).sum();
            pool.installed.points().len() + classes + accounts + demand + weighed
        };
        self.pools.values().map(in_pool).sum()
    }

    /// Returns how many curves there are in all, and how many of their breakpoints are not before `from`.
    #[must_use]
    pub fn curves(&self, from: Timestamp) -> (usize, usize) {
        let all = self.pools.values().flat_map(|pool| {
            let accounts = pool.accounts.values().map(|account| &account.curve);
            let weighed = pool.weighed.values().flat_map(|of| [&of.installed, &of.unavailable]);
            let plain = pool.classes.values().chain(accounts).chain(pool.demand.values());
            plain.chain(weighed).chain([&pool.installed])
        });
        all.fold((0, 0), |(curves, points), curve| {
            (curves + 1, points + curve.points().range(from..).count())
        })
    }

    /// A budget that nothing needs any more leaves the books: its GPU time counts with the budget above, whose account
    /// has its charge already.
    ///
    /// # Panics
    /// When something of it is still charged.
    pub fn budget_left(&mut self, budget: BudgetId, parent: BudgetId) {
        let names: Vec<Name> = self.pools.keys().cloned().collect();
        for name in &names {
            let books = self.pool_mut(name);
            books.demand.remove(&budget);
            for tier in [Tier::Funded, Tier::Free] {
                books.accounts.remove(&(budget, tier));
                let Some(left) = books.classes.remove(&Class::Occupied { budget, tier }) else { continue };
                assert_eq!(left.rate(), 0, "nothing runs in a budget that leaves");
                if let Some((&at, &total)) = left.points().last() {
                    class_mut(books, Class::Occupied { budget: parent, tier }).lift(total, at);
                }
            }
        }
    }

    /// Whether a budget was charged, occupied or wanted anything since `from`, or has something set aside.
    #[must_use]
    pub fn has_used(&self, budget: BudgetId, from: Timestamp) -> bool {
        let is_flat = |curve: &Curve| {
            curve.rate() == 0 && curve.points().last().is_none_or(|(_, total)| *total == curve.total(from))
        };
        let has_used = |pool: &PoolBooks, tier| {
            let account = pool.account(budget, tier);
            let class = pool.classes.get(&Class::Occupied { budget, tier });
            let is_quiet = |account: &Account| {
                is_flat(&account.curve)
                    && account.set_aside.fixed().get() == 0
                    && account.set_aside.ends().is_empty()
            };
            !account.is_none_or(is_quiet) || !class.is_none_or(is_flat)
        };
        let has_wanted = |pool: &PoolBooks| pool.demand.get(&budget).is_some_and(|curve| !is_flat(curve));
        self.pools
            .values()
            .any(|pool| has_used(pool, Tier::Funded) || has_used(pool, Tier::Free) || has_wanted(pool))
    }

    /// Brings the number of breakpoints well below `most`: the oldest eighth of the window in longer and longer steps,
    /// then the next, at last also those of the last hour.
    pub(super) fn bound(&mut self, most: usize, window: Span, now: Timestamp) {
        let aim = most / 8 * 7;
        if self.points() <= most {
            return;
        }
        let oldest = now.minus(window).minus(SLACK);
        let merged = self.merged.until.since(oldest).as_millis();
        let mut step = STEP;
        while step < window.plus(SLACK) {
            step = step.plus(step);
            self.merged.step = self.merged.step.max(step);
            for eighth in 0..8 {
                let part = |n: u64| oldest.plus(Span::from_millis(merged / 8 * n));
                self.merge(round_down(part(eighth), step), round_down(part(eighth + 1), step), step, oldest);
                if self.points() <= aim {
                    return;
                }
            }
        }
        let to = round_down(now.minus(STEP), STEP);
        if to > self.merged.until {
            self.merge(self.merged.until, to, STEP, oldest);
            self.merged.until = to;
        }
    }

    fn forget_ended(&mut self, now: Timestamp) {
        let names: Vec<Name> = self.pools.keys().cloned().collect();
        for name in &names {
            let books = self.pool_mut(name);
            let due = |(key, account): (&(BudgetId, Tier), &Arc<Account>)| {
                account.set_aside.has_ended(now).then_some(*key)
            };
            let keys: Vec<(BudgetId, Tier)> = books.accounts.iter().filter_map(due).collect();
            for key in keys {
                let account = books.accounts.get_mut(&key).expect("the key was just listed");
                Arc::make_mut(account).set_aside.forget(now);
            }
        }
    }

    fn merge(&mut self, from: Timestamp, to: Timestamp, step: Span, oldest: Timestamp) {
        let names: Vec<Name> = self.pools.keys().cloned().collect();
        for name in &names {
            let books = self.pool_mut(name);
            books.installed.thin(from, to, step, oldest);
            merge_classes(books, from, to, step, oldest);
            merge_accounts(books, from, to, step, oldest);
            merge_demand(books, from, to, step, oldest);
            books.merge_weighed((from, to), step, oldest);
        }
    }

    fn pool_mut(&mut self, pool: &Name) -> &mut PoolBooks {
        if !self.pools.contains(pool) {
            self.pools.insert(pool.clone(), Arc::default());
        }
        Arc::make_mut(self.pools.get_mut(pool).expect("it was there or was just put there"))
    }

    fn on_path(&mut self, run: &Run<'_>, change: impl Fn(&mut Account)) {
        let books = self.pool_mut(run.pool);
        for &budget in run.path {
            let key = (budget, run.tier);
            if !books.accounts.contains(&key) {
                books.accounts.insert(key, Arc::default());
            }
            let account = books.accounts.get_mut(&key).expect("it was there or was just put there");
            change(Arc::make_mut(account));
        }
    }
}

fn round_down(at: Timestamp, step: Span) -> Timestamp {
    Timestamp::from_millis(at.as_millis() / step.as_millis() * step.as_millis())
}

fn class_mut(books: &mut PoolBooks, class: Class) -> &mut Curve {
    if !books.classes.contains(&class) {
        books.classes.insert(class, Curve::default());
    }
    books.classes.get_mut(&class).expect("it was there or was just put there")
}

fn merge_classes(books: &mut PoolBooks, from: Timestamp, to: Timestamp, step: Span, oldest: Timestamp) {
    let due = |(class, curve): (&Class, &Curve)| curve.has_points_to_thin(from, to, oldest).then_some(*class);
    let classes: Vec<Class> = books.classes.iter().filter_map(due).collect();
    for class in classes {
        class_mut(books, class).thin(from, to, step, oldest);
    }
}

fn merge_accounts(books: &mut PoolBooks, from: Timestamp, to: Timestamp, step: Span, oldest: Timestamp) {
    let due = |(key, account): (&(BudgetId, Tier), &Arc<Account>)| {
        account.curve.has_points_to_thin(from, to, oldest).then_some(*key)
    };
    let keys: Vec<(BudgetId, Tier)> = books.accounts.iter().filter_map(due).collect();
    for key in keys {
        let account = books.accounts.get_mut(&key).expect("the key was just listed");
        Arc::make_mut(account).curve.thin(from, to, step, oldest);
    }
}

fn merge_demand(books: &mut PoolBooks, from: Timestamp, to: Timestamp, step: Span, oldest: Timestamp) {
    let due =
        |(budget, curve): (&BudgetId, &Curve)| curve.has_points_to_thin(from, to, oldest).then_some(*budget);
    let budgets: Vec<BudgetId> = books.demand.iter().filter_map(due).collect();
    for budget in budgets {
        books.demand.get_mut(&budget).expect("it was just listed").thin(from, to, step, oldest);
    }
}
