//! The replicated state under the log: decode, apply, answer, publish.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use raft_store::{BoxError, Committed, Frozen, Machine as Replicated};
use scheduler_core::apply;
use scheduler_core::command::{Answer, Entry};
use scheduler_core::id::{LogIndex, Term};
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use crate::events::{self, Events};
use crate::history::{self, History};
use crate::time::Clock;
use crate::view::{Publisher, View};

thread_local! {
    static IS_APPLYING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside the one call whose panic is answered instead of ending the process.
#[must_use]
pub fn is_applying() -> bool {
    IS_APPLYING.get()
}

/// The state of one replica, driven by its log.
pub struct Machine {
    view: View,
    publisher: Publisher,
    events: Arc<Events>,
    history: History,
    clock: Arc<Clock>,
}

/// Where an entry stands, and when it happens.
#[derive(Clone, Copy)]
struct At {
    index: LogIndex,
    term: Term,
    time: Timestamp,
}

impl Machine {
    /// Makes an empty machine that publishes what it becomes.
    #[must_use]
    pub fn new(publisher: Publisher, events: Arc<Events>, history: History, clock: Arc<Clock>) -> Self {
        Self { view: View::default(), publisher, events, history, clock }
    }

    fn one(&mut self, entry: &Committed<'_>) -> Vec<u8> {
        let (index, term) = (LogIndex::new(entry.index), Term::new(entry.term));
        let before = self.view.state.clone();
        let decoded = read(entry);
        let at = At { index, term, time: decoded.time };
        let answer = self.guarded(&before, at, |state| apply::apply(state, index, term, &decoded));
        (self.view.index, self.view.term) = (index, term);
        self.tell(&before, index, &decoded, &answer);
        proto::encode_answer(&answer)
    }

    /// Tells watchers and history what an entry did.
    fn tell(&self, before: &State, index: LogIndex, entry: &Entry, answer: &Answer) {
        let after = &self.view.state;
        let events = events::derive::events(before, after, index, entry, answer);
        self.events.record(index, &events);
        self.history.record(index, history::told(before, after, index, (entry, answer), events));
    }

    /// Runs `apply`; a panic inside drops its changes whole and starts safe mode, on every replica alike.
    fn guarded(&mut self, before: &State, at: At, apply: impl FnOnce(&mut State) -> Answer) -> Answer {
        let state = &mut self.view.state;
        caught(|| apply(state)).unwrap_or_else(|| {
            tracing::error!(index = %at.index, "applying an entry panicked: its changes are dropped, safe mode begins");
            self.view.state = before.clone();
            self.view.state.meta.term = at.term;
            apply::broken(&mut self.view.state, at.index, at.time, "applying an entry panicked")
        })
    }

    fn publish(&self) {
        self.publisher.publish(self.view.clone());
        // After the view: nobody reads a time after a step of it without the state that has the step.
        self.clock.seen(self.view.state.meta.time);
    }
}

/// Runs what applies entries; none if it panics, which does not stop the process then.
pub fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    IS_APPLYING.set(true);
    let answer = catch_unwind(AssertUnwindSafe(run));
    IS_APPLYING.set(false);
    answer.ok()
}

/// Reads an entry. One that can't be read was written by a newer version: going on would make this replica's state
/// another than its peers'.
fn read(entry: &Committed<'_>) -> Entry {
    proto::decode_entry(entry.payload).unwrap_or_else(|cause| {
        let at = entry.index;
        tracing::error!(index = at, %cause, "stopping: an entry of the log cannot be read");
        eprintln!(
            "bursar: entry {at} of the log cannot be read: {cause}\n  why  a newer version wrote it, or its content \
             was damaged before it was stored\n  fix  start this replica with the version that the others run"
        );
        std::process::abort()
    })
}

