//! Facts on their way into the log: one entry for up to 512 of them or 5 ms, and one such entry at a time, so that an
//! agent's reports are applied in the order in which it saw things happen.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Session;
use crate::agent::{RankEvent, Report};
use crate::command::Command;
use crate::id::NodeId;
use crate::node::GpuFacts;
use crate::principal::Actor;
use crate::unit::{Span, Timestamp};

/// The most facts of one entry.
const BATCH_MAX: usize = 512;
/// And about so many bytes: half of what the log takes as one entry, since these are estimates.
const BYTES_MAX: usize = 256 * 1024;
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
            Command::Saves { saves, .. } => saves.len().max(1),
            _ => 1,
        }
    }

    /// Returns about how many bytes it takes in the log.
    fn bytes(&self) -> usize {
        match &self.command {
            Command::Reports { reports, .. } => reports.iter().map(report_bytes).sum::<usize>() + FACT_BYTES,
            Command::Saves { saves, .. } => saves.len() * FACT_BYTES + FACT_BYTES,
            Command::NodeFacts { facts, .. } => {
                let trouble: usize = facts.trouble.iter().map(|line| line.len() + FIELD_BYTES).sum();
                let gpu = |gpu: &GpuFacts| gpu.uuid.as_str().len() + gpu.model.as_str().len() + FACT_BYTES;
                facts.gpus.iter().map(gpu).sum::<usize>() + trouble + 4 * 128 + FACT_BYTES
            }
            _ => FACT_BYTES,
        }
    }
}

/// What a fact takes beside its texts, and what a text takes beside its bytes.
const FACT_BYTES: usize = 64;
const FIELD_BYTES: usize = 4;

fn report_bytes(report: &Report) -> usize {
    let text = match &report.event {
        RankEvent::LaunchFailed { what, .. } => what.len(),
        RankEvent::Unknown { gpus } => gpus.iter().map(|gpu| gpu.as_str().len() + FIELD_BYTES).sum(),
        RankEvent::Unkillable { what } => what.len(),
        RankEvent::Ready | RankEvent::Started | RankEvent::Exited { .. } | RankEvent::Freed => 0,
    };
    text + FACT_BYTES
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
        let (mut room, mut bytes) = (BATCH_MAX, BYTES_MAX);
        while let Some(fact) = self.waiting.front() {
            if (fact.weight() > room || fact.bytes() > bytes) && !self.in_flight.is_empty() {
                break;
            }
            room = room.saturating_sub(fact.weight());
            bytes = bytes.saturating_sub(fact.bytes());
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

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec;

    use super::*;
    use crate::agent::Fault;
    use crate::id::{AttemptId, AttemptNo, JobId, Rank};

    #[test]
    fn many_long_texts_never_make_an_entry_that_the_log_refuses() {
        let what = "x".repeat(1024);
        let report = |n| Report {
            attempt: AttemptId { job: JobId::new(n), no: AttemptNo::new(1) },
            rank: Rank::new(0),
            at: Timestamp::ZERO,
            event: RankEvent::LaunchFailed { fault: Fault::Node, what: String::clone(&what) },
        };
        let mut outbox = Outbox::default();
        let node = NodeId::new(1);
        for n in 0..512 {
            let command = Command::Reports { node, reports: vec![report(n)] };
            outbox.push(Fact { actor: Actor::Agent(node), command, from: From::Leader });
        }
        let mut taken = 0;
        let mut now = Timestamp::from_millis(1_000);
        while let Some(Command::Batch(batch)) = outbox.take(now) {
            assert!(batch.len() * 1024 <= BYTES_MAX, "{} in one entry", batch.len());
            taken += batch.len();
            outbox.committed();
            now = now.plus(BATCH_EVERY);
        }
        assert_eq!(taken, 512);
    }
}
