//! Owed and delivered: what each budget was due in each hour, and what of it was given (DESIGN 4).
//!
//! Per hour of cluster time, budget and pool: **owed** = min(allocation of the hour, demand). The allocation is the share
//! of the GPUs in service in that hour, by the shares and grants that held then; demand is what funded jobs had or
//! wanted, at each moment at most the GPUs in service. **Delivered** is what funded jobs occupied. Everything is in
//! GPU time and follows from the curves of the books, so a late report corrects the hours that it is about.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::bill::BillCause;
use crate::budget;
use crate::decision::Basis;
use crate::id::{AttemptId, AttemptNo, BudgetId, JobId, Name};
use crate::ledger::{Class, PoolBooks};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{GpuMillis, Span, Timestamp};

/// The length of a row.
pub const HOUR: Span = Span::from_hours(1);

/// One budget in one pool in one hour, or in the part of it that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hour {
    /// From when.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// GPU time in service in the pool.
    pub capacity: GpuMillis,
    /// What its share of that was worth.
    pub allocation: GpuMillis,
    /// What its funded jobs had or wanted.
    pub demand: GpuMillis,
    /// The smaller of these two.
    pub owed: GpuMillis,
    /// What its funded jobs occupied.
    pub delivered: GpuMillis,
    /// What its free tier occupied: neither owed nor charged.
    pub free: GpuMillis,
    /// What preemptions lost that ended in it, by cause and by how that is known.
    pub lost: BTreeMap<(BillCause, Basis), GpuMillis>,
}

impl Hour {
    /// Returns all that was lost.
    #[must_use]
    pub fn lost_in_all(&self) -> GpuMillis {
        self.lost.values().fold(GpuMillis::default(), |sum, lost| plus(sum, *lost))
    }
}

/// The sums of some hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivery {
    /// GPU time in service in the pool.
    pub capacity: GpuMillis,
    /// What the share was worth.
    pub allocation: GpuMillis,
    /// What funded jobs had or wanted.
    pub demand: GpuMillis,
    /// The sum of what was owed in each hour.
    pub owed: GpuMillis,
    /// What funded jobs occupied.
    pub delivered: GpuMillis,
    /// Hour by hour, at most what was owed in it: late delivery does not count.
    pub strictly: GpuMillis,
    /// What the free tier occupied.
    pub free: GpuMillis,
    /// What preemptions lost.
    pub lost: GpuMillis,
}

impl Delivery {
    /// Adds up rows.
    #[must_use]
    pub fn of(hours: &[Hour]) -> Self {
        hours.iter().fold(Self::default(), |sum, hour| Self {
            capacity: plus(sum.capacity, hour.capacity),
            allocation: plus(sum.allocation, hour.allocation),
            demand: plus(sum.demand, hour.demand),
            owed: plus(sum.owed, hour.owed),
            delivered: plus(sum.delivered, hour.delivered),
            strictly: plus(sum.strictly, hour.delivered.min(hour.owed)),
            free: plus(sum.free, hour.free),
            lost: plus(sum.lost, hour.lost_in_all()),
        })
    }

    /// Returns what was given of what was owed, hour by hour, in parts per million; none if nothing was owed.
    #[must_use]
    pub fn strictly_ppm(&self) -> Option<u64> {
        ppm(self.strictly, self.owed)
    }

    /// Returns the same over the whole time: what came late counts too.
    #[must_use]
    pub fn over_period_ppm(&self) -> Option<u64> {
        ppm(self.delivered.min(self.owed), self.owed)
    }
}

/// What a pool's GPUs did in some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// GPU time in service.
    pub capacity: GpuMillis,
    /// Occupied by funded attempts.
    pub funded: GpuMillis,
    /// Occupied by the free tier.
    pub free: GpuMillis,
    /// With an attempt before its go.
    pub handover: GpuMillis,
    /// After an attempt, until proven empty; failed launches.
    pub overhead: GpuMillis,
    /// With nobody.
    pub idle: GpuMillis,
    /// Occupied, and lost to preemption by the bill.
    pub lost: GpuMillis,
}

impl Occupancy {
    /// Returns the part of the time in service that attempts occupied, in parts per million.
    #[must_use]
    pub fn occupied_ppm(&self) -> Option<u64> {
        ppm(plus(self.funded, self.free), self.capacity)
    }

    /// Returns the part of it that was of use: what attempts occupied, less what the bill shows as lost.
    #[must_use]
    pub fn useful_ppm(&self) -> Option<u64> {
        let occupied = plus(self.funded, self.free).get();
        ppm(GpuMillis::new(occupied.saturating_sub(self.lost.get())), self.capacity)
    }

    /// Returns the free tier's part of what attempts occupied.
    #[must_use]
    pub fn free_ppm(&self) -> Option<u64> {
        ppm(self.free, plus(self.funded, self.free))
    }
}

