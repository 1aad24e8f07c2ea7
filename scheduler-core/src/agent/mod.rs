//! What a node's agent is told and what it reports; and the agent's own decisions as a pure machine.
//!
//! Level-triggered, full sets only. A placement missing from a set is never an order to stop it.

mod assignments;
mod event;
mod machine;
#[cfg(test)]
mod tests;

pub use assignments::{assignments, full_set};
pub use event::{Action, Event, GpuUse, RankNews, Refusal};
pub use machine::Agent;

use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{
    AttemptId, ClusterId, Epoch, Generation, GpuUuid, JobId, LogIndex, Name, Rank, SpecHash, Term,
};
use crate::job::Exit;
use crate::principal::AccountName;
use crate::spec::Tier;
use crate::unit::{Span, Timestamp};

/// The fencing token of a set: an agent persists the highest it saw before acting, and refuses a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token {
    /// Of the control plane.
    pub epoch: Epoch,
    /// Of the leader that sent it.
    pub term: Term,
    /// Up to which the leader had applied when it made the set.
    pub index: LogIndex,
}

/// Everything that a node should be doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Assignments {
    /// Which control plane says so; another one is refused.
    pub cluster: ClusterId,
    /// How new it is.
    pub token: Token,
    /// Cluster time when it was made.
    pub time: Timestamp,
    /// One item for each rank here, live or not yet proven empty.
    pub items: Vec<Assignment>,
}

/// One rank of an attempt on this node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// Which run of which job.
    pub attempt: AttemptId,
    /// Which process of the gang.
    pub rank: Rank,
    /// Count of changes of meaning; an order of a lower one is ignored.
    pub generation: Generation,
    /// What to do.
    pub order: Order,
    /// What runs: a spec fetched by hash once.
    pub launch: SpecHash,
    /// The Unix account it runs as.
    pub account: AccountName,
    /// Its GPUs.
    pub gpus: Vec<GpuUuid>,
    /// Its budget's path, for its environment.
    pub budget: String,
    /// Funded or free.
    pub tier: Tier,
    /// No start after this moment of cluster time: then the launch has failed, by the node's fault.
    pub start_by: Timestamp,
    /// The length of its protection, from its start.
    pub protection: Span,
    /// The longest time from its start.
    pub time_limit: Option<Span>,
    /// From a notice to the kill: how long before the time limit a notice comes.
    pub grace: Span,
    /// The notice signal's number.
    pub signal: u8,
    /// The names of the attempt's nodes by rank, for its environment.
    pub nodes: Vec<Name>,
    /// The hosts by which they reach each other, by rank.
    pub addresses: Vec<String>,
    /// The port of rank 0 where its ranks meet; only with several.
    pub port: Option<u16>,
    /// Its place in an array, for its environment.
    pub array: Option<ArrayTask>,
}

/// A task's place in its array, as the task itself is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayTask {
    /// The array's number.
    pub of: JobId,
    /// The task's index.
    pub index: u32,
    /// How many tasks there are.
    pub count: u32,
    /// The lowest index.
    pub min: u32,
    /// The highest index.
    pub max: u32,
}

impl Assignment {
    /// Which rank it is.
    #[must_use]
    pub const fn id(&self) -> RankId {
        RankId { attempt: self.attempt, rank: self.rank }
    }
}

/// A rank of an attempt, the unit of an agent's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RankId {
    /// Which run of which job.
    pub attempt: AttemptId,
    /// Which process of the gang.
    pub rank: Rank,
}

/// What to do about a rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Order {
    /// It will run: wait until its GPUs are proven empty, make everything ready, report so, start nothing.
    Prepare,
    /// It should run.
    Run,
    /// A committed stop: notice if there is one, end signal, then after the grace the kill.
    Stop {
        /// Why, for the job's notice and the exit record.
        reason: String,
        /// From the notice, or else from the end signal, to the kill; zero kills at once.
        grace: Span,
        /// Whether the job is told first and asked to save, before the end signal.
        has_notice: bool,
    },
    /// Its end is committed: end what is left of it, prove its GPUs empty and report so.
    Clear,
}

/// What an agent saw of one rank. Reports are sent until acknowledged; `apply` takes each once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Report {
    /// Which run of which job.
    pub attempt: AttemptId,
    /// Which process of the gang.
    pub rank: Rank,
    /// When, in cluster time as the agent carries it.
    pub at: Timestamp,
    /// What.
    pub event: RankEvent,
}

/// What can happen to a rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RankEvent {
    /// Its GPUs are proven empty and everything is ready for it; nothing runs.
    Ready,
    /// Its process exists.
    Started,
    /// Its process ended.
    Exited {
        /// How.
        exit: Exit,
        /// What made it end, as its shim recorded.
        by: EndedBy,
        /// Its newest durable checkpoint, as its shim stamped it.
        saved_at: Option<Timestamp>,
    },
    /// It was told to end and cannot be ended: processes of it are there long after the kill.
    Unkillable {
        /// Which, and what they hang in.
        what: String,
    },
    /// It never had a process, and never will.
    LaunchFailed {
        /// Who is to blame.
        fault: Fault,
        /// What went wrong.
        what: String,
    },
    /// No process of it is left and its GPUs are empty.
    Freed,
    /// It runs here and no set named it: the control plane says whether it stays.
    Unknown {
        /// Its GPUs, from its spec file.
        gpus: Vec<GpuUuid>,
    },
}

/// What made a process end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EndedBy {
    /// Itself, or something that nobody of ours did.
    Itself,
    /// Its time limit, enforced by its shim.
    TimeLimit,
    /// A committed stop.
    Stop,
    /// Whatever its exit was, it came after the notice of a committed stop that has one.
    Notice,
    /// The machine restarted.
    Reboot,
}

/// Who is to blame for a launch that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The node: fence, disk, account, start limit. The job waits again, the node is backed off.
    Node,
    /// The job: no such program or directory (127), not executable (126). It has failed.
    Job {
        /// The exit code that says which.
        code: u8,
    },
}
