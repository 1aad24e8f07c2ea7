//! Slurm's weighted sum (`priority/multifactor`, <https://slurm.schedmd.com/priority_multifactor.html>).
//!
//! A job's value is the sum of weight times factor; each factor is from 0 to 1. The age factor grows in line to 1 at
//! `PriorityMaxAge`; the size factor is the job's part of the cluster; the fair-share factor is Fair Tree's. Use halves every
//! `PriorityDecayHalfLife`.

use scheduler_core::unit::Span;

/// How much each factor counts. The default is the first configuration example of the documentation: fair-share ten times
/// as much as age, size and partition, classes nothing, a half-life and a longest age of two weeks
/// (`PriorityWeightFairshare=10000`, `PriorityWeightAge=1000`, ..., `PriorityDecayHalfLife=14-0`, `PriorityMaxAge=14-0`). What
/// is not set would be 7 days for both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// `PriorityWeightAge`.
    pub age: f64,
    /// `PriorityWeightFairshare`.
    pub fair_share: f64,
    /// `PriorityWeightJobSize`.
    pub size: f64,
    /// `PriorityWeightPartition`.
    pub partition: f64,
    /// `PriorityWeightQOS`.
    pub class: f64,
    /// `PriorityMaxAge`.
    pub max_age: Span,
    /// `PriorityDecayHalfLife`.
    pub half_life: Span,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            age: 1000.0,
            fair_share: 10_000.0,
            size: 1000.0,
            partition: 1000.0,
            class: 0.0,
            max_age: Span::from_hours(14 * 24),
            half_life: Span::from_hours(14 * 24),
        }
    }
}

/// The factors of a job, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Factors {
    /// How long it waits, of the longest that counts.
    pub age: f64,
    /// Its user's place in Fair Tree.
    pub fair_share: f64,
    /// Its part of the cluster.
    pub size: f64,
    /// Its partition's.
    pub partition: f64,
    /// Its class of service's.
    pub class: f64,
}

/// Returns how much a wait counts, from 0 to 1.
#[must_use]
pub fn age_factor(waited: Span, weights: &Weights) -> f64 {
    if weights.max_age.is_zero() {
        return 1.0;
    }
    (seconds(waited) / seconds(weights.max_age)).min(1.0)
}

/// Returns what is left of a use after a time.
#[must_use]
pub fn decayed(usage: f64, after: Span, weights: &Weights) -> f64 {
    if weights.half_life.is_zero() {
        return usage;
    }
    usage * 0.5_f64.powf(seconds(after) / seconds(weights.half_life))
}

/// Returns a job's value: each part is cut to a whole number and then added, as in the lists of the manual page of `sprio`.
/// (One of its five examples adds before it cuts, and so is one more; newer versions do that. It is less than one a
/// factor, of ten thousand.)
#[must_use]
pub fn value(factors: &Factors, weights: &Weights) -> f64 {
    let parts = [
        weights.age * factors.age,
        weights.fair_share * factors.fair_share,
        weights.size * factors.size,
        weights.partition * factors.partition,
        weights.class * factors.class,
    ];
    parts.iter().map(|part| part.trunc()).sum()
}

/// Returns a span in seconds; milliseconds up to ten years are exact in a float.
#[expect(clippy::cast_precision_loss, reason = "ten years of milliseconds are far below 2^53")]
pub(super) fn seconds(span: Span) -> f64 {
    span.as_millis() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weights that the manual page of `sprio` shows (`sprio -w`, <https://slurm.schedmd.com/sprio.html>).
    const OF_THE_PAGE: Weights = Weights {
        age: 1000.0,
        fair_share: 100_000.0,
        size: 1000.0,
        partition: 10_000.0,
        class: 1.0,
        max_age: Span::from_hours(7 * 24),
        half_life: Span::from_hours(7 * 24),
    };

    /// The lists of the same page: factors as `sprio -n` prints them (age 0.0007180, size and partition 1, class 0), and the
    /// values that `sprio` prints for the same jobs, 65539 to 65541.
    #[test]
    fn values_are_those_of_the_manual_page_of_sprio() {
        let printed = [(0.516_647_0, 62_664.0), (0.516_637_0, 62_663.0), (0.516_627_0, 62_662.0)];
        for (fair_share, expected) in printed {
            let factors = Factors { age: 0.000_718_0, fair_share, size: 1.0, partition: 1.0, class: 0.0 };
            assert_eq!(value(&factors, &OF_THE_PAGE).to_bits(), f64::to_bits(expected), "{fair_share}");
        }
    }

    /// "A job that requests all the nodes on the machine will get a job size factor of 1.0", and "at some configurable length
    /// of time the age factor will max out to 1.0" (the multifactor page): such a job is worth its weights.
    #[test]
    fn factors_of_one_are_worth_their_weights() {
        let weights = Weights::default();
        let whole = Factors { age: age_factor(weights.max_age, &weights), size: 1.0, ..Factors::default() };
        assert_eq!(value(&whole, &weights).to_bits(), 2000.0_f64.to_bits());
    }

    #[test]
    fn age_grows_in_line_to_its_longest_and_use_halves_every_half_life() {
        let weights = Weights::default();
        let check =
            |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} != {expected}");
        check(age_factor(Span::from_hours(7 * 24), &weights), 0.5);
        check(age_factor(Span::from_hours(30 * 24), &weights), 1.0);
        check(decayed(80.0, Span::from_hours(28 * 24), &weights), 20.0);
    }
}
