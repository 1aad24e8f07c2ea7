//! Dates: the promised start of a job that was first in order and could not be placed, and the GPUs that are reserved
//! for it (DESIGN 6).

use alloc::vec::Vec;

use crate::id::{AttemptId, DecisionId, NodeId, Slot};
use crate::unit::Timestamp;

/// So many moves of a date are remembered, the last ones.
pub const MOVES_KEPT: usize = 16;
/// The most dates of a control plane.
pub const DATES_MAX: usize = 4_096;

/// A promised start. It ends with the start of its job, and with whatever takes the job out of line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Date {
    /// When it was issued: rights are judged as of then.
    pub issued_at: Timestamp,
    /// The decision that issued it.
    pub decision: DecisionId,
    /// What is promised.
    pub promise: Promise,
    /// How often it moved.
    pub moved: u32,
    /// Its last moves, oldest first.
    pub moves: Vec<Move>,
}

/// When, where, and who is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Promise {
    /// From when on the job takes, on its nodes, whatever is not protected.
    pub at: Timestamp,
    /// When the job is past its protection at the latest if it starts then: so long the GPUs are nobody else's.
    pub until: Timestamp,
    /// The GPUs that are reserved for it, by node.
    pub on: Vec<(NodeId, Vec<Slot>)>,
    /// Who has them, or cores or memory that the job lacks beside them; and when each of these is out of the way.
    pub awaits: Vec<Awaited>,
}

/// An attempt that has GPUs that were reserved, or will have them by an earlier date; or cores or memory there without
/// which the job does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Awaited {
    /// Which.
    pub attempt: AttemptId,
    /// How many of the reserved GPUs; zero if it is in the way by its cores or memory alone.
    pub gpus: u32,
    /// When these are free for the job, as it was judged.
    pub free_at: Timestamp,
    /// By what.
    pub how: How,
}

/// What makes GPUs free for a job with a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// Whoever has them may be taken for it at once.
    Takeable,
    /// Whoever has them leaves already.
    Leaves,
    /// Their protection ends, or at the latest does if they start as late as they may; their budget goes after the job's.
    Protection,
    /// Their budget goes after the job's by less than the margin, or they are of its own budget: some time after the
    /// issue.
    Margin,
    /// They go first: the cap after the issue.
    Cap,
    /// They are reserved by an earlier date: the end of the protection of its job.
    EarlierDate,
}

/// A date was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Move {
    /// When.
    pub at: Timestamp,
    /// What it was before.
    pub from: Timestamp,
    /// What it was then.
    pub to: Timestamp,
    /// Because of what.
    pub trouble: Trouble,
}

/// What makes a node no good for a date any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// Which node.
    pub node: NodeId,
    /// What.
    pub what: What,
}

/// What is wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The control plane does not reach it.
    Unreachable,
    /// It is cordoned.
    Cordoned,
    /// It is drained, or will be before the job's protection would be over.
    Draining,
    /// Launches failed there, and it is not tried again before the date.
    Backoff,
    /// A reserved GPU does not answer any more.
    GpuGone,
    /// The control plane does not reach it, and somebody is there who would have to leave another node for the date: it
    /// can't be told to.
    HolderUnreachable,
}

impl Promise {
    /// Returns the GPUs that are reserved on a node.
    #[must_use]
    pub fn slots_on(&self, node: NodeId) -> Option<&[Slot]> {
        self.on.iter().find(|(id, _)| *id == node).map(|(_, slots)| slots.as_slice())
    }
}

impl Date {
    /// Notes a move.
    pub fn moves_to(&mut self, promise: Promise, trouble: Trouble, now: Timestamp) {
        let noted = Move { at: now, from: self.promise.at, to: promise.at, trouble };
        self.promise = promise;
        self.moved = self.moved.saturating_add(1);
        self.moves.push(noted);
        if self.moves.len() > MOVES_KEPT {
            self.moves.remove(0);
        }
    }
}
