//! What is to come, in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use scheduler_core::unit::Timestamp;

/// A queue of what is to come, by time, then by when it was put there.
#[derive(Debug)]
pub(super) struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    count: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Timestamp,
    number: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl<T> Queue<T> {
    pub(super) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), count: 0 }
    }

    pub(super) fn put(&mut self, at: Timestamp, what: T) {
        self.count += 1;
        self.heap.push(Reverse(Entry { at, number: self.count, what }));
    }

    /// Takes the next one, if it comes before `end`.
    pub(super) fn next(&mut self, end: Timestamp) -> Option<(Timestamp, T)> {
        if self.heap.peek().is_none_or(|Reverse(first)| first.at >= end) {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_at_once_keeps_its_order() {
        let mut queue = Queue::new();
        let at = Timestamp::from_millis;
        for (time, what) in [(5, 'c'), (3, 'a'), (5, 'd'), (3, 'b'), (9, 'e')] {
            queue.put(at(time), what);
        }
        let mut seen = String::new();
        while let Some((_, what)) = queue.next(at(9)) {
            seen.push(what);
        }
        assert_eq!(seen, "abcd", "what comes at the end of the run comes no more");
    }
}
