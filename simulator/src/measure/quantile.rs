//! Quantiles of waits of which some are not over: those are known as "at least".

use serde::{Deserialize, Serialize};

/// A length of time that may be known as a lower bound only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Known {
    /// Milliseconds.
    pub ms: u64,
    /// Whether it was longer than that, by how much nobody knows: it was not over when it was last seen.
    pub is_at_least: bool,
}

/// A sample in order of length; of equal ones those that are over first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    sorted: Vec<Known>,
}

impl Sample {
    pub(crate) fn of(values: impl IntoIterator<Item = Known>) -> Self {
        let mut sorted: Vec<Known> = values.into_iter().collect();
        sorted.sort_unstable();
        Self { sorted }
    }

    pub(crate) fn values(&self) -> &[Known] {
        &self.sorted
    }

    /// Returns the smallest value that `percent` of a hundred do not exceed (nearest rank).
    ///
    /// One that is not over counts with what is known of it. The result is exact if so many values that are over do not
    /// exceed it; else it is a lower bound, since those that are not over may all have become longer.
    pub(crate) fn quantile(&self, percent: usize) -> Option<Known> {
        let rank = (self.sorted.len() * percent).div_ceil(100).max(1);
        let at = self.sorted.get(rank - 1)?;
        let upto = self.sorted.partition_point(|value| value.ms <= at.ms);
        let over = self.sorted[..upto].iter().filter(|value| !value.is_at_least).count();
        Some(Known { ms: at.ms, is_at_least: over < rank })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(ms: u64) -> Known {
        Known { ms, is_at_least: false }
    }

    fn at_least(ms: u64) -> Known {
        Known { ms, is_at_least: true }
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let sample = Sample::of((1..=10).map(exact));
        let of = |percent| sample.quantile(percent);
        assert_eq!([of(50), of(90), of(99), of(100)], [exact(5), exact(9), exact(10), exact(10)].map(Some));
        assert_eq!(Sample::default().quantile(50), None);
    }

    #[test]
    fn a_wait_that_is_not_over_makes_what_it_could_change_a_lower_bound() {
        let sample = Sample::of([exact(1), exact(2), at_least(2), exact(3), at_least(9)]);
        assert_eq!(sample.quantile(40), Some(exact(2)), "two of five are over and no longer than 2");
        assert_eq!(sample.quantile(60), Some(at_least(2)));
        assert_eq!(sample.quantile(80), Some(at_least(3)), "the one of 2 may have become longer than 3");
        assert_eq!(sample.quantile(100), Some(at_least(9)));
    }

    proptest! {
        #[test]
        fn a_quantile_is_never_above_the_true_one_and_equals_it_unless_marked(
            waits in prop::collection::vec((0_u64..50, 0_u64..3, 0_u64..20), 1..40),
            percent in 1_usize..=100,
        ) {
            // A third are not over: what is known of them is less than the truth.
            let truth = Sample::of(waits.iter().map(|(ms, _, _)| exact(*ms)));
            let known = Sample::of(waits.iter().map(|(ms, kind, short)| {
                if *kind == 0 { at_least(ms.saturating_sub(*short)) } else { exact(*ms) }
            }));
            let (truth, known) = (truth.quantile(percent).unwrap(), known.quantile(percent).unwrap());
            prop_assert!(known.ms <= truth.ms);
            prop_assert!(known.is_at_least || known.ms == truth.ms);
        }
    }
}
