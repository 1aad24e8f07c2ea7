//! The bill: what preemptions cost, by whatever people ask.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::bill::{Bill, BillCause, Restart};
use crate::decision::Basis;
use crate::id::{AttemptId, AttemptNo, BudgetId, JobId, Name};
use crate::ledger::Class;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{GpuMillis, Span, Timestamp};

/// What rows are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// What it was taken for.
    Cause,
    /// Funded or free.
    Tier,
    /// The leaf that lost it.
    Budget,
    /// Whose job it was.
    User,
    /// By GPUs of the attempt.
    Size,
    /// How the age is known.
    Basis,
}

/// One part of a row's name: of the kind that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// See [`By::Cause`].
    Cause(BillCause),
    /// See [`By::Tier`].
    Tier(Tier),
    /// See [`By::Budget`].
    Budget(BudgetId),
    /// See [`By::User`].
    User(Name),
    /// See [`By::Size`].
    Size(Size),
    /// See [`By::Basis`].
    Basis(Basis),
}

/// Attempts by their number of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Size {
    /// One.
    One,
    /// Two to eight.
    ToEight,
    /// Nine to 63.
    Below64,
    /// 64 and more.
    From64,
}

impl Size {
    /// Returns the size of an attempt.
    #[must_use]
    pub const fn of(gpus: u32) -> Self {
        match gpus {
            0..=1 => Self::One,
            2..=8 => Self::ToEight,
            9..=63 => Self::Below64,
            64.. => Self::From64,
        }
    }

    /// Returns it in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::One => "1 GPU",
            Self::ToEight => "2 to 8 GPUs",
            Self::Below64 => "9 to 63 GPUs",
            Self::From64 => "64 GPUs and more",
        }
    }
}

/// What some preemptions cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// How many.
    pub preemptions: u32,
    /// GPU time that they lost.
    pub lost: GpuMillis,
    /// How many were for an attempt that never started.
    pub wasted: u32,
    /// Of how many that is not known yet.
    pub open: u32,
    /// GPU time that budgets got in the same time: in the tier, and by the budget, that the row is about; all of it
    /// where it is about neither.
    pub delivered: GpuMillis,
    /// The median of the restarts that were measured; of an even number the shorter of the two in the middle.
    pub restart: Option<Span>,
    /// How many restarts were measured.
    pub measured: u32,
}

impl Lost {
    /// Returns lost / delivered in parts per million, rounded down; none if nothing was delivered.
    #[must_use]
    pub fn ppm(&self) -> Option<u64> {
        let of = u128::from(self.delivered.get());
        let part = (u128::from(self.lost.get()) * 1_000_000).checked_div(of)?;
        Some(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

/// One group of preemptions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its name, in the order in which groups were asked for.
    pub keys: Vec<Key>,
    /// What it cost.
    pub lost: Lost,
}

/// The dearest preemption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Biggest {
    /// Which attempt gave way.
    pub attempt: AttemptId,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What it cost.
    pub bill: Bill,
}

/// The bill of some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bills {
    /// From when: what was asked for, at most the window ago. State has no older bills; history does.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// In the order of their keys. By tier, by budget or by both they have every group that got GPU time or lost some,
    /// and what they were delivered adds up; else they have every group that lost some.
    pub rows: Vec<Row>,
    /// The sum of all rows: preemptions, lost, wasted and open add up exactly. Delivered is what everybody got.
    pub total: Lost,
    /// The dearest one, the earlier of two that cost the same.
    pub biggest: Option<Biggest>,
}

/// Returns what the preemptions cost whose attempts ended after `since`, up to `now`, grouped by all of `by`.
#[must_use]
pub fn bill(state: &State, now: Timestamp, since: Timestamp, by: &[By]) -> Bills {
    let since = since.max(now.minus(state.meta.settings.window)).min(now);
    of(state, now, since, by, delivered(state, since, now))
}

/// The same for any time, of a state in which bills that had left it were put back. What was delivered before the
/// window is not known any more: of a longer time, nothing is said of it.
#[must_use]
pub fn long_bill(state: &State, now: Timestamp, since: Timestamp, by: &[By]) -> Bills {
    let since = since.min(now);
    let is_known = since >= now.minus(state.meta.settings.window);
    let delivered = if is_known { delivered(state, since, now) } else { Delivered::new() };
    of(state, now, since, by, delivered)
}

