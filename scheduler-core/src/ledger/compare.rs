//! Use compared: lower goes first, exactly.

use core::cmp::Ordering;

use crate::decision::UseOf;
use crate::mutant::{self, Mutant};

impl UseOf {
    /// Compares two uses: the lower one is less and goes first; ties by more headroom, then by id. With allocation 0 a
    /// budget goes after everyone else.
    #[must_use]
    pub fn cmp_use(&self, other: &Self) -> Ordering {
        self.cmp_ratio(other)
            .then_with(|| other.headroom().cmp(&self.headroom()))
            .then_with(|| self.budget.cmp(&other.budget))
    }

    /// Compares the plain ratios, cross-multiplied; with allocation 0 a use is infinite.
    #[must_use]
    pub fn cmp_ratio(&self, other: &Self) -> Ordering {
        match (self.allocation.get(), other.allocation.get()) {
            (0, 0) => Ordering::Equal,
            (0, _) => Ordering::Greater,
            (_, 0) => Ordering::Less,
            (mine, theirs) => product(self.booked(), theirs).cmp(&product(other.booked(), mine)),
        }
    }

    /// Whether this use and `margin_ppm` parts per million more are at most the other one: the plain ratios,
    /// cross-multiplied. With allocation 0 a use is infinite: never below another, and above each that is not. Amounts
    /// beyond all that clusters can use (10^30 milli-GPU-milliseconds) give no right.
    #[must_use]
    pub fn is_below_by(&self, other: &Self, margin_ppm: u32) -> bool {
        let (mine, theirs) = (self.allocation.get(), other.allocation.get());
        let margin_ppm = if mutant::is(Mutant::NoMargin) { 0 } else { margin_ppm };
        if mine == 0 || theirs == 0 {
            return mine != 0;
        }
        let with_margin = || {
            let margin = mine.checked_mul(u128::from(margin_ppm))?;
            self.booked().checked_mul(MILLION)?.checked_add(margin)
        };
        match (with_margin(), other.booked().checked_mul(MILLION)) {
            (Some(with_margin), Some(booked)) => product(with_margin, theirs) <= product(booked, mine),
            (_, _) => false,
        }
    }

    /// Returns charged + set aside, in milli-GPU-milliseconds.
    #[must_use]
    pub fn booked(&self) -> u128 {
        self.charged.get().saturating_add(self.set_aside.get())
    }

    /// Returns allocation - charged - set aside, in milli-GPU-milliseconds: below zero when more was used than the
    /// share is worth.
    #[must_use]
    pub fn headroom(&self) -> i128 {
        let signed = |amount: u128| i128::try_from(amount).unwrap_or(i128::MAX);
        signed(self.allocation.get()).saturating_sub(signed(self.booked()))
    }

    /// Returns use in thousandths, rounded down, for display; none with allocation 0 and something booked.
    #[must_use]
    pub fn per_mille(&self) -> Option<u64> {
        self.times(1000)
    }

    /// Returns use in parts per million, rounded down, for display; none with allocation 0 and something booked.
    #[must_use]
    pub fn ppm(&self) -> Option<u64> {
        self.times(1_000_000)
    }

    fn times(&self, factor: u128) -> Option<u64> {
        match self.allocation.get() {
            0 => (self.booked() == 0).then_some(0),
            worth => Some(u64::try_from(self.booked().saturating_mul(factor) / worth).unwrap_or(u64::MAX)),
        }
    }
}

const MILLION: u128 = 1_000_000;

/// Returns a x b in 256 bits, high half first.
fn product(a: u128, b: u128) -> (u128, u128) {
    const HALF: u32 = 64;
    const LOW: u128 = (1 << HALF) - 1;
    let (a_high, a_low, b_high, b_low) = (a >> HALF, a & LOW, b >> HALF, b & LOW);
    let low = a_low * b_low;
    let (middle, is_over) = (a_high * b_low).overflowing_add(a_low * b_high);
    let (sum, is_carried) = low.overflowing_add(middle << HALF);
    let high = a_high * b_high + (middle >> HALF) + (u128::from(is_over) << HALF) + u128::from(is_carried);
    (high, sum)
}

#[cfg(test)]
mod tests {
    use crate::decision::UseOf;
    use crate::id::BudgetId;
    use crate::unit::ChargeMillis;

    fn used(booked: u128, allocation: u128) -> UseOf {
        UseOf {
            budget: BudgetId::new(1),
            charged: ChargeMillis::new(booked),
            set_aside: ChargeMillis::ZERO,
            allocation: ChargeMillis::new(allocation),
        }
    }

    #[test]
    fn the_margin_is_exact_to_the_last_part() {
        let (a, b) = (used(50, 100), used(60, 100));
        assert!(a.is_below_by(&b, 100_000), "0.5 + 0.1 is 0.6");
        assert!(!a.is_below_by(&b, 100_001));
        assert!(a.is_below_by(&a, 0) && !b.is_below_by(&a, 0));
        let large = 1 << 90;
        assert!(used(large * 5, large * 10).is_below_by(&used(large * 3, large * 5), 100_000));
        assert!(!used(large * 5 + 1, large * 10).is_below_by(&used(large * 3, large * 5), 100_000));
    }

    #[test]
    fn without_allocation_nobody_is_below_and_everybody_else_is_above() {
        let (none, some) = (used(0, 0), used(10_000, 1));
        assert!(!none.is_below_by(&some, 0) && !none.is_below_by(&none, 0));
        assert!(some.is_below_by(&none, 100_000));
    }
    #[test]
    fn amounts_of_a_hundred_thousand_gpus_over_ten_years_compare_exactly() {
        let ten_years = 100_000_u128 * 1_000 * 10 * 365 * 86_400_000;
        let (half, more) = (used(ten_years / 2, ten_years), used(ten_years / 10 * 6, ten_years));
        assert!(half.is_below_by(&more, 100_000) && !half.is_below_by(&more, 100_001));
        let one_more = used(ten_years / 2 + 1, ten_years);
        assert!(!one_more.is_below_by(&more, 100_000));
        // Beyond all that can be, nobody has a right by an overflow.
        let beyond = used(u128::MAX, u128::MAX);
        assert!(!beyond.is_below_by(&beyond, 0) && !half.is_below_by(&beyond, 100_000));
        assert!(!used(0, u128::MAX).is_below_by(&more, 100_000));
    }
}
