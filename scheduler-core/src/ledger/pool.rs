//! The books of one pool: what its GPUs did, and what its budgets were charged.

use alloc::sync::Arc;

use super::{Account, Curve, WeighedCurves};
use crate::budget::Budget;
use crate::id::{BudgetId, Name};
use crate::spec::Tier;
use crate::table::Table;
use crate::unit::{ChargeMillis, GpuCount, GpuMillis, Share, Span, Timestamp, Weight};

/// What a GPU is booked to: at every millisecond exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// On a ready node with no attempt, reserved or not.
    Idle,
    /// Its node takes no work and it has no attempt.
    Unavailable,
    /// With an attempt before its go.
    Handover,
    /// With an attempt after its end, until proven empty; a failed launch that was the node's fault.
    Overhead,
    /// With an attempt from its go to its end.
    Occupied {
        /// The leaf.
        budget: BudgetId,
        /// Funded or free.
        tier: Tier,
    },
}

/// How many GPUs are in a class, and the GPU time spent in it so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tally {
    /// GPUs in it now.
    pub count: GpuCount,
    /// GPU time in it since the beginning: exact.
    pub time: GpuMillis,
}

/// The books of one pool.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PoolBooks {
    pub(super) since: Option<Timestamp>,
    pub(super) installed: Curve,
    pub(super) classes: Table<Class, Curve>,
    pub(super) accounts: Table<(BudgetId, Tier), Arc<Account>>,
    pub(super) demand: Table<BudgetId, Curve>,
    pub(super) weighed: Table<Weight, WeighedCurves>,
    pub(super) reweighed_at: Timestamp,
}

impl PoolBooks {
    /// Makes a pool's books from their parts.
    #[must_use]
    pub fn from_parts(
        since: Option<Timestamp>,
        installed: Curve,
        classes: Table<Class, Curve>,
        accounts: Table<(BudgetId, Tier), Arc<Account>>,
        demand: Table<BudgetId, Curve>,
    ) -> Self {
        let (weighed, reweighed_at) = (Table::default(), Timestamp::ZERO);
        Self { since, installed, classes, accounts, demand, weighed, reweighed_at }
    }

    /// Gives it the curves of what does not count one, and when weights changed last.
    #[must_use]
    pub fn with_weights(self, weighed: Table<Weight, WeighedCurves>, reweighed_at: Timestamp) -> Self {
        Self { weighed, reweighed_at, ..self }
    }

    /// Returns the curves of the GPUs that do not count one, by their weight.
    #[must_use]
    pub fn weighed(&self) -> &Table<Weight, WeighedCurves> {
        &self.weighed
    }

    /// Returns when weights of GPUs here changed last.
    #[must_use]
    pub fn reweighed_at(&self) -> Timestamp {
        self.reweighed_at
    }

    /// Returns when its first GPU came.
    #[must_use]
    pub fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Returns the curve of its GPUs over time.
    #[must_use]
    pub fn installed_curve(&self) -> &Curve {
        &self.installed
    }

    /// Returns the curve of each class that was ever used.
    #[must_use]
    pub fn class_curves(&self) -> &Table<Class, Curve> {
        &self.classes
    }

    /// Returns the accounts by budget and tier.
    #[must_use]
    pub fn accounts(&self) -> &Table<(BudgetId, Tier), Arc<Account>> {
        &self.accounts
    }

    /// Returns, by budget, the GPUs over time that its funded jobs had or wanted: those that run, are placed, or wait and
    /// could start if GPUs were free. An inner budget's holds those of all below it.
    #[must_use]
    pub fn demand_curves(&self) -> &Table<BudgetId, Curve> {
        &self.demand
    }

