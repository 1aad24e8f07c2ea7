//! What replicas remember of each other, so that one that comes back from an older copy of its disk is found out.
//!
//! A replica that answers another tells it its vote and how far its log goes; both are promises. It must never
//! come back with less. Each connection starts with a greeting in which both say what they hold and what they
//! remember of the other. What is remembered lives in memory: it outlasts the other's restart, not one's own.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ReplicaId;
use crate::log::LogStore;
use crate::record::Position;

/// What a replica holds, or was known to hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// The term of its vote.
    pub(crate) term: u64,
    /// How far its log went while it followed the leader of that term.
    pub(crate) last: Option<Position>,
}

impl Held {
    /// Returns what is missing, if a replica that had held `before` may hold `self` only by having lost something.
    ///
    /// Within one term a log only grows. A later leader may have shortened it; then the vote is of a later term.
    pub(crate) fn lacks(&self, before: &Self) -> Option<String> {
        if self.term < before.term {
            return Some(format!(
                "it had voted in term {}, and holds a vote of term {}",
                before.term, self.term
            ));
        }
        let next = |last: Option<Position>| last.map_or(0, |last| last.index + 1);
        if self.term == before.term && next(self.last) < next(before.last) {
            let at = before.last.map_or(0, |last| last.index);
            let ends =
                self.last.map_or_else(|| "is empty".to_owned(), |last| format!("ends at {}", last.index));
            return Some(format!(
                "it had acknowledged index {at} in term {}, and its log {ends}",
                before.term
            ));
        }
        None
    }

    fn raise(&mut self, seen: Self) {
        if seen.term > self.term {
            *self = seen;
        } else if seen.term == self.term {
            self.last = self.last.max(seen.last);
        }
    }
}

/// What this replica holds, and what it remembers of the others.
#[derive(Default)]
pub(crate) struct Standing {
    own: Mutex<Option<LogStore>>,
    others: Mutex<BTreeMap<ReplicaId, Held>>,
}

impl Standing {
    /// Says where to look for what this replica holds; `None` once it has stopped.
    pub(crate) fn stands_on(&self, log: Option<LogStore>) {
        *lock(&self.own) = log;
    }

    /// Returns what this replica holds.
    pub(crate) fn own(&self) -> Option<Held> {
        lock(&self.own).as_ref().map(Held::of)
    }

    /// Remembers that another replica has told of a vote in `term`.
    pub(crate) fn voted(&self, id: ReplicaId, term: u64) {
        lock(&self.others).entry(id).or_default().raise(Held { term, last: None });
    }

    /// Remembers that another replica has acknowledged its log up to `last` to the leader of `term`.
    pub(crate) fn acknowledged(&self, id: ReplicaId, term: u64, last: Option<Position>) {
        lock(&self.others).entry(id).or_default().raise(Held { term, last });
    }

    /// Returns what is remembered of another replica.
    pub(crate) fn remembered(&self, id: ReplicaId) -> Held {
        lock(&self.others).get(&id).copied().unwrap_or_default()
    }
}

impl Held {
    /// Looks at a log.
    pub(crate) fn of(log: &LogStore) -> Self {
        let (vote, state) = log.vote_and_state();
        Self { term: vote.map_or(0, |vote| vote.term), last: state.last }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(term: u64, index: u64) -> Held {
        Held { term, last: Some(Position { term, index }) }
    }

    #[test]
    fn a_lost_vote_or_a_shorter_log_of_one_term_is_noticed_and_a_shortened_one_is_not() {
        assert_eq!(held(3, 9).lacks(&held(3, 9)), None);
        assert_eq!(held(3, 12).lacks(&held(3, 9)), None);
        assert_eq!(held(4, 5).lacks(&held(3, 9)), None, "the leader of term 4 may have shortened it");
        assert!(held(3, 8).lacks(&held(3, 9)).is_some_and(|what| what.contains("index 9")));
        assert!(held(2, 9).lacks(&held(3, 0)).is_some_and(|what| what.contains("term 3")));
        assert!(Held::default().lacks(&held(1, 0)).is_some());
        assert_eq!(Held::default().lacks(&Held::default()), None);
    }

    #[test]
    fn the_most_is_remembered() {
        let standing = Standing::default();
        let id = ReplicaId::new(2);
        standing.acknowledged(id, 3, Some(Position { term: 3, index: 9 }));
        standing.acknowledged(id, 3, Some(Position { term: 3, index: 7 }));
        standing.voted(id, 2);
        assert_eq!(standing.remembered(id), held(3, 9));
        standing.voted(id, 4);
        assert_eq!(standing.remembered(id), Held { term: 4, last: None });
    }
}
