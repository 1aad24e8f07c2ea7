//! A cumulative total over time, as a line with breakpoints.

use alloc::vec::Vec;

use crate::table::Table;
use crate::unit::{Span, Timestamp};

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
        let Some((&from, &base)) = self.points.at_or_before(&at) else {
            return self.points.first().map_or(0, |(_, &first)| first);
        };
        let run = u128::from(at.since(from).as_millis());
        match self.points.after(&at) {
            None => base + u128::from(self.rate) * run,
            Some((&to, &next)) => base + (next - base) * run / u128::from(to.since(from).as_millis()),
        }
    }

    /// Returns what was added between two moments.
    #[must_use]
    pub fn between(&self, from: Timestamp, to: Timestamp) -> u128 {
        self.total(to).saturating_sub(self.total(from))
    }

    /// From `at` on it grows by `rate` more a millisecond; totals after `at` are rewritten.
    pub fn rise(&mut self, at: Timestamp, rate: u64) {
        let total = self.total(at);
        self.points.insert(at, total);
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
    pub fn fall(&mut self, at: Timestamp, rate: u64) {
        // A moment before all that is kept: what was added up to it is in every kept point, and stays there.
        let is_kept = self.points.first().is_some_and(|(&first, _)| first <= at);
        let before = self.total(at);
        self.rate = self.rate.checked_sub(rate).expect("what falls has risen before");
        for key in self.moments_after(at) {
            let taken = u128::from(rate) * u128::from(key.since(at).as_millis());
            let total = self.points.get_mut(&key).expect("the moment was just listed");
            *total = total.checked_sub(taken).expect("what falls has risen before, and added this much");
        }
        if is_kept {
            // Between merged points the line may be above what the next point now says.
            let next = self.points.after(&at).map_or(before, |(_, &next)| next);
            self.points.insert(at, before.min(next));
        }
    }

    /// Merges breakpoints in `[from, to)` to one for each `step`, the last of each, and drops those that nobody asks
    /// for who asks from `oldest` on. Returns whether anything changed.
    pub(super) fn thin(&mut self, from: Timestamp, to: Timestamp, step: Span, oldest: Timestamp) -> bool {
        let step_ms = step.as_millis().max(1);
        let mut gone: Vec<Timestamp> = Vec::new();
        let mut kept: Option<Timestamp> = None;
        for (&at, _) in self.points.range(from..to) {
            if let Some(earlier) = kept.replace(at)
                && earlier.as_millis() / step_ms == at.as_millis() / step_ms
            {
                gone.push(earlier);
            }
        }
        if let Some((&first_needed, _)) = self.points.at_or_before(&oldest) {
            gone.extend(self.points.range(..first_needed).map(|(&at, _)| at));
        }
        for at in &gone {
            self.points.remove(at);
        }
        !gone.is_empty()
    }

    /// Whether [`Curve::thin`] would find breakpoints to look at.
    pub(super) fn has_points_to_thin(&self, from: Timestamp, to: Timestamp, oldest: Timestamp) -> bool {
        let second = self.points.first().and_then(|(first, _)| self.points.after(first));
        self.points.range(from..to).next().is_some() || second.is_some_and(|(&at, _)| at <= oldest)
    }

    fn moments_after(&self, at: Timestamp) -> Vec<Timestamp> {
        let mut moments = Vec::new();
        let mut last = at;
        while let Some((&next, _)) = self.points.after(&last) {
            moments.push(next);
            last = next;
        }
        moments
    }
}
