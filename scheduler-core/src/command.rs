//! What the log holds: facts and requests, never ticks or beats; and what `apply` answers.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::agent::Report;
use crate::budget::TreeNode;
use crate::decision::{Dropped, Plan};
use crate::id::{
    AttemptId, BodyHash, ClusterId, EditId, Epoch, GrantId, JobId, Label, LogIndex, Name, NodeId, ReplicaId,
    RequestId, Revision, SpecHash, TokenHash,
};
use crate::node::{Facts, Urgency};
use crate::principal::{AccountName, Actor};
use crate::settings::Settings;
use crate::spec::Request;
use crate::unit::{Share, Timestamp, Weight};

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Cluster time, stamped by the leader; never before the entry that precedes it.
    pub time: Timestamp,
    /// Who asked, as the replica that authenticated the connection says.
    pub actor: Actor,
    /// Which replica said so; nothing decides by it, the history tells it.
    pub via: Option<ReplicaId>,
    /// The client's name for this write, where a retry is possible.
    pub request: Option<RequestMark>,
    /// What is asked.
    pub command: Command,
}

/// A client's name for one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestMark {
    /// Random, the same on each retry.
    pub id: RequestId,
    /// The cluster time at which the client made it.
    pub made_at: Timestamp,
    /// Of the command, to tell a retry from a conflict.
    pub body: BodyHash,
}

/// What an entry asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// The first entry of a control plane.
    Found(Found),
    /// A new job.
    Submit(Submit),
    /// A person ends a job.
    Cancel(Cancel),
    /// A person keeps a waiting job out of line.
    Hold(JobWord),
    /// A person puts a held job in line again.
    Release(JobWord),
    /// A person wants a running job to save, stop, and start again.
    Requeue(JobWord),
    /// An operator keeps new work from a node.
    Cordon(NodeWord),
    /// An operator lets new work on a node again, after whatever had closed it.
    Uncordon(NodeWord),
    /// An operator wants a node empty.
    Drain(DrainNode),
    /// An operator ends a drain, or takes one back that has not begun. What was told to leave leaves.
    Undrain(NodeWord),
    /// An operator says where a node is.
    SetNode(SetNode),
    /// Says which clusters make up a pool, and what its types of GPU count.
    SetPool(SetPool),
    /// What the ranks of a node said of their progress; at most one a minute of each, by the leader.
    Saves {
        /// On which node.
        node: NodeId,
        /// What.
        saves: Vec<Saved>,
    },
    /// The budget tree becomes this.
    ApplyBudgets(ApplyBudgets),
    /// An edit of the tree whose time has not come is taken back.
    CancelEdit(CancelEdit),
    /// A budget gets more share for a time.
    Grant(GrantShare),
    /// A grant ends early, or is taken back before it begins.
    EndGrant(EndGrant),
    /// A new principal.
    AddPrincipal(AddPrincipal),
    /// A principal's token opens nothing any more.
    RevokePrincipal {
        /// Whose.
        name: Name,
    },
    /// A one-time permission for a node to join.
    IssueJoinToken(IssueJoinToken),
    /// A node joins with such a permission.
    Join(Join),
    /// An agent's facts changed.
    NodeFacts {
        /// Of which node.
        node: NodeId,
        /// All of them.
        facts: Facts,
    },
    /// What agents saw, in the order they saw it.
    Reports {
        /// On which node.
        node: NodeId,
        /// What.
        reports: Vec<Report>,
    },
    /// The leader has not heard of a node for long.
    NodeUnreachable {
        /// Which.
        node: NodeId,
    },
    /// An unreachable node reports again.
    NodeBack {
        /// Which.
        node: NodeId,
    },
    /// The planner's proposal.
    Adopt(Plan),
    /// A person ends safe mode.
    EndSafeMode {
        /// Why it is over.
        reason: String,
    },
    /// The leader found nobody among the replicas who had kept cluster time, and says where it took it from.
    ResumeTime(ResumeTime),
    /// An operator sets cluster time forward, or says that it is right as it is.
    SetTime(SetTime),
    /// Several facts of agents and of the leader in one entry; each is judged alone, with its own actor.
    Batch(Vec<(Actor, Command)>),
}

/// The founding of a control plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Found {
    /// Its identity.
    pub cluster: ClusterId,
    /// Its epoch.
    pub epoch: Epoch,
    /// The name of the root budget.
    pub root: Name,
    /// The first principal: operator, and owner of the root.
    pub admin: Name,
    /// The hash of its token.
    pub admin_token: TokenHash,
    /// The Unix account its jobs run as.
    pub admin_account: AccountName,
    /// The figures of this control plane.
    pub settings: Settings,
}

/// A submission.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Submit {
    /// What decisions read.
    pub request: Request,
    /// What the node reads.
    pub launch: Blob,
}

