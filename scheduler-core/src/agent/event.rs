//! What goes into the agent's machine and what comes out: events, news of ranks, looks at GPUs, actions.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Assignment, Assignments, EndedBy, Fault, RankId, Report, Token};
use crate::command::Saved;
use crate::id::{Generation, GpuUuid};
use crate::job::Exit;
use crate::unit::{Span, Timestamp};

/// What the shell tells the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The link is up: the control plane has this agent's hello.
    LinkUp,
    /// The link is gone.
    LinkDown,
    /// A set arrived.
    Set(Assignments),
    /// A batch of reports is committed.
    Acked {
        /// Its number.
        seq: u64,
    },
    /// Something happened to a rank.
    Rank {
        /// Which.
        id: RankId,
        /// When, in cluster time.
        at: Timestamp,
        /// What.
        news: RankNews,
    },
    /// All GPUs were looked at. One that is missing here is unknown.
    Looked {
        /// The highest number of a look asked for before this one began.
        look: u64,
        /// What is on them.
        gpus: Vec<(GpuUuid, GpuUse)>,
    },
    /// The time asked for has come.
    Woke,
}

/// What can happen to a rank on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankNews {
    /// Its program runs.
    Started,
    /// Its main process ended.
    Exited {
        /// How.
        exit: Exit,
        /// What made it end.
        by: EndedBy,
        /// Its newest durable checkpoint.
        saved_at: Option<Timestamp>,
    },
    /// It said something of its progress; both are the newest that is known, not only what is new.
    Saved {
        /// Its newest durable checkpoint.
        saved_at: Option<Timestamp>,
        /// Its first sign of progress.
        signed_at: Option<Timestamp>,
    },
    /// Processes of it are there long after they were told to end at once.
    Unkillable {
        /// Which, and what they hang in.
        what: String,
    },
    /// It has no process and never will.
    LaunchFailed {
        /// Who is to blame.
        fault: Fault,
        /// What went wrong.
        what: String,
    },
    /// No process of it is left.
    Gone,
}

/// What is on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuUse {
    /// Nothing.
    Empty,
    /// At least this process.
    Busy {
        /// Its process id.
        pid: u32,
    },
    /// Nobody can say: not empty.
    Unknown,
}

/// What the machine asks of its shell, to be done in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make the token durable; nothing after it may be done before.
    Persist(Token),
    /// Fetch the spec and launch the rank.
    Launch(Box<Assignment>),
    /// Hand a stop to the rank's shim.
    Stop {
        /// Which rank.
        id: RankId,
        /// Generation of the order.
        generation: Generation,
        /// Why, for the job.
        reason: String,
        /// From the notice, or else from the end signal, to the kill.
        grace: Span,
        /// Whether the job is told first and asked to save.
        has_notice: bool,
    },
    /// Look at the GPUs, beginning now or later, and answer with this number.
    Look(u64),
    /// Send a batch of reports.
    Send {
        /// Its number.
        seq: u64,
        /// The reports, in order.
        reports: Vec<Report>,
    },
    /// Tell the leader the newest checkpoints. Nothing is acknowledged: the next ones replace these, and a new link gets all.
    Saves(Vec<Saved>),
    /// Everything about the rank is committed: its directory may go.
    Forget(RankId),
    /// The set was refused; said once a set.
    Refused(Refusal),
    /// Call again at this time.
    WakeAt(Timestamp),
}

/// Why a set was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another control plane made it.
    OtherCluster,
    /// A higher token was seen.
    Stale {
        /// The highest one.
        seen: Token,
    },
}
