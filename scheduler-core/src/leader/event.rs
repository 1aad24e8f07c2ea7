//! What happens to a leader, and what it asks its shell to do.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::agent::Report;
use crate::command::{Command, Saved};
use crate::decision::Plan;
use crate::id::{LogIndex, NodeId, Term};
use crate::node::Facts;
use crate::plan::Links;
use crate::state::State;
use crate::unit::Timestamp;

/// One connection of an agent, numbered by the shell, never twice in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(u64);

impl Session {
    /// Makes it from its number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// One proposal of one leader; carries the term, so that an answer to an earlier leader names nothing of a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// The term of the leader that proposed.
    pub term: Term,
    /// Its proposals, counted.
    pub number: u64,
}

/// What happens. The state handed in with an event is never older than what the event tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Entries up to here are applied.
    Applied {
        /// The last one.
        index: LogIndex,
    },
    /// An agent proved who it is.
    LinkUp {
        /// Its node.
        node: NodeId,
        /// The connection.
        session: Session,
    },
    /// A connection ended.
    LinkDown {
        /// Its node.
        node: NodeId,
        /// The connection.
        session: Session,
    },
    /// An agent lives.
    Beat {
        /// Its node.
        node: NodeId,
    },
    /// What an agent saw, in order.
    Reports {
        /// Its node.
        node: NodeId,
        /// The connection.
        session: Session,
        /// The agent's number of this batch, rising within a connection.
        seq: u64,
        /// What it saw.
        reports: Vec<Report>,
    },
    /// What a node is: with the hello, and again when it changes.
    Facts {
        /// Which node.
        node: NodeId,
        /// The connection.
        session: Session,
        /// All of it.
        facts: Facts,
    },
    /// What ranks said of their progress; the newest of each replaces the one before, nothing is answered.
    Saves {
        /// Their node.
        node: NodeId,
        /// The connection.
        session: Session,
        /// What they said.
        saves: Vec<Saved>,
    },
    /// The plan that was asked for. A plan thread that fails answers with an empty plan.
    Planned(Plan),
    /// A proposal is committed, and applied here.
    Committed {
        /// Which.
        ticket: Ticket,
    },
    /// A proposal was not taken, or nobody knows; if it was taken after all, proposing it again does no harm.
    Refused {
        /// Which.
        ticket: Ticket,
    },
    /// The time of the last [`Effect::WakeAt`] has come.
    Woke,
}

/// What the shell does for the leader.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Plans on a thread of its own, with this term, and answers with [`Event::Planned`].
    Plan {
        /// The state to plan from, frozen.
        view: Box<State>,
        /// Who has a live link.
        links: Links,
        /// The leader's term.
        term: Term,
    },
    /// Proposes an entry, with the replica as its actor.
    Propose {
        /// What the answer names.
        ticket: Ticket,
        /// What is proposed.
        command: Box<Command>,
    },
    /// Sends a node its assignments as they are now; a set not sent yet gives way to a newer one.
    Send {
        /// Which node.
        node: NodeId,
    },
    /// Tells an agent that a batch of its reports is committed.
    Ack {
        /// Its node.
        node: NodeId,
        /// The connection.
        session: Session,
        /// The batch.
        seq: u64,
    },
    /// Ends a connection whose agent sends without waiting for answers; it comes back and resends.
    Close {
        /// Its node.
        node: NodeId,
        /// The connection.
        session: Session,
    },
    /// Answers with [`Event::Woke`] at this moment of cluster time. Replaces the one before.
    WakeAt(Timestamp),
}