    /// Returns the GPU time that a budget's funded jobs had or wanted between two moments, at each moment at most the
    /// GPUs in service: exact, but for the first and last merged step of the curves.
    #[must_use]
    pub fn demanded(&self, budget: BudgetId, from: Timestamp, to: Timestamp) -> GpuMillis {
        let Some(demand) = self.demand.get(&budget) else { return GpuMillis::new(0) };
        let unavailable = self.classes.get(&Class::Unavailable);
        let curves = [Some(demand), Some(&self.installed), unavailable];
        let points = curves.into_iter().flatten().flat_map(|curve| curve.points().range(from..to));
        let mut cuts: alloc::vec::Vec<Timestamp> = points.map(|(at, _)| *at).chain([to]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let (mut sum, mut since) = (0, from);
        for cut in cuts {
            sum += demand.between(since, cut).min(self.in_service_between(since, cut));
            since = cut;
        }
        gpu_millis(sum)
    }

    /// Returns the GPU time in service between two moments.
    #[must_use]
    pub fn capacity_between(&self, from: Timestamp, to: Timestamp) -> GpuMillis {
        gpu_millis(self.in_service_between(from, to))
    }

    /// Returns the GPU time that a budget's share was worth between two moments, by the shares and grants of that time.
    #[must_use]
    pub fn worth_between(
        &self,
        budget: BudgetId,
        (tree, pool): (&Table<BudgetId, Budget>, &Name),
        (from, to): (Timestamp, Timestamp),
    ) -> GpuMillis {
        gpu_millis(super::worth::between(self, budget, (tree, pool), (from, to)) / 1000)
    }

    pub(super) fn in_service_between(&self, from: Timestamp, to: Timestamp) -> u128 {
        let unavailable = self.classes.get(&Class::Unavailable).map_or(0, |curve| curve.between(from, to));
        self.installed.between(from, to).saturating_sub(unavailable)
    }

    /// Returns the account of a budget in a tier; none if it was never used.
    #[must_use]
    pub fn account(&self, budget: BudgetId, tier: Tier) -> Option<&Account> {
        self.accounts.get(&(budget, tier)).map(|account| &**account)
    }

    /// Returns how many GPUs it has, and the GPU time they make so far.
    #[must_use]
    pub fn installed(&self, now: Timestamp) -> Tally {
        tally(&self.installed, now)
    }

    /// Returns how many GPUs are in a class, and the GPU time spent in it so far.
    #[must_use]
    pub fn in_class(&self, class: Class, now: Timestamp) -> Tally {
        self.classes
            .get(&class)
            .map_or(Tally { count: GpuCount::new(0), time: GpuMillis::new(0) }, |curve| tally(curve, now))
    }

    /// Returns every class that was ever used with its tally, in the order of [`Class`].
    pub fn by_class(&self, now: Timestamp) -> impl Iterator<Item = (Class, Tally)> + '_ {
        self.classes.iter().map(move |(&class, curve)| (class, tally(curve, now)))
    }

    /// Returns the GPU time spent in a class between two moments.
    #[must_use]
    pub fn time_in_class(&self, class: Class, from: Timestamp, to: Timestamp) -> GpuMillis {
        gpu_millis(self.classes.get(&class).map_or(0, |curve| curve.between(from, to)))
    }

    /// Returns how many GPUs are in service now: all but the unavailable.
    #[must_use]
    pub fn in_service(&self) -> GpuCount {
        let unavailable = self.classes.get(&Class::Unavailable).map_or(0, Curve::rate);
        gpu_count(self.installed.rate().saturating_sub(unavailable))
    }

    /// Returns the capacity in service over the whole window `[now - window, now]`, in milli-GPU-milliseconds, each GPU
    /// by its weight of that time. Time before the pool's first GPU counts at the mean since then.
    #[must_use]
    pub fn capacity(&self, window: Span, now: Timestamp) -> ChargeMillis {
        let Some(since) = self.since else {
            return ChargeMillis::ZERO;
        };
        let from = now.minus(window).max(since);
        let age = now.since(from);
        if age.is_zero() {
            return ChargeMillis::new(self.worth_now() * ms(window));
        }
        let measured = self.worth_in_service(from, now);
        ChargeMillis::new(if age < window { measured * ms(window) / ms(age) } else { measured })
    }

    /// Returns the part of [`PoolBooks::capacity`] that lies before `at`, a moment in the window.
    #[must_use]
    pub(super) fn capacity_before(&self, at: Timestamp, window: Span, now: Timestamp) -> u128 {
        let Some(since) = self.since else { return 0 };
        let from = now.minus(window).max(since);
        let age = now.since(from);
        // The window is whole, also where cluster time is younger.
        let elapsed = ms(window).saturating_sub(ms(now.since(at)));
        if age.is_zero() {
            return self.worth_now() * elapsed;
        }
        let measured = |to: Timestamp| self.worth_in_service(from, to);
        let before = ms(window).saturating_sub(ms(age)).min(elapsed);
        measured(now) * before / ms(age) + if at > from { measured(at) } else { 0 }
    }

    /// Returns what a budget's share in the pool, by name, is worth in the window, with each grant over its own time:
    /// level by level, rounded down. A budget that isn't in the tree is worth nothing.
    #[must_use]
    pub fn allocation(
        &self,
        budget: BudgetId,
        (tree, pool): (&Table<BudgetId, Budget>, &Name),
        window: Span,
        now: Timestamp,
    ) -> ChargeMillis {
        super::worth::allocation(self, budget, (tree, pool), window, now)
    }
}

/// Returns `share` of `whole`, rounded down.
#[must_use]
pub(super) fn part_of(whole: ChargeMillis, share: Share) -> ChargeMillis {
    ChargeMillis::new(whole.get() * u128::from(share.ppm()) / u128::from(Share::WHOLE.ppm()))
}

fn tally(curve: &Curve, now: Timestamp) -> Tally {
    Tally { count: gpu_count(curve.rate()), time: gpu_millis(curve.total(now)) }
}

fn gpu_count(rate: u64) -> GpuCount {
    GpuCount::new(u32::try_from(rate).expect("a pool has fewer than 2^32 GPUs"))
}

fn gpu_millis(total: u128) -> GpuMillis {
    GpuMillis::new(u64::try_from(total).expect("2^64 GPU-ms are 500,000 years of 1,000 GPUs"))
}

fn ms(span: Span) -> u128 {
    u128::from(span.as_millis())
}