fn of(state: &State, now: Timestamp, since: Timestamp, by: &[By], delivered: Delivered) -> Bills {
    let mut groups: BTreeMap<Vec<Key>, Group> = BTreeMap::new();
    if by.iter().all(|by| matches!(by, By::Tier | By::Budget)) {
        let present = delivered.keys().map(|(budget, tier)| of_books(by, *budget, *tier));
        groups.extend(present.map(|keys| (keys, Group::default())));
    }
    let mut all = Group::default();
    let mut biggest: Option<Biggest> = None;
    for ((ended_at, attempt), bill) in ended_in(state, since, now) {
        groups.entry(of_bill(by, bill)).or_default().add(bill);
        all.add(bill);
        if biggest.as_ref().is_none_or(|biggest| biggest.bill.lost() < bill.lost()) {
            biggest = Some(Biggest { attempt: *attempt, ended_at: *ended_at, bill: bill.clone() });
        }
    }
    let rows = groups.into_iter().map(|(keys, group)| {
        let delivered = delivered_to(&delivered, &keys);
        Row { lost: group.total(delivered), keys }
    });
    let rows = rows.collect();
    Bills { since, until: now, rows, total: all.total(delivered_to(&delivered, &[])), biggest }
}

/// Returns the bills of attempts that ended after `since`, up to `now`, in order.
fn ended_in(
    state: &State,
    since: Timestamp,
    now: Timestamp,
) -> impl Iterator<Item = (&(Timestamp, AttemptId), &Bill)> {
    let last = AttemptId { job: JobId::new(u32::MAX), no: AttemptNo::new(u16::MAX) };
    state.bills.range((since, last)..=(now, last)).filter(move |((ended, _), _)| since < *ended)
}

type Delivered = BTreeMap<(BudgetId, Tier), GpuMillis>;

/// Returns the GPU time that each budget got in each tier, over all pools; only where it got any.
fn delivered(state: &State, since: Timestamp, now: Timestamp) -> Delivered {
    let mut sums = Delivered::new();
    for books in state.books.pools().values() {
        for class in books.class_curves().keys() {
            let Class::Occupied { budget, tier } = *class else { continue };
            let time = books.time_in_class(*class, since, now);
            if time > GpuMillis::default() {
                let sum = sums.entry((budget, tier)).or_default();
                *sum = added(*sum, time);
            }
        }
    }
    sums
}

/// Returns what was delivered in the tier and to the budget that `keys` name.
fn delivered_to(delivered: &Delivered, keys: &[Key]) -> GpuMillis {
    let is_meant = |(budget, tier): &(BudgetId, Tier)| {
        keys.iter().all(|key| match key {
            Key::Tier(of) => of == tier,
            Key::Budget(of) => of == budget,
            Key::Cause(_) | Key::User(_) | Key::Size(_) | Key::Basis(_) => true,
        })
    };
    let meant = delivered.iter().filter(|(whose, _)| is_meant(whose));
    meant.fold(GpuMillis::default(), |sum, (_, time)| added(sum, *time))
}

fn of_books(by: &[By], budget: BudgetId, tier: Tier) -> Vec<Key> {
    let key = |by: &By| match by {
        By::Tier => Some(Key::Tier(tier)),
        By::Budget => Some(Key::Budget(budget)),
        By::Cause | By::User | By::Size | By::Basis => None,
    };
    by.iter().filter_map(key).collect()
}

fn of_bill(by: &[By], bill: &Bill) -> Vec<Key> {
    let key = |by: &By| match by {
        By::Cause => Key::Cause(bill.cause),
        By::Tier => Key::Tier(bill.tier),
        By::Budget => Key::Budget(bill.budget),
        By::User => Key::User(bill.user.clone()),
        By::Size => Key::Size(Size::of(bill.gpus)),
        By::Basis => Key::Basis(bill.basis),
    };
    by.iter().map(key).collect()
}

/// The sums of one group while they are made.
#[derive(Debug, Default)]
struct Group {
    sums: Lost,
    restarts: Vec<Span>,
}

impl Group {
    fn add(&mut self, bill: &Bill) {
        self.sums.preemptions = self.sums.preemptions.saturating_add(1);
        self.sums.lost = added(self.sums.lost, bill.lost());
        match bill.is_wasted {
            Some(true) => self.sums.wasted = self.sums.wasted.saturating_add(1),
            Some(false) => {}
            None if bill.taken_for.is_some() => self.sums.open = self.sums.open.saturating_add(1),
            None => {}
        }
        match bill.restart {
            Restart::Measured(span) => self.restarts.push(span),
            Restart::Expected(_) | Restart::None => {}
        }
    }

    fn total(self, delivered: GpuMillis) -> Lost {
        let measured = u32::try_from(self.restarts.len()).unwrap_or(u32::MAX);
        Lost { delivered, restart: Span::median(&self.restarts), measured, ..self.sums }
    }
}

/// Returns the sum; the most that the type holds where it is more, which no cluster reaches.
fn added(a: GpuMillis, b: GpuMillis) -> GpuMillis {
    a.checked_add(b).unwrap_or(GpuMillis::new(u64::MAX))
}
