//! Nodes in the order in which a job takes idle ones: the fullest first, so that emptier ones stay useful for larger jobs;
//! of equally full ones the one whose protection ends closest to the job's own, so that whole nodes come free together.

use alloc::collections::BTreeSet;
use alloc::collections::btree_set::Range;

use super::idle::Spare;
use crate::unit::Timestamp;

/// Idle GPUs, the end of protection, and the node's place.
type Key = (usize, Timestamp, usize);

/// A moment after every other.
const NEVER: Timestamp = Timestamp::from_millis(u64::MAX);

/// Nodes by what they have left.
#[derive(Debug, Clone, Default)]
pub(super) struct ByFit(BTreeSet<Key>);

impl ByFit {
    /// Returns these nodes, by their places.
    pub(super) fn of(nodes: &[Spare<'_>]) -> Self {
        Self(nodes.iter().enumerate().map(|(at, spare)| key(spare, at)).collect())
    }

    /// Adds the node at a place.
    pub(super) fn insert(&mut self, spare: &Spare<'_>, at: usize) {
        self.0.insert(key(spare, at));
    }

    /// Takes the node at a place out, which has not changed since it came in.
    pub(super) fn remove(&mut self, spare: &Spare<'_>, at: usize) {
        self.0.remove(&key(spare, at));
    }

    /// Returns the places of nodes with at least so many idle GPUs, for a job whose protection ends at a moment.
    pub(super) fn from(&self, wanted: usize, ends: Timestamp) -> impl Iterator<Item = usize> + '_ {
        let none = self.0.range((usize::MAX, NEVER, usize::MAX)..);
        Walk { set: &self.0, ends, count: None, least: wanted, below: ends, above: Some(ends), group: none }
    }
}

fn key(spare: &Spare<'_>, at: usize) -> Key {
    (spare.slots.len(), spare.protected_until, at)
}

/// Goes from group to group of nodes that are equally full and end at the same moment, the closest first; of two that are
/// equally close the earlier.
struct Walk<'s> {
    set: &'s BTreeSet<Key>,
    ends: Timestamp,
    /// Idle GPUs of those that are gone through now.
    count: Option<usize>,
    /// And of the next ones at least.
    least: usize,
    /// Groups that end before this were not gone through.
    below: Timestamp,
    /// Nor those that end at this or later; none if there are none.
    above: Option<Timestamp>,
    group: Range<'s, Key>,
}

impl<'s> Walk<'s> {
    /// Goes to the next group; none if there is none.
    fn turn(&mut self) -> Option<()> {
        loop {
            let count = match self.count {
                Some(count) => count,
                None => self.next_count()?,
            };
            let below = self.set.range((count, Timestamp::ZERO, 0)..(count, self.below, 0)).next_back();
            let above = self
                .above
                .and_then(|from| self.set.range((count, from, 0)..=(count, NEVER, usize::MAX)).next());
            let far = |(_, at, _): &Key| at.since(self.ends).max(self.ends.since(*at));
            let at = match (below, above) {
                (Some(one), Some(other)) if far(other) < far(one) => other.1,
                (Some(one), _) | (None, Some(one)) => one.1,
                (None, None) => {
                    self.count = None;
                    continue;
                }
            };
            if at < self.ends {
                self.below = at;
            } else {
                self.above = at.as_millis().checked_add(1).map(Timestamp::from_millis);
            }
            self.group = self.set.range((count, at, 0)..=(count, at, usize::MAX));
            return Some(());
        }
    }

    fn next_count(&mut self) -> Option<usize> {
        let (count, ..) = *self.set.range((self.least, Timestamp::ZERO, 0)..).next()?;
        (self.count, self.least) = (Some(count), count.saturating_add(1));
        (self.below, self.above) = (self.ends, Some(self.ends));
        Some(count)
    }
}

impl Iterator for Walk<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some((_, _, at)) = self.group.next() {
                return Some(*at);
            }
            self.turn()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_fullest_come_first_then_the_closest_end_then_the_earlier_one() {
        let at = Timestamp::from_millis;
        let all = [(2, 0), (1, 50), (1, 90), (1, 60), (1, 80), (1, 60), (3, 70), (1, 0), (2, 71)];
        let keys = all.iter().enumerate().map(|(place, (count, ends))| (*count, at(*ends), place));
        let set = ByFit(keys.collect());
        let places = |wanted, ends| set.from(wanted, at(ends)).collect::<Vec<_>>();
        assert_eq!(places(1, 70), [3, 5, 4, 1, 2, 7, 8, 0, 6]);
        assert_eq!(places(2, 70), [8, 0, 6]);
        assert_eq!(places(1, 0), [7, 1, 3, 5, 4, 2, 0, 8, 6]);
        assert_eq!(places(4, 70), []);
        assert_eq!(places(3, u64::MAX), [6]);
    }
}
