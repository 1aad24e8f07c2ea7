//! Owed and delivered: what each budget was due in each hour, and what of it was given (DESIGN 4).
//!
//! Per hour of cluster time, budget and pool: **owed** = min(allocation of the hour, demand). The allocation is the share
//! of the GPUs in service in that hour, by the shares and grants that held then; demand is what funded jobs had or
//! wanted, at each moment at most the GPUs in service. **Delivered** is what funded jobs occupied. Everything is in
//! GPU time and follows from the curves of the books, so a late report corrects the hours that it is about.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::bill::{Bill, BillCause};
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
pub fn hours(state: &State, pool: &Name, budget: BudgetId, time: (Timestamp, Timestamp)) -> Vec<Hour> {
    Rows::new(state, pool, time).map_or_else(Vec::new, |rows| rows.of(budget))
}

/// What preemptions lost, by cause and by how that is known.
type Lost = BTreeMap<(BillCause, Basis), GpuMillis>;

/// The rows of any budget in one pool and time: what is looked for in all of state is looked for once.
#[derive(Debug)]
pub struct Rows<'a> {
    state: &'a State,
    pool: &'a Name,
    books: &'a PoolBooks,
    /// The moments at which rows begin, and the last one's end.
    cuts: Vec<Timestamp>,
    /// For each budget, the leaves below it whose jobs occupied GPUs of the pool, with their tiers.
    leaves: BTreeMap<BudgetId, Vec<(BudgetId, Tier)>>,
    /// For each budget and row.
    lost: BTreeMap<(BudgetId, usize), Lost>,
}

impl<'a> Rows<'a> {
    /// Looks through state; none if there is no such pool.
    #[must_use]
    pub fn new(state: &'a State, pool: &'a Name, (from, until): (Timestamp, Timestamp)) -> Option<Self> {
        let books = state.books.pool(pool)?;
        let cuts = cuts(from, until);
        let mut leaves: BTreeMap<BudgetId, Vec<(BudgetId, Tier)>> = BTreeMap::new();
        for class in books.class_curves().keys() {
            let Class::Occupied { budget: leaf, tier } = *class else { continue };
            for above in budget::path(state, leaf) {
                leaves.entry(above).or_default().push((leaf, tier));
            }
        }
        let mut lost: BTreeMap<(BudgetId, usize), Lost> = BTreeMap::new();
        for (ended_at, bill) in bills(state, pool, (from, until)) {
            // A row holds what ended behind its beginning, up to its end.
            let row = cuts.partition_point(|cut| *cut < ended_at).saturating_sub(1);
            for above in budget::path(state, bill.budget) {
                add(lost.entry((above, row)).or_default(), bill);
            }
        }
        Some(Self { state, pool, books, cuts, leaves, lost })
    }

    /// Returns the rows of a budget.
    #[must_use]
    pub fn of(&self, budget: BudgetId) -> Vec<Hour> {
        let hours = self.cuts.windows(2).enumerate();
        hours.map(|(row, cut)| self.hour(budget, row, (cut[0], cut[1]))).collect()
    }

    fn hour(&self, budget: BudgetId, row: usize, (from, until): (Timestamp, Timestamp)) -> Hour {
        let books = self.books;
        let occupied = |wanted: Tier| {
            let of = self.leaves.get(&budget).into_iter().flatten().filter(|(_, tier)| *tier == wanted);
            let time = of.map(|(budget, tier)| {
                books.time_in_class(Class::Occupied { budget: *budget, tier: *tier }, from, until)
            });
            time.fold(GpuMillis::default(), plus)
        };
        let capacity = books.capacity_between(from, until);
        let allocation = books.worth_between(budget, (&self.state.budgets, self.pool), (from, until));
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
            lost: self.lost.get(&(budget, row)).cloned().unwrap_or_default(),
        }
    }
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

/// Returns the bills of a pool of attempts that ended after `from`, up to `until`.
fn bills<'a>(
    state: &'a State,
    pool: &'a Name,
    (from, until): (Timestamp, Timestamp),
) -> impl Iterator<Item = (Timestamp, &'a Bill)> {
    let last = AttemptId { job: JobId::new(u32::MAX), no: AttemptNo::new(u16::MAX) };
    let bills = state.bills.range((from, last)..=(until, last));
    bills.map(|((at, _), bill)| (*at, bill)).filter(move |(at, bill)| *at > from && bill.pool == *pool)
}

fn add(sums: &mut Lost, bill: &Bill) {
    let sum = sums.entry((bill.cause, bill.basis)).or_default();
    *sum = plus(*sum, bill.lost());
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
    sums.lost =
        bills(state, pool, (from, until)).map(|(_, bill)| bill.lost()).fold(GpuMillis::default(), plus);
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
