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

use crate::clock::Clock;
use crate::events::Events;
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
    clock: Arc<Clock>,
}

impl Machine {
    /// Makes an empty machine that publishes what it becomes.
    #[must_use]
    pub fn new(publisher: Publisher, events: Arc<Events>, clock: Arc<Clock>) -> Self {
        Self { view: View::default(), publisher, events, clock }
    }

    fn one(&mut self, entry: &Committed<'_>) -> Vec<u8> {
        let (index, term) = (LogIndex::new(entry.index), Term::new(entry.term));
        let before = self.view.state.clone();
        let decoded = read(entry);
        let answer = self.guarded(&before, index, term, &decoded);
        (self.view.index, self.view.term) = (index, term);
        self.events.record(&before, &self.view.state, index, &decoded, &answer);
        proto::encode_answer(&answer)
    }

    /// Applies an entry; a panic inside drops its changes whole and starts safe mode, on every replica alike.
    fn guarded(&mut self, before: &State, index: LogIndex, term: Term, entry: &Entry) -> Answer {
        IS_APPLYING.set(true);
        let state = &mut self.view.state;
        let answer = catch_unwind(AssertUnwindSafe(|| apply::apply(state, index, term, entry)));
        IS_APPLYING.set(false);
        answer.unwrap_or_else(|_| {
            tracing::error!(%index, "applying an entry panicked: its changes are dropped, safe mode begins");
            self.view.state = before.clone();
            self.view.state.meta.term = term;
            apply::broken(&mut self.view.state, index, entry.time, "applying an entry panicked")
        })
    }

    fn publish(&self) {
        self.clock.seen(self.view.state.meta.time);
        self.publisher.publish(self.view.clone());
    }
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
        self.publish();
    }

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(FrozenState(self.view.state.clone()))
    }

    fn install(&mut self, index: u64, term: u64, snapshot: &mut dyn Read) -> Result<(), BoxError> {
        self.view.state = proto::snapshot::read(snapshot)?;
        (self.view.index, self.view.term) = (LogIndex::new(index), Term::new(term));
        self.events.forget(self.view.index);
        self.publish();
        Ok(())
    }
}

struct FrozenState(State);

impl Frozen for FrozenState {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        proto::snapshot::write(&self.0, out)
    }
}
