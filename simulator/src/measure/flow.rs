//! How many GPUs do, want or are something over time: a step function with exact sums.

/// Steps over time, in GPUs, and the GPU-milliseconds up to each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// From when, in milliseconds.
    at: u64,
    /// How many from then on.
    level: u64,
    /// GPU-milliseconds before it.
    before: u64,
}

/// So many GPUs between two moments in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lot {
    /// From when.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// How many.
    pub gpus: u64,
}

impl Flow {
    /// Adds up lots; one that ends before it begins is none.
    pub(crate) fn of(lots: impl IntoIterator<Item = Lot>) -> Self {
        let mut changes: Vec<(u64, i64)> = Vec::new();
        for lot in lots.into_iter().filter(|lot| lot.from < lot.until && lot.gpus > 0) {
            let gpus = i64::try_from(lot.gpus).unwrap_or(i64::MAX);
            changes.extend([(lot.from, gpus), (lot.until, -gpus)]);
        }
        changes.sort_unstable();
        // Not by doubling: a year of a thousand GPUs has millions of steps.
        let moments = changes.chunk_by(|a, b| a.0 == b.0).count();
        let mut flow = Self { steps: Vec::with_capacity(moments) };
        let mut level = 0_i128;
        let mut rest = changes.as_slice();
        while let Some(&(at, _)) = rest.first() {
            let (now, later) = rest.split_at(rest.partition_point(|change| change.0 == at));
            level += now.iter().map(|change| i128::from(change.1)).sum::<i128>();
            flow.push(at, u64::try_from(level).unwrap_or(0));
            rest = later;
        }
        flow
    }

    /// Appends a step that is later than all others.
    fn push(&mut self, at: u64, level: u64) {
        let before = match self.steps.last() {
            Some(last) if last.level == level => return,
            Some(last) => last.before.saturating_add(last.level.saturating_mul(at.saturating_sub(last.at))),
            None => 0,
        };
        self.steps.push(Step { at, level, before });
    }

    fn step(&self, at: u64) -> Option<Step> {
        self.steps.partition_point(|step| step.at <= at).checked_sub(1).map(|place| self.steps[place])
    }

    /// Returns the level at a moment.
    pub(crate) fn at(&self, at: u64) -> u64 {
        self.step(at).map_or(0, |step| step.level)
    }

    /// Returns the GPU-milliseconds between two moments.
    pub(crate) fn between(&self, from: u64, until: u64) -> u64 {
        let before = |at: u64| self.step(at).map_or(0, |step| step.before + step.level * (at - step.at));
        before(until.max(from)).saturating_sub(before(from))
    }

    /// Returns the moments of all steps, in order.
    pub(crate) fn moments(&self) -> impl Iterator<Item = u64> + '_ {
        self.steps.iter().map(|step| step.at)
    }

    /// Returns, at each moment, what `combine` makes of the two levels.
    pub(crate) fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let mut moments: Vec<u64> = self.moments().chain(other.moments()).collect();
        moments.sort_unstable();
        moments.dedup();
        let mut flow = Self { steps: Vec::with_capacity(moments.len()) };
        for at in moments {
            flow.push(at, combine(self.at(at), other.at(at)));
        }
        flow
    }

    /// Returns the smaller of the two at each moment.
    pub(crate) fn at_most(&self, other: &Self) -> Self {
        self.with(other, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lot(from: u64, until: u64, gpus: u64) -> Lot {
        Lot { from, until, gpus }
    }

    #[test]
    fn overlapping_lots_add_up() {
        let flow = Flow::of([lot(0, 10, 2), lot(5, 15, 4), lot(7, 7, 9), lot(9, 3, 1)]);
        assert_eq!([0, 4, 5, 9, 10, 14, 15].map(|at| flow.at(at)), [2, 2, 6, 6, 4, 4, 0]);
        assert_eq!(flow.between(0, 15), 2 * 10 + 4 * 10);
        assert_eq!(flow.between(4, 6), 2 + 6);
        assert_eq!(flow.between(20, 30), 0);
        assert_eq!(flow.between(6, 4), 0);
    }

    #[test]
    fn one_caps_another_moment_by_moment() {
        let wanted = Flow::of([lot(0, 10, 6)]);
        let there = Flow::of([lot(0, 5, 4), lot(5, 20, 8)]);
        assert_eq!(wanted.at_most(&there).between(0, 20), 4 * 5 + 6 * 5);
        assert_eq!(there.with(&wanted, u64::saturating_sub).between(0, 20), 2 * 5 + 8 * 10);
    }

    fn lots() -> impl Strategy<Value = Vec<Lot>> {
        prop::collection::vec((0_u64..100, 0_u64..50, 0_u64..9).prop_map(|(a, b, c)| lot(a, a + b, c)), 0..20)
    }

    proptest! {
        #[test]
        fn sums_equal_the_levels_added_up(lots in lots(), from in 0_u64..120, length in 0_u64..120) {
            let flow = Flow::of(lots.iter().copied());
            let level = |at: u64| lots.iter().filter(|l| l.from <= at && at < l.until).map(|l| l.gpus).sum::<u64>();
            for at in from..from + length {
                prop_assert_eq!(flow.at(at), level(at));
            }
            prop_assert_eq!(flow.between(from, from + length), (from..from + length).map(level).sum::<u64>());
        }

        #[test]
        fn the_smaller_and_what_is_left_add_up_to_the_whole(a in lots(), b in lots()) {
            let (a, b) = (Flow::of(a), Flow::of(b));
            let both = a.at_most(&b).between(0, 200) + a.with(&b, u64::saturating_sub).between(0, 200);
            prop_assert_eq!(both, a.between(0, 200));
        }
    }
}