/// Content under its hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Blob {
    /// BLAKE3 of the bytes; the sender computed it, `apply` trusts its replica.
    pub hash: SpecHash,
    /// At most 64 KiB.
    pub bytes: Arc<[u8]>,
}

/// The end of a job by a person's word.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cancel {
    /// Which.
    pub job: JobId,
    /// Kill at once, without the end signal first.
    pub is_now: bool,
    /// Why; needed if the job is somebody else's.
    pub reason: String,
}

/// What a person says about a job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobWord {
    /// Which.
    pub job: JobId,
    /// Why; needed if the job is somebody else's.
    pub reason: String,
}

/// What an operator says about a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeWord {
    /// Which.
    pub node: NodeId,
    /// Why.
    pub reason: String,
}

/// An operator says where a node is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SetNode {
    /// Which.
    pub node: NodeId,
    /// From the outermost group to the innermost; empty if it is in none.
    pub topology: Vec<Name>,
}

/// An operator makes a pool, or changes it. With neither clusters nor weights it is none any more, and its clusters are
/// each in the pool of their own name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SetPool {
    /// Its name.
    pub pool: Name,
    /// Its clusters, all of them.
    pub clusters: BTreeSet<Name>,
    /// What its types of GPU count, all of them; the first that fits a GPU's model counts.
    pub weights: Vec<(Label, Weight)>,
}

/// An operator wants a node empty.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DrainNode {
    /// Which.
    pub node: NodeId,
    /// How much it hurries.
    pub urgency: Urgency,
    /// When it begins; at once if none.
    pub begins_at: Option<Timestamp>,
    /// Why; needed.
    pub reason: String,
}

/// What a rank said of its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Saved {
    /// Which run of which job.
    pub attempt: AttemptId,
    /// Its newest durable checkpoint, as its shim stamped it.
    pub saved_at: Option<Timestamp>,
    /// Its first sign of progress.
    pub signed_at: Option<Timestamp>,
}

/// A new tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApplyBudgets {
    /// The whole tree, from the root.
    pub root: TreeNode,
    /// The revision that the difference was shown for; another one is a conflict.
    pub base: Revision,
    /// Why.
    pub reason: String,
    /// When it takes effect; at once if none.
    pub at: Option<Timestamp>,
}

/// An edit whose time has not come is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CancelEdit {
    /// Which.
    pub edit: EditId,
    /// Why; needed.
    pub reason: String,
}

/// More share for a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GrantShare {
    /// The path of the budget that gets it.
    pub to: String,
    /// The path of the sibling that gives it; the unassigned part of their parent does if none.
    pub from: Option<String>,
    /// How much of the parent.
    pub share: Share,
    /// When it begins; at once if none.
    pub begins_at: Option<Timestamp>,
    /// When it ends.
    pub until: Timestamp,
    /// Why; needed.
    pub reason: String,
}

/// The early end of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndGrant {
    /// Which.
    pub grant: GrantId,
    /// Why; needed.
    pub reason: String,
}

/// A new principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AddPrincipal {
    /// Its name.
    pub name: Name,
    /// The hash of its token.
    pub token: TokenHash,
    /// The Unix account its jobs run as.
    pub account: AccountName,
    /// Whether it may do what operators may.
    pub is_operator: bool,
}

/// A permission for a node to join.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IssueJoinToken {
    /// The name the node gets.
    pub name: Name,
    /// The cluster it joins, which names a pool too unless an operator made one that has it.
    pub pool: Name,
    /// Where the node is, from the outermost group to the innermost; may be empty.
    pub topology: Vec<Name>,
    /// The hash of the token.
    pub token: TokenHash,
    /// When it stops being good.
    pub expires_at: Timestamp,
}

/// A node joins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Join {
    /// The hash of the one-time token.
    pub token: TokenHash,
    /// The name it thinks it has.
    pub name: Name,
    /// The machine's own id.
    pub machine: Label,
    /// The hash of the credential that the agent made for itself.
    pub credential: TokenHash,
}

/// Where cluster time was taken from when no replica had kept it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ResumeTime {
    /// Where from.
    pub from: TimeSource,
    /// The same in words, with the figures.
    pub what: String,
}

/// Who vouched for cluster time when no replica did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeSource {
    /// Agents, whose machines ran on.
    Agents,
    /// Nobody: the wall clock of the leader's machine, shortly after the last entry.
    WallClock,
    /// Nobody, and the wall clock could not be believed: it goes on from the last entry, with an alarm.
    LastEntry,
}

/// An operator's word about cluster time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SetTime {
    /// What it is set to, never backward; none if it is right as it is.
    pub to: Option<Timestamp>,
    /// Why; needed.
    pub reason: String,
}

