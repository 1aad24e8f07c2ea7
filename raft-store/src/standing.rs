//! What replicas remember of each other, so that one that comes back from an older copy of its disk is found out.
//!
//! A replica that answers another tells it its vote and how far its log goes; both are promises. It must never
//! come back with less. Each connection starts with a greeting in which both say what they hold and what they
//! remember of the other. What is remembered is kept in a file that trails it by about a second, so it outlasts
//! restarts of all of them.
//!
//! The greeting also tells a replica that it is no member any more: it then takes no part ever again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::log::LogStore;
use crate::record::{Position, Vote};
use crate::{ReplicaId, remembered};

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

/// What one replica knows of another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// What is remembered of it.
    pub(crate) held: Held,
    /// It leads in this term with a majority, by the vote of whoever knows this: known for as long as that vote is,
    /// whatever became of the file.
    pub(crate) led: Option<u64>,
}

/// What this replica holds, and what it remembers of the others.
pub(crate) struct Standing {
    own: Mutex<Option<LogStore>>,
    others: Mutex<Others>,
    /// Where what is remembered is kept; a modelled replica has no directory.
    dir: Mutex<Option<PathBuf>>,
    /// Held while what is remembered is written: on a disk that stands still one writer waits, not one a second.
    saving: Mutex<()>,
    /// Who has greeted this process: nobody else is answered.
    met: Mutex<BTreeSet<ReplicaId>>,
    /// The newest entry with members, this replica among them, that its log holds.
    member_by: Mutex<Option<u64>>,
    removed_by: watch::Sender<Option<u64>>,
}

#[derive(Default)]
struct Others {
    held: BTreeMap<ReplicaId, Held>,
    has_changed: bool,
    /// Whether the last writing failed: that is said once.
    has_failed: bool,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            own: Mutex::default(),
            others: Mutex::default(),
            dir: Mutex::default(),
            saving: Mutex::default(),
            met: Mutex::default(),
            member_by: Mutex::default(),
            removed_by: watch::Sender::new(None),
        }
    }
}

impl Standing {
    /// Says where to look for what this replica holds; `None` once it has stopped.
    pub(crate) fn stands_on(&self, log: Option<LogStore>) {
        *lock(&self.own) = log;
    }

    /// Reads what was remembered in `dir`, and keeps it there from now on.
    pub(crate) fn keep_in(&self, dir: &Path) {
        match remembered::load(dir) {
            Ok(held) => lock(&self.others).held = held,
            // Only what others lost could be told by it; this replica's own data is checked without.
            Err(cause) => {
                tracing::error!("what was remembered of the other replicas cannot be read: {cause}")
            }
        }
        *lock(&self.dir) = Some(dir.to_owned());
    }

    /// Writes down what is remembered, if it has changed and nobody is writing it. Disk work.
    pub(crate) fn save(&self) {
        if let Ok(turn) = self.saving.try_lock() {
            self.write_down(&turn);
        }
    }

    /// Writes down all that is remembered, behind whoever is writing what it was a while ago. Disk work, for the end.
    pub(crate) fn save_all(&self) {
        let turn = lock(&self.saving);
        self.write_down(&turn);
    }

    fn write_down(&self, _turn: &MutexGuard<'_, ()>) {
        let Some(dir) = lock(&self.dir).clone() else { return };
        let held = {
            let mut others = lock(&self.others);
            if !std::mem::take(&mut others.has_changed) {
                return;
            }
            others.held.clone()
        };
        let stored = remembered::store(&dir, &held);
        let mut others = lock(&self.others);
        let was_failing = std::mem::replace(&mut others.has_failed, stored.is_err());
        if let Err(cause) = stored {
            others.has_changed = true;
            if !was_failing {
                tracing::warn!("what is remembered of the other replicas could not be written: {cause}");
            }
        }
    }

    /// Forgets replicas that are no members any more: their numbers never come back.
    pub(crate) fn keep_only(&self, members: &BTreeSet<ReplicaId>) {
        let mut others = lock(&self.others);
        let before = others.held.len();
        others.held.retain(|id, _| members.contains(id));
        others.has_changed |= others.held.len() != before;
    }

    /// Notes that another replica has said what it remembers of this one, and that nothing of it is missing.
    pub(crate) fn meets(&self, id: ReplicaId) {
        lock(&self.met).insert(id);
    }

    /// Whether another replica has greeted this process. A connection may outlast a restart without anybody noticing;
    /// what this replica answers counts only once it is known to hold what it had.
    pub(crate) fn has_met(&self, id: ReplicaId) -> bool {
        lock(&self.met).contains(&id)
    }

    /// Notes that the log's entry `index` has this replica among its members.
    pub(crate) fn is_member_by(&self, index: u64) {
        let mut newest = lock(&self.member_by);
        *newest = (*newest).max(Some(index));
    }

    /// Takes another replica's word that the committed members of entry `index` do not have this one. An older entry
    /// than the one that made it a member says nothing; 0 says nothing. Returns whether this replica is removed.
    pub(crate) fn is_removed_by(&self, index: u64) -> bool {
        let member_by = *lock(&self.member_by);
        let is_removed = index > 0 && member_by.is_some_and(|member_by| index > member_by);
        if is_removed {
            self.removed_by.send_if_modified(|known| known.is_none() && known.replace(index).is_none());
        }
        is_removed
    }

    /// Follows whether, and by which entry, this replica was removed.
    pub(crate) fn removed(&self) -> watch::Receiver<Option<u64>> {
        self.removed_by.subscribe()
    }