/// Returns a budget's rows in a pool: each hour of cluster time between two moments, the first and the last cut there.
/// State has the last window.
#[must_use]
pub fn hours(
    state: &State,
    pool: &Name,
    budget: BudgetId,
    (from, until): (Timestamp, Timestamp),
) -> Vec<Hour> {
    let Some(books) = state.books.pool(pool) else { return Vec::new() };
    let leaves = leaves_below(state, books, budget);
    let cuts = cuts(from, until);
    cuts.windows(2).map(|cut| hour(state, (pool, books), (budget, &leaves), (cut[0], cut[1]))).collect()
}

/// Returns the moments at which rows begin, and the last one's end.
fn cuts(from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let mut cuts = alloc::vec![from];
    let mut next = from.as_millis() / HOUR.as_millis() * HOUR.as_millis() + HOUR.as_millis();
    while next < until.as_millis() {
        cuts.push(Timestamp::from_millis(next));
        next += HOUR.as_millis();
    }
    if from < until {
        cuts.push(until);
    }
    cuts
}

/// The leaves whose jobs occupied GPUs of the pool, with their tiers.
fn leaves_below(state: &State, books: &PoolBooks, budget: BudgetId) -> Vec<(BudgetId, Tier)> {
    let classes = books.class_curves().keys().filter_map(|class| match class {
        Class::Occupied { budget, tier } => Some((*budget, *tier)),
        Class::Idle | Class::Unavailable | Class::Handover | Class::Overhead => None,
    });
    classes.filter(|(leaf, _)| budget::path(state, *leaf).contains(&budget)).collect()
}

fn hour(
    state: &State,
    (pool, books): (&Name, &PoolBooks),
    (budget, leaves): (BudgetId, &[(BudgetId, Tier)]),
    (from, until): (Timestamp, Timestamp),
) -> Hour {
    let occupied = |wanted: Tier| {
        let of = leaves.iter().filter(|(_, tier)| *tier == wanted);
        let time = of.map(|(budget, tier)| {
            books.time_in_class(Class::Occupied { budget: *budget, tier: *tier }, from, until)
        });
        time.fold(GpuMillis::default(), plus)
    };
    let capacity = books.capacity_between(from, until);
    let allocation = books.worth_between(budget, &state.budgets, (from, until));
    let demand = books.demanded(budget, from, until).min(capacity);
    Hour {
        from,
        until,
        capacity,
        allocation,
        demand,
        owed: allocation.min(demand),
        delivered: occupied(Tier::Funded),
        free: occupied(Tier::Free),
        lost: lost(state, pool, Some(budget), (from, until)),
    }
}

/// Returns what preemptions lost that ended after `from`, up to `until`, in a pool: of a budget and those below it, or
/// of all.
fn lost(
    state: &State,
    pool: &Name,
    budget: Option<BudgetId>,
    (from, until): (Timestamp, Timestamp),
) -> BTreeMap<(BillCause, Basis), GpuMillis> {
    let last = AttemptId { job: JobId::new(u32::MAX), no: AttemptNo::new(u16::MAX) };
    let mut sums: BTreeMap<(BillCause, Basis), GpuMillis> = BTreeMap::new();
    for ((ended_at, _), bill) in state.bills.range((from, last)..=(until, last)) {
        let is_meant = *ended_at > from
            && bill.pool == *pool
            && budget.is_none_or(|budget| budget::path(state, bill.budget).contains(&budget));
        if is_meant {
            let sum = sums.entry((bill.cause, bill.basis)).or_default();
            *sum = plus(*sum, bill.lost());
        }
    }
    sums
}

/// Returns what a pool's GPUs did between two moments.
#[must_use]
pub fn occupancy(state: &State, pool: &Name, (from, until): (Timestamp, Timestamp)) -> Occupancy {
    let Some(books) = state.books.pool(pool) else { return Occupancy::default() };
    let mut sums = Occupancy { capacity: books.capacity_between(from, until), ..Occupancy::default() };
    for class in books.class_curves().keys() {
        let time = books.time_in_class(*class, from, until);
        let sum = match class {
            Class::Idle => &mut sums.idle,
            Class::Unavailable => continue,
            Class::Handover => &mut sums.handover,
            Class::Overhead => &mut sums.overhead,
            Class::Occupied { tier: Tier::Funded, .. } => &mut sums.funded,
            Class::Occupied { tier: Tier::Free, .. } => &mut sums.free,
        };
        *sum = plus(*sum, time);
    }
    let lost = lost(state, pool, None, (from, until));
    sums.lost = lost.values().fold(GpuMillis::default(), |sum, lost| plus(sum, *lost));
    sums
}

/// Returns the sum; the most that the type holds where it is more, which no cluster reaches.
fn plus(a: GpuMillis, b: GpuMillis) -> GpuMillis {
    a.checked_add(b).unwrap_or(GpuMillis::new(u64::MAX))
}

fn ppm(part: GpuMillis, whole: GpuMillis) -> Option<u64> {
    let ppm = (u128::from(part.get()) * 1_000_000).checked_div(u128::from(whole.get()))?;
    Some(u64::try_from(ppm).unwrap_or(u64::MAX))
}