/// What `apply` answers.
pub type Answer = Result<Outcome, Rejection>;

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It holds, with nothing more to say.
    Done,
    /// A job was accepted.
    Submitted {
        /// Its number.
        job: JobId,
    },
    /// The tree is now this version.
    BudgetsApplied {
        /// Which.
        revision: Revision,
    },
    /// The tree will be another from a later moment on.
    EditPlanned {
        /// The number of the edit.
        edit: EditId,
    },
    /// A grant was made.
    Granted {
        /// Its number.
        grant: GrantId,
    },
    /// A node joined, or had joined with the same credential.
    Joined {
        /// Its number.
        node: NodeId,
    },
    /// A plan was judged.
    Adopted {
        /// How many of its decisions hold.
        adopted: u32,
        /// Which do not, by their place in the plan, and why.
        dropped: Vec<(u16, Dropped)>,
    },
    /// A batch, one answer each.
    Batch(Vec<Answer>),
}

/// An expected refusal, part of the replicated result. `code` never changes meaning; the words may improve.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{what}")]
pub struct Rejection {
    /// The stable code.
    pub code: Code,
    /// What is wrong, and where.
    pub what: String,
    /// Why that is refused; may be empty.
    pub why: String,
    /// What to do; may be empty.
    pub fix: String,
}

impl Rejection {
    /// Makes a refusal.
    #[must_use]
    pub fn new(code: Code, what: String, why: &str, fix: String) -> Self {
        Self { code, what, why: String::from(why), fix }
    }
}

/// The kinds of refusal. The discriminant is the number in `B1203`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u16)]
pub enum Code {
    /// A value or a combination of values that cannot be.
    BadSpec = 1201,
    /// The minimum runtime is above the cap.
    AboveCap = 1202,
    /// The minimum runtime is longer than the time limit.
    AboveTimeLimit = 1203,
    /// Neither protection nor free tier was chosen.
    NoTier = 1204,
    /// No node set can ever hold the shape.
    ImpossibleShape = 1205,
    /// No such budget.
    UnknownBudget = 1301,
    /// The budget has children; jobs go to leaves.
    InnerBudget = 1302,
    /// The budget takes no submissions any more.
    ClosedBudget = 1303,
    /// The budget's allocation is zero, so it can pay for no protection.
    NoAllocation = 1304,
    /// Siblings add up to more than their parent.
    OverWhole = 1305,
    /// A name stands twice, or the tree is too deep or too large, or a budget would move.
    BadTree = 1306,
    /// The actor may not do this.
    NotAllowed = 1401,
    /// No such job, node, principal, decision.
    NotFound = 1402,
    /// The name is taken.
    NameTaken = 1403,
    /// A join token that is unknown, used, or too old.
    BadJoinToken = 1404,
    /// A node whose NVML is simulated, in a control plane that refuses them.
    Simulated = 1405,
    /// No token, or one that opens nothing. Said by a replica, never by `apply`.
    NotLoggedIn = 1406,
    /// A log, or the link to the node that has it, is not there. Said by a replica, never by `apply`.
    NoLog = 1407,
    /// The same request id with another body.
    Conflict = 1501,
    /// The request's own time is too far from the cluster's.
    Expired = 1502,
    /// What the request was made for has changed.
    Stale = 1503,
    /// The plan was made in another term.
    WrongTerm = 1504,
    /// A bound is reached; try again later.
    Full = 1601,
    /// The control plane is in safe mode.
    SafeMode = 1602,
    /// Already founded, or not founded yet.
    Founding = 1603,
    /// No leader within the call's time; nothing is known to be done, and repeating is safe. Said by a replica, never
    /// by `apply`.
    NoLeader = 1604,
    /// A change of the replicas that cannot be. Said by a replica, never by `apply`.
    Members = 1605,
    /// A broken invariant: nothing was changed, the control plane is in safe mode.
    Internal = 1901,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 28] = [
        Self::BadSpec,
        Self::AboveCap,
        Self::AboveTimeLimit,
        Self::NoTier,
        Self::ImpossibleShape,
        Self::UnknownBudget,
        Self::InnerBudget,
        Self::ClosedBudget,
        Self::NoAllocation,
        Self::OverWhole,
        Self::BadTree,
        Self::NotAllowed,
        Self::NotFound,
        Self::NameTaken,
        Self::BadJoinToken,
        Self::Simulated,
        Self::NotLoggedIn,
        Self::NoLog,
        Self::Conflict,
        Self::Expired,
        Self::Stale,
        Self::WrongTerm,
        Self::Full,
        Self::SafeMode,
        Self::Founding,
        Self::NoLeader,
        Self::Members,
        Self::Internal,
    ];

    /// Returns its number, as in `B1203`.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Returns the code of a number.
    #[must_use]
    pub fn of(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }
}

/// An outcome that a retry gets again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Remembered {
    /// Of the command.
    pub body: BodyHash,
    /// When it was applied.
    pub at: Timestamp,
    /// By which entry.
    pub index: LogIndex,
    /// What was answered.
    pub answer: Answer,
}
