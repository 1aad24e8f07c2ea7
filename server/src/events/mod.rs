//! What happened, for those who watch: the last 65,536 events by index.
//!
//! Events are derived from applied entries, on each replica alike. They are a view for people: nothing decides by them.

pub(crate) mod derive;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use proto::v1::EventView;
use scheduler_core::id::LogIndex;
use tokio::sync::watch;

/// How many events are kept.
pub const KEPT: usize = 65_536;

/// The ring.
#[derive(Debug)]
pub struct Events {
    ring: Mutex<Ring>,
    newest: watch::Sender<LogIndex>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<EventView>,
    /// Events up to this index may be missing.
    forgotten: LogIndex,
}

/// A part of the ring.
#[derive(Debug, PartialEq)]
pub enum Since {
    /// What came after the index that was asked for.
    Events(Vec<EventView>),
    /// Some of it is gone: start over from a read, then from this index.
    Resync(LogIndex),
}

impl Default for Events {
    fn default() -> Self {
        Self { ring: Mutex::default(), newest: watch::channel(LogIndex::default()).0 }
    }
}

impl Events {
    /// Notes what an entry did.
    pub fn record(&self, index: LogIndex, events: &[EventView]) {
        let mut ring = self.ring();
        for event in events {
            if ring.events.len() == KEPT {
                let gone = ring.events.pop_front().map_or(0, |event| event.index);
                ring.forgotten = LogIndex::new(gone);
            }
            ring.events.push_back(event.clone());
        }
        drop(ring);
        self.newest.send_replace(index);
    }

    /// Notes that everything up to `index` came as a snapshot, without its events.
    pub fn forget(&self, index: LogIndex) {
        let mut ring = self.ring();
        ring.events.clear();
        ring.forgotten = index;
        drop(ring);
        self.newest.send_replace(index);
    }

    /// Returns at most `most` events after `index`.
    #[must_use]
    pub fn after(&self, index: LogIndex, most: usize) -> Since {
        let ring = self.ring();
        if index < ring.forgotten {
            return Since::Resync(ring.forgotten);
        }
        let from = ring.events.partition_point(|event| event.index <= index.get());
        let mut events: Vec<_> = ring.events.iter().skip(from).take(most).cloned().collect();
        // Whole entries only: the next call asks after an index.
        if events.len() == most {
            let last = events.last().map_or(0, |event| event.index);
            let whole = events.partition_point(|event| event.index < last);
            if whole > 0 {
                events.truncate(whole);
            } else {
                events =
                    ring.events.iter().skip(from).take_while(|event| event.index == last).cloned().collect();
            }
        }
        Since::Events(events)
    }

    /// Returns a receiver of the newest index.
    #[must_use]
    pub fn newest(&self) -> watch::Receiver<LogIndex> {
        self.newest.subscribe()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(index: u64, n: u32) -> EventView {
        EventView { index, n, ..EventView::default() }
    }

    fn filled(indexes: impl IntoIterator<Item = (u64, u32)>) -> Events {
        let events = Events::default();
        events.ring().events.extend(indexes.into_iter().map(|(index, n)| event(index, n)));
        events
    }

    #[test]
    fn entries_are_never_cut_in_two() {
        let events = filled([(1, 0), (2, 0), (2, 1), (2, 2), (3, 0)]);
        let indexes = |after, most| match events.after(LogIndex::new(after), most) {
            Since::Events(events) => events.into_iter().map(|e| (e.index, e.n)).collect::<Vec<_>>(),
            Since::Resync(_) => panic!("nothing was forgotten"),
        };
        assert_eq!(indexes(0, 3), [(1, 0)]);
        assert_eq!(indexes(1, 2), [(2, 0), (2, 1), (2, 2)]);
        assert_eq!(indexes(2, 9), [(3, 0)]);
    }

    #[test]
    fn watcher_that_is_too_late_is_told_to_start_over() {
        let events = filled([(7, 0)]);
        events.forget(LogIndex::new(9));
        assert_eq!(events.after(LogIndex::new(8), 9), Since::Resync(LogIndex::new(9)));
        assert_eq!(events.after(LogIndex::new(9), 9), Since::Events(Vec::new()));
    }
}