impl Replicated for Machine {
    fn apply(&mut self, entries: &[Committed<'_>]) -> Vec<Vec<u8>> {
        let answers = entries.iter().map(|entry| self.one(entry)).collect();
        self.publish();
        answers
    }

    fn advanced(&mut self, index: u64, term: u64) {
        (self.view.index, self.view.term) = (LogIndex::new(index), Term::new(term));
        self.history.record(self.view.index, None);
        self.publish();
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        let (state, index, history) = (self.view.state.clone(), self.view.index, self.history.clone());
        Box::new(FrozenState { state, index, history })
    }

    fn install(&mut self, index: u64, term: u64, snapshot: &mut dyn Read) -> Result<(), BoxError> {
        self.view.state = proto::snapshot::read(snapshot)?;
        (self.view.index, self.view.term) = (LogIndex::new(index), Term::new(term));
        self.events.forget(self.view.index);
        self.history.installed(self.view.index, self.view.state.meta.cluster);
        self.publish();
        Ok(())
    }
}

struct FrozenState {
    state: State,
    index: LogIndex,
    history: History,
}

impl Frozen for FrozenState {
    /// Writes the state, and returns only once history is durable up to it: the log up to a snapshot goes, and with it
    /// what could write history again.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        proto::snapshot::write(&self.state, out)?;
        self.history.flush_to(self.index).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use scheduler_core::command::{Code, Command, Found, Outcome};
    use scheduler_core::id::{ClusterId, Epoch, Name, ReplicaId, TokenHash};
    use scheduler_core::principal::{AccountName, Actor};
    use scheduler_core::settings::Settings;

    use super::*;
    use crate::view::{self, Views};

    fn machine() -> (Machine, Views, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let (publisher, views) = view::channel();
        let clock = Arc::new(Clock::open(dir.path()).unwrap());
        let history = History::open(&dir.path().join("history"), history::Bounds::default()).unwrap();
        (Machine::new(publisher, Arc::default(), history, clock), views, dir)
    }

    fn founding() -> Vec<u8> {
        let name = |text| Name::new(text).unwrap();
        let command = Command::Found(Found {
            cluster: ClusterId::new([1; 16]),
            epoch: Epoch::new(1),
            root: name("lab"),
            admin: name("admin"),
            admin_token: TokenHash::new([2; 32]),
            admin_account: AccountName::new("nobody").unwrap(),
            settings: Settings::default(),
        });
        let time = Timestamp::from_millis(1_000);
        let actor = Actor::Replica(ReplicaId::new(1));
        proto::encode_entry(&Entry { time, actor, via: None, request: None, command })
    }

    #[test]
    fn panic_while_applying_changes_nothing_but_begins_safe_mode() {
        let (mut machine, views, _dir) = machine();
        let payload = founding();
        machine.apply(&[Committed { index: 3, term: 2, payload: &payload }]);
        let before = machine.view.state.clone();
        let at = At { index: LogIndex::new(4), term: Term::new(2), time: Timestamp::from_millis(5_000) };
        let answer = machine.guarded(&before, at, |state| {
            assert!(is_applying());
            state.principals.remove(&Name::new("admin").unwrap());
            panic!("a broken promise");
        });
        assert_eq!(answer.unwrap_err().code, Code::Internal);
        assert!(!is_applying());
        let state = &machine.view.state;
        assert_eq!(state.principals.len(), before.principals.len(), "its changes are dropped whole");
        assert_eq!((state.meta.index.get(), state.meta.time.as_millis()), (4, 5_000));
        assert!(state.meta.safe_mode.is_some());
        assert!(views.now().state.meta.safe_mode.is_none(), "published with the batch, not before");
    }

    #[test]
    fn snapshot_of_a_machine_makes_another_one_alike() {
        let (mut one, _, _one_dir) = machine();
        let payload = founding();
        let answers = one.apply(&[Committed { index: 3, term: 2, payload: &payload }]);
        assert_eq!(proto::decode_answer(&answers[0]).unwrap(), Ok(Outcome::Done));
        one.advanced(4, 3);
        let mut bytes = Vec::new();
        one.freeze().write(&mut bytes).unwrap();
        let (mut other, views, _other_dir) = machine();
        other.install(4, 3, &mut bytes.as_slice()).unwrap();
        let seen = views.now();
        assert_eq!((seen.index.get(), seen.term.get()), (4, 3));
        assert_eq!(seen.state.digest(), one.view.state.digest());
        assert!(other.install(4, 3, &mut &bytes[..bytes.len() / 2]).is_err());
    }
}
