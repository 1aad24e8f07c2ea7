//! A cumulative total over time, as a line with breakpoints.

use alloc::vec::Vec;

use crate::table::Table;
use crate::unit::{Span, Timestamp};

/// Which breakpoints were merged, in all curves alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Merged {
    /// Only before this.
    pub until: Timestamp,
    /// Of those in one step of this length the first and the last stayed, so the line between two that are in one
    /// step may hide others, and any other line is exact. Never zero.
    pub step: Span,
}

impl Default for Merged {
    fn default() -> Self {
        Self { until: Timestamp::ZERO, step: Span::from_mins(1) }
    }
}

impl Merged {
    fn hides_between(self, from: Timestamp, to: Timestamp) -> bool {
        from < self.until && step_of(from, self.step) == step_of(to, self.step)
    }
}

fn step_of(at: Timestamp, step: Span) -> u64 {
    at.as_millis() / step.as_millis().max(1)
}

/// A cumulative total: exact at its breakpoints, a straight line between them, and growing at `rate` after the last.
///
/// The unit belongs to the owner: GPU-milliseconds or milli-GPU-milliseconds. Before its first breakpoint it is flat.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Curve {
    points: Table<Timestamp, u128>,
    rate: u64,
}

impl Curve {
    /// Makes a curve from what [`Curve::points`] and [`Curve::rate`] gave.
    #[must_use]
    pub fn from_parts(points: Table<Timestamp, u128>, rate: u64) -> Self {
        Self { points, rate }
    }

    /// Whether it is certainly the same as another, told without a look at the breakpoints.
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        self.rate == other.rate && self.points.is_shared_with(&other.points)
    }

    /// Returns the breakpoints: moments and the totals up to them.
    #[must_use]
    pub fn points(&self) -> &Table<Timestamp, u128> {
        &self.points
    }

    /// Returns what it grows by a millisecond after the last breakpoint.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Returns the total up to `at`, rounded down between merged breakpoints.
    #[must_use]
    pub fn total(&self, at: Timestamp) -> u128 {
        if let Some((&last, &base)) = self.points.last().filter(|(last, _)| **last <= at) {
            return base + u128::from(self.rate) * u128::from(at.since(last).as_millis());
        }
        let Some((&from, &base)) = self.points.at_or_before(&at) else {
            return self.points.first().map_or(0, |(_, &first)| first);
        };
        let Some((&to, &next)) = self.points.after(&at) else { return base };
        let run = u128::from(at.since(from).as_millis());
        base + next.saturating_sub(base) * run / u128::from(to.since(from).as_millis())
    }

    /// Returns what was added between two moments.
    #[must_use]
    pub fn between(&self, from: Timestamp, to: Timestamp) -> u128 {
        self.total(to).saturating_sub(self.total(from))
    }

    /// From `at` on it grows by `rate` more a millisecond; totals after `at` are rewritten.
    pub(super) fn rise(&mut self, at: Timestamp, rate: u64, merged: Merged) {
        self.mark(at, merged);
        for key in self.moments_after(at) {
            let added = u128::from(rate) * u128::from(key.since(at).as_millis());
            *self.points.get_mut(&key).expect("the moment was just listed") += added;
        }
        self.rate = self.rate.checked_add(rate).expect("rates of one pool add up far below 2^64");
    }

    /// From `at` on it grows by `rate` less a millisecond, which rose at `at` or before; totals after `at` are
    /// rewritten.
    ///
    /// # Panics
    /// When no such rise is in the curve: the caller's books are broken.
    pub(super) fn fall(&mut self, at: Timestamp, rate: u64, merged: Merged) {
        self.mark(at, merged);
        for key in self.moments_after(at) {
            let taken = u128::from(rate) * u128::from(key.since(at).as_millis());
            let total = self.points.get_mut(&key).expect("the moment was just listed");
            *total = total.checked_sub(taken).expect("what falls has risen before, and added this much");
        }
        self.rate = self.rate.checked_sub(rate).expect("what falls has risen before");
    }

    /// Puts a breakpoint at `at` if its total is known exactly: a breakpoint is never a guess.
    ///
    /// Where breakpoints were merged it isn't, and the line stays straight. Before the first it is if nothing was added
    /// by then; else breakpoints were dropped there, because nobody asks that far back.
    fn mark(&mut self, at: Timestamp, merged: Merged) {
        let is_last = self.points.last().is_none_or(|(last, _)| *last <= at);
        let is_exact = is_last
            || match (self.points.at_or_before(&at), self.points.after(&at)) {
                (_, None) => true,
                (None, Some((_, &first))) => first == 0,
                (Some((&from, _)), Some((&to, _))) => !merged.hides_between(from, to),
            };
        if is_exact {
            let total = self.total(at);
            self.points.insert(at, total);
        }
    }

    /// Merges breakpoints in `[from, to)`: of those in one `step` the first and the last stay. Drops those that nobody
    /// asks for who asks from `oldest` on.
    pub(super) fn thin(&mut self, from: Timestamp, to: Timestamp, step: Span, oldest: Timestamp) {
        let mut gone: Vec<Timestamp> = Vec::new();
        let (mut before, mut last): (Option<Timestamp>, Option<Timestamp>) = (None, None);
        for (&at, _) in self.points.range(from..to) {
            match (before, last) {
                (Some(before), Some(last)) if step_of(before, step) == step_of(at, step) => gone.push(last),
                (_, _) => before = last,
            }
            last = Some(at);
        }
        if let Some((&first_needed, _)) = self.points.at_or_before(&oldest) {
            gone.extend(self.points.range(..first_needed).map(|(&at, _)| at));
        }
        for at in &gone {
            self.points.remove(at);
        }
    }

    /// Adds to its total at all times; where nothing is known of it, from `at` on.
    pub(super) fn lift(&mut self, more: u128, at: Timestamp) {
        let moments: Vec<Timestamp> = self.points.keys().copied().collect();
        for key in &moments {
            *self.points.get_mut(key).expect("the moment was just listed") += more;
        }
        if moments.is_empty() {
            self.points.insert(at, more);
        }
    }

    /// Whether [`Curve::thin`] would find breakpoints to look at.
    pub(super) fn has_points_to_thin(&self, from: Timestamp, to: Timestamp, oldest: Timestamp) -> bool {
        let second = self.points.first().and_then(|(first, _)| self.points.after(first));
        self.points.range(from..to).next().is_some() || second.is_some_and(|(&at, _)| at <= oldest)
    }

    fn moments_after(&self, at: Timestamp) -> Vec<Timestamp> {
        let mut moments = Vec::new();
        if self.points.last().is_none_or(|(last, _)| *last <= at) {
            return moments;
        }
        let mut last = at;
        while let Some((&next, _)) = self.points.after(&last) {
            moments.push(next);
            last = next;
        }
        moments
    }
}
