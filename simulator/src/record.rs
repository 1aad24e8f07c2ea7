//! What happened in a run: enough for every figure and every picture, whoever decided.
//!
//! Times are virtual cluster time in milliseconds; a run begins at [`Record::begin`] and ends at [`Record::end`]. Records
//! refer to each other by place: `job: 7` is `record.jobs[7]`.

use std::sync::Arc;

use scheduler_core::unit::{Span, Timestamp};

/// A whole run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// The scenario's name.
    pub scenario: String,
    /// Who decided: `bursar`, `fifo`, ...
    pub policy: String,
    /// Settings that this run has different from the scenario's, as `key=value`.
    pub variant: Vec<String>,
    /// What the run's chances were drawn from.
    pub seed: u64,
    /// When it began.
    pub begin: Timestamp,
    /// When it ended: nothing is known after it.
    pub end: Timestamp,
    /// The look-back of charge.
    pub window: Span,
    /// The longest protection.
    pub cap: Span,
    /// From when a job that is first in order has to have its go: promise 1.6.
    pub head_bound: Span,
    /// Machines.
    pub nodes: Vec<NodeRecord>,
    /// The budget tree, parents before their children; the root is first.
    pub budgets: Vec<BudgetRecord>,
    /// All jobs that were submitted, in order.
    pub jobs: Vec<JobRecord>,
    /// All attempts, by placing.
    pub attempts: Vec<AttemptRecord>,
    /// All preemptions, by the notice.
    pub preemptions: Vec<PreemptionRecord>,
    /// All dates, by their issue.
    pub dates: Vec<DateRecord>,
    /// Who was first in order among the funded jobs and could not start, by time; nobody in between.
    pub heads: Vec<HeadRecord>,
    /// Rounds of planning.
    pub rounds: u64,
    /// Entries applied.
    pub entries: u64,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// Its GPUs.
    pub gpus: u32,
    /// When it was down, cordoned or draining, from and until; until the end of the run, if it did not come back.
    pub away: Vec<(Timestamp, Timestamp)>,
}

/// A budget.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetRecord {
    /// `a/b/c`; the root is empty.
    pub path: String,
    /// Its parent's place; none for the root.
    pub parent: Option<usize>,
    /// Its part of the whole pool, 0 to 1: the product of the shares up to the root.
    pub share: f64,
    /// Whether jobs are submitted here.
    pub is_leaf: bool,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRecord {
    /// Its id in the trace.
    pub name: Arc<str>,
    /// Its leaf.
    pub budget: usize,
    /// Its user.
    pub user: Arc<str>,
    /// When it was submitted.
    pub submitted_at: Timestamp,
    /// GPUs on all its nodes.
    pub gpus: u32,
    /// Nodes.
    pub nodes: u32,
    /// Whether it is in the free tier.
    pub is_free: bool,
    /// Its minimum runtime.
    pub min_runtime: Span,
    /// How much work it has: the time it runs if nobody takes it.
    pub work: Span,
    /// Whether it goes on from a checkpoint.
    pub is_resumable: bool,
    /// When and how it ended for good; none if it had not by the end of the run.
    pub ended: Option<(Timestamp, JobEnd)>,
}

/// How a job ended for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobEnd {
    /// All its work was done.
    Completed,
    /// It failed, as in the trace or by the scenario's failures.
    Failed,
    /// A person ended it, as in the trace.
    Cancelled,
    /// It gave way and does not resume.
    Preempted,
    /// At its time limit.
    TimedOut,
    /// It was withdrawn before it ever started: nobody waits for ever.
    Withdrawn,
    /// Its node was lost and it does not resume.
    Lost,
    /// It was refused at its submission.
    Refused,
}

/// A GPU of a run: its machine's place in [`Record::nodes`], and its slot there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuPlace {
    node: u32,
    slot: u16,
}

impl GpuPlace {
    /// Returns the place of a machine's GPU.
    #[must_use]
    pub const fn new(node: u32, slot: u16) -> Self {
        Self { node, slot }
    }

    /// Returns its machine's place.
    #[must_use]
    pub fn node(self) -> usize {
        usize::try_from(self.node).unwrap_or(usize::MAX)
    }

    /// Returns its slot there.
    #[must_use]
    pub const fn slot(self) -> u16 {
        self.slot
    }
}

/// An attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Its job.
    pub job: usize,
    /// Its number within the job, from 1.
    pub number: u32,
    /// Its GPUs.
    pub gpus: Box<[GpuPlace]>,
    /// When it was decided.
    pub placed_at: Timestamp,
    /// From when it has its GPUs.
    pub go_at: Option<Timestamp>,
    /// From when its processes run.
    pub started_at: Option<Timestamp>,
    /// The end of its protection; none in the free tier, and before it started.
    pub protected_until: Option<Timestamp>,
    /// When it was told to leave.
    pub noticed_at: Option<Timestamp>,
    /// When its processes ended.
    pub ended_at: Option<Timestamp>,
    /// When its last GPU was proven free.
    pub freed_at: Option<Timestamp>,
    /// How it ended.
    pub end: Option<AttemptEnd>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptEnd {
    /// The job's work was done, or it failed as the trace says.
    ByItself,
    /// It gave way.
    Preempted,
    /// It never ran: its launch failed, or it got its GPUs too late.
    NotLaunched,
    /// Its node was lost.
    Lost,
    /// A person, a drain or its time limit.
    Stopped,
}

/// A preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreemptionRecord {
    /// When it was decided.
    pub at: Timestamp,
    /// The attempt that gave way.
    pub victim: usize,
    /// The job that it was taken for; none for a drain.
    pub taken_for: Option<usize>,
    /// By which right.
    pub cause: Cause,
    /// GPU-milliseconds lost: work since the last checkpoint, plus restart, on all its GPUs; as measured in the run.
    pub lost_gpu_ms: u64,
    /// Whether the job it was taken for never started on them.
    pub is_wasted: bool,
}

/// What a preemption was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A budget further below its share (a peer: a job that goes before) needed the GPUs.
    Share,
    /// A job of the same budget with an earlier turn.
    Turn,
    /// The free tier made way.
    FreeTier,
    /// A date had come.
    Claim,
    /// The short lane.
    Lane,
    /// A drain, or an operator.
    Operator,
}

/// A date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DateRecord {
    /// Whose.
    pub job: usize,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// What it was at its issue.
    pub first_at: Timestamp,
    /// What it was in the end.
    pub at: Timestamp,
    /// How often it moved because a node failed or was drained.
    pub moves_by_node: u32,
    /// How often it moved for any other reason: zero is promised.
    pub moves_otherwise: u32,
}

/// A time in which a job was first in order and could not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadRecord {
    /// Which.
    pub job: usize,
    /// From when.
    pub since: Timestamp,
    /// Until when: it was placed, withdrawn, or another one was first.
    pub until: Timestamp,
}
