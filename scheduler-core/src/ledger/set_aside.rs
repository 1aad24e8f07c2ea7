//! Protected time not yet run of attempts already placed.

use crate::table::Table;
use crate::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

/// What an account has set aside: fixed until an attempt started, then less by the millisecond, gone at the end of its
/// protection. The sum is known for any moment without a timer, from the ends of the protections that run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SetAside {
    /// Of attempts that did not start yet.
    fixed: u128,
    /// Rates by the moment at which they end, all after `horizon`.
    ends: Table<Timestamp, MilliGpus>,
    /// The sum of the rates in `ends`.
    rate: u128,
    /// The sum of rate x end in `ends`.
    rate_by_end: u128,
    /// Ends up to here were forgotten.
    horizon: Timestamp,
}

impl SetAside {
    /// Makes it from what [`SetAside::fixed`], [`SetAside::ends`] and [`SetAside::horizon`] gave.
    #[must_use]
    pub fn from_parts(fixed: ChargeMillis, ends: Table<Timestamp, MilliGpus>, horizon: Timestamp) -> Self {
        let rate = ends.values().map(|rate| u128::from(rate.get())).sum();
        let rate_by_end = ends.iter().map(|(&end, &rate)| by_end(rate, end)).sum();
        Self { fixed: fixed.get(), ends, rate, rate_by_end, horizon }
    }

    /// Returns what attempts have set aside that did not start yet.
    #[must_use]
    pub fn fixed(&self) -> ChargeMillis {
        ChargeMillis::new(self.fixed)
    }

    /// Returns the rates whose protection runs, by its end.
    #[must_use]
    pub fn ends(&self) -> &Table<Timestamp, MilliGpus> {
        &self.ends
    }

    /// Returns the moment up to which ended protections were forgotten.
    #[must_use]
    pub fn horizon(&self) -> Timestamp {
        self.horizon
    }

    /// Returns what is set aside at `at`.
    #[must_use]
    pub fn total(&self, at: Timestamp) -> ChargeMillis {
        let (mut rate, mut rate_by_end) = (self.rate, self.rate_by_end);
        for (&end, &ended) in self.ends.iter().take_while(|(end, _)| **end <= at) {
            rate -= u128::from(ended.get());
            rate_by_end -= by_end(ended, end);
        }
        ChargeMillis::new(self.fixed + rate_by_end - rate * u128::from(at.as_millis()))
    }

    /// Sets `rate` x `span` aside.
    pub(super) fn fix(&mut self, rate: MilliGpus, span: Span) {
        self.fixed += ChargeMillis::of(rate, span).get();
    }

    /// Takes back what [`SetAside::fix`] set aside.
    pub(super) fn unfix(&mut self, rate: MilliGpus, span: Span) {
        let amount = ChargeMillis::of(rate, span).get();
        self.fixed = self.fixed.checked_sub(amount).expect("what is taken back was set aside before");
    }

    /// From now on `rate` declines to nothing at `end`.
    pub(super) fn run(&mut self, rate: MilliGpus, end: Timestamp, now: Timestamp) {
        self.forget(now);
        if end <= self.horizon {
            return;
        }
        let sum = self.ends.get(&end).map_or(0, |r| r.get()) + rate.get();
        self.ends.insert(end, MilliGpus::new(sum));
        self.rate += u128::from(rate.get());
        self.rate_by_end += by_end(rate, end);
    }

    /// Takes back what is left of `rate`, which declines to nothing at `end`.
    pub(super) fn stop(&mut self, rate: MilliGpus, end: Timestamp, now: Timestamp) {
        self.forget(now);
        if end <= self.horizon {
            return;
        }
        let sum = self.ends.get(&end).map_or(0, |r| r.get());
        let left = sum.checked_sub(rate.get()).expect("what stops has run before");
        if left == 0 {
            self.ends.remove(&end);
        } else {
            self.ends.insert(end, MilliGpus::new(left));
        }
        self.rate -= u128::from(rate.get());
        self.rate_by_end -= by_end(rate, end);
    }

    /// Whether [`SetAside::forget`] would forget any.
    pub(super) fn has_ended(&self, now: Timestamp) -> bool {
        self.ends.first().is_some_and(|(&end, _)| end <= now)
    }

    /// Forgets protections that ended at `now` or before: they count nothing any more.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.horizon = self.horizon.max(now);
        while let Some((&end, &rate)) = self.ends.first()
            && end <= self.horizon
        {
            self.ends.remove(&end);
            self.rate -= u128::from(rate.get());
            self.rate_by_end -= by_end(rate, end);
        }
    }
}

fn by_end(rate: MilliGpus, end: Timestamp) -> u128 {
    u128::from(rate.get()) * u128::from(end.as_millis())
}