    /// Returns what this replica holds.
    pub(crate) fn own(&self) -> Option<Held> {
        lock(&self.own).as_ref().map(Held::of)
    }

    /// Returns what this replica knows of another.
    pub(crate) fn known(&self, id: ReplicaId) -> Known {
        let own = lock(&self.own).as_ref().and_then(|log| log.vote_and_state().0);
        let follows = own.filter(|vote| vote.committed && vote.voted_for == id.get());
        Known { held: self.remembered(id), led: follows.map(|vote| vote.term) }
    }

    /// Returns what this replica, which is `own`, lacks of what another knows of it: it has lost that.
    pub(crate) fn lacks(&self, own: ReplicaId, known: &Known) -> Option<String> {
        let (vote, held) = {
            let log = lock(&self.own);
            let log = log.as_ref()?;
            (log.vote_and_state().0, Held::of(log))
        };
        held.lacks(&known.held).or_else(|| gave_twice(vote?, own, known.led?))
    }

    /// Remembers that another replica has told of a vote in `term`.
    pub(crate) fn voted(&self, id: ReplicaId, term: u64) {
        self.raise(id, Held { term, last: None });
    }

    /// Remembers that another replica has acknowledged its log up to `last` to the leader of `term`.
    pub(crate) fn acknowledged(&self, id: ReplicaId, term: u64, last: Option<Position>) {
        self.raise(id, Held { term, last });
    }

    /// Returns what is remembered of another replica.
    pub(crate) fn remembered(&self, id: ReplicaId) -> Held {
        lock(&self.others).held.get(&id).copied().unwrap_or_default()
    }

    fn raise(&self, id: ReplicaId, seen: Held) {
        let mut others = lock(&self.others);
        let held = others.held.entry(id).or_default();
        let before = *held;
        held.raise(seen);
        let has_changed = *held != before;
        others.has_changed |= has_changed;
    }
}

/// Whoever led in a term had voted for itself in it. One that has a vote for another one of that term has lost its own,
/// and has helped to make a second leader.
fn gave_twice(vote: Vote, own: ReplicaId, led: u64) -> Option<String> {
    (vote.term == led && vote.voted_for != own.get()).then(|| {
        format!("it led in term {led}, and holds a vote for replica {} in that term", vote.voted_for)
    })
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
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn held(term: u64, index: u64) -> Held {
        Held { term, last: Some(Position { term, index }) }
    }

    #[test]
    fn whoever_led_in_a_term_and_votes_for_another_one_in_it_has_lost_its_vote() {
        let (own, other) = (ReplicaId::new(2), ReplicaId::new(3));
        let vote = |term, voted_for: ReplicaId| Vote { term, voted_for: voted_for.get(), committed: true };
        assert!(gave_twice(vote(6, other), own, 6).is_some_and(|what| what.contains("led in term 6")));
        assert_eq!(gave_twice(vote(6, own), own, 6), None);
        assert_eq!(gave_twice(vote(7, other), own, 6), None, "another election came after it");
        assert_eq!(gave_twice(vote(5, other), own, 6), None, "its own may never have been durable");
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

    #[test]
    fn what_is_remembered_outlasts_a_restart_and_goes_with_the_member() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (stays, goes) = (ReplicaId::new(2), ReplicaId::new(3));
        let standing = Standing::default();
        standing.keep_in(dir.path());
        standing.acknowledged(stays, 3, Some(Position { term: 3, index: 9 }));
        standing.voted(goes, 3);
        standing.save();
        let again = Standing::default();
        again.keep_in(dir.path());
        assert_eq!(again.remembered(stays), held(3, 9));
        assert_eq!(again.remembered(goes).term, 3);
        again.keep_only(&BTreeSet::from([stays]));
        again.save();
        let third = Standing::default();
        third.keep_in(dir.path());
        assert_eq!((third.remembered(stays), third.remembered(goes)), (held(3, 9), Held::default()));
    }

    #[test]
    fn what_is_remembered_at_the_end_is_written_behind_a_writing_that_is_under_way() {
        const A_WHILE: Duration = Duration::from_millis(200);
        let dir = tempfile::tempdir().expect("a temporary directory");
        let id = ReplicaId::new(2);
        let standing = Standing::default();
        standing.keep_in(dir.path());
        standing.acknowledged(id, 3, Some(Position { term: 3, index: 9 }));
        let under_way = lock(&standing.saving);
        let (done, saved) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                standing.save_all();
                done.send(()).expect("somebody listens");
            });
            assert!(saved.recv_timeout(A_WHILE).is_err(), "the other one writes what it was a while ago");
            drop(under_way);
        });
        let again = Standing::default();
        again.keep_in(dir.path());
        assert_eq!(again.remembered(id), held(3, 9));
    }

    #[test]
    fn only_newer_members_than_those_it_was_one_of_remove_a_replica() {
        let standing = Standing::default();
        assert!(!standing.is_removed_by(7), "it was never a member: it waits");
        standing.is_member_by(0);
        standing.is_member_by(9);
        assert!(!standing.is_removed_by(7), "the others have yet to learn that it is one");
        assert!(!standing.is_removed_by(0));
        assert_eq!(*standing.removed().borrow(), None);
        assert!(standing.is_removed_by(12));
        assert!(standing.is_removed_by(15));
        assert_eq!(*standing.removed().borrow(), Some(12));
    }
}
