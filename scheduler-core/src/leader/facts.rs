//! Facts on their way into the log: one entry for up to 512 of them or 5 ms, and one such entry at a time, so that an
//! agent's reports are applied in the order in which it saw things happen.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Session;
use crate::command::Command;
use crate::id::NodeId;
use crate::principal::Actor;
use crate::unit::{Span, Timestamp};

/// The most facts of one entry.
const BATCH_MAX: usize = 512;
/// Entries of facts are at least so long apart; the first after a pause goes at once.
const BATCH_EVERY: Span = Span::from_millis(5);
/// After a refusal the same is tried again this much later.
pub(super) const RETRY: Span = Span::from_millis(100);

/// One command on its way, and whom to tell when it is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    pub actor: Actor,
    pub command: Command,
    pub from: From,
}

/// Where a fact came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Reports { node: NodeId, session: Session, seq: u64 },
    Facts { node: NodeId, session: Session },
    Leader,
}

impl Fact {
    fn weight(&self) -> usize {
        match &self.command {
            Command::Reports { reports, .. } => reports.len().max(1),
            _ => 1,
        }
    }
}

/// Facts that wait for their entry, and the ones in it.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<Fact>,
    in_flight: Vec<Fact>,
    not_before: Timestamp,
}

impl Outbox {
    pub(super) fn push(&mut self, fact: Fact) {
        self.waiting.push_back(fact);
    }

    /// Whether facts of `node` itself are on their way.
    pub(super) fn has_facts_of(&self, wanted: NodeId) -> bool {
        let mut all = self.in_flight.iter().chain(&self.waiting);
        all.any(|fact| matches!(fact.from, From::Facts { node, .. } if node == wanted))
    }

    /// Returns when the next entry is due; none while one is in flight, or nothing waits.
    pub(super) fn due(&self) -> Option<Timestamp> {
        (self.in_flight.is_empty() && !self.waiting.is_empty()).then_some(self.not_before)
    }

    /// Returns the next entry's commands, if one is due.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Command> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        let mut room = BATCH_MAX;
        while let Some(fact) = self.waiting.front() {
            if fact.weight() > room && !self.in_flight.is_empty() {
                break;
            }
            room = room.saturating_sub(fact.weight());
            self.in_flight.extend(self.waiting.pop_front());
        }
        self.not_before = now.plus(BATCH_EVERY);
        let commands = self.in_flight.iter().map(|fact| (fact.actor.clone(), fact.command.clone()));
        Some(Command::Batch(commands.collect()))
    }

    /// The entry is committed: returns what was in it.
    pub(super) fn committed(&mut self) -> Vec<Fact> {
        core::mem::take(&mut self.in_flight)
    }

    /// The entry was not taken: its facts go first in the next one.
    pub(super) fn refused(&mut self, now: Timestamp) {
        for fact in self.in_flight.drain(..).rev() {
            self.waiting.push_front(fact);
        }
        self.not_before = now.plus(RETRY);
    }
}
