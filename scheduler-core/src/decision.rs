//! What the planner proposes, and the record of what was adopted and why.

use alloc::vec::Vec;

use crate::id::{AttemptNo, BudgetId, JobId, LogIndex, NodeId, Slot, Term};
use crate::unit::{ChargeMillis, Timestamp};

/// Decisions made from one view of state; adopted one by one after being checked again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The leader's term; `apply` refuses a plan of another.
    pub term: Term,
    /// The index of the view it was made from.
    pub index: LogIndex,
    /// In order; at most [`Plan::DECISIONS_MAX`].
    pub decisions: Vec<Start>,
}

impl Plan {
    /// The most decisions of one entry.
    pub const DECISIONS_MAX: usize = 256;
}

/// The decision to start a job on idle GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Start {
    /// Which job.
    pub job: JobId,
    /// The number its attempt takes: its count must still be as planned.
    pub attempt: AttemptNo,
    /// Which GPUs, by node; idle when planned.
    pub on: Vec<(NodeId, Vec<Slot>)>,
    /// Why this job, now.
    pub why: Why,
}

/// Why a job went first: for each level of its path, its side's numbers and the next side's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Why {
    /// Its place in line in this round, from 1.
    pub place: u32,
    /// From the root's children down to the leaf.
    pub levels: Vec<Level>,
}

/// One level at which budgets were compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Level {
    /// The budget on the job's path.
    pub chosen: UseOf,
    /// The sibling with waiting jobs that came next, if there was one.
    pub next: Option<UseOf>,
}

/// A budget's use as it was: (charged + set aside) / allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UseOf {
    /// Whose.
    pub budget: BudgetId,
    /// Charged in the window (free tier: its time in the window).
    pub charged: ChargeMillis,
    /// Set aside.
    pub set_aside: ChargeMillis,
    /// What its share is worth in the window.
    pub allocation: ChargeMillis,
}

/// An adopted decision, kept until its job ended and an hour more.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// When it was adopted.
    pub at: Timestamp,
    /// The view it was made from.
    pub made_at: LogIndex,
    /// The term it was made in.
    pub term: Term,
    /// What was decided.
    pub start: Start,
}

/// Why one decision of a plan was not adopted; the others are judged alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The job does not wait any more.
    NotWaiting,
    /// The job was placed since.
    AttemptTaken,
    /// A GPU is occupied or gone.
    GpuTaken,
    /// A node takes no work.
    NodeNotReady,
    /// The shape of the decision isn't the job's.
    WrongShape,
    /// The node's cores or memory are with other attempts.
    NodeFull,
}
