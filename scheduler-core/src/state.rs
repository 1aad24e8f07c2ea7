//! The replicated state: what every replica computes alike from the log.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::array::JobArray;
use crate::bill::Bill;
use crate::budget::{Budget, Grant, TimedEdit};
use crate::command::Remembered;
use crate::date::Date;
use crate::decision::Record;
use crate::id::{
    AttemptId, AttemptNo, BudgetId, ClusterId, DecisionId, EditId, Epoch, GrantId, JobId, LogIndex, Name,
    NodeId, Rank, RequestId, Revision, Slot, SpecHash, Term, TokenHash,
};
use crate::job::{Attempt, Job, JobResult};
use crate::ledger::Books;
use crate::node::{JoinToken, Node};
use crate::pool::Pool;
use crate::principal::Principal;
use crate::settings::Settings;
use crate::spec::{Tier, Turn};
use crate::table::{Boxed, Table, digest_of};
use crate::unit::{Span, Timestamp};

/// Everything that decisions are made from. A clone is cheap, and frozen.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// One-of-a-kind facts.
    pub meta: Meta,
    /// The budget tree.
    pub budgets: Table<BudgetId, Budget>,
    /// Edits of the tree with a start time: those to come, and what became of late ones.
    pub edits: Table<EditId, TimedEdit, Boxed>,
    /// Share that budgets have for a time, those that still count in the window.
    pub grants: Table<GrantId, Grant>,
    /// Who may ask.
    pub principals: Table<Name, Principal>,
    /// Permissions to join that nobody used yet.
    pub join_tokens: Table<TokenHash, JoinToken>,
    /// Pools that an operator made: of several clusters, or with weights. A cluster that none of them names is in the pool
    /// of its own name.
    pub pools: Table<Name, Pool>,
    /// Machines.
    pub nodes: Table<NodeId, Node, Boxed>,
    /// Jobs, live and lately ended.
    pub jobs: Table<JobId, Job, Boxed>,
    /// Arrays, live and lately ended; their tasks are jobs.
    pub arrays: Table<JobId, JobArray, Boxed>,
    /// Attempts from placing until their GPUs are proven empty.
    pub attempts: Table<AttemptId, Attempt, Boxed>,
    /// Where GPU time went, and what budgets were charged for it.
    pub books: Books,
    /// What nodes read, by content.
    pub launches: Table<SpecHash, Launch>,
    /// Why things were decided.
    pub decisions: Table<DecisionId, Record, Boxed>,
    /// What preemptions cost, by the end of the attempt that gave way; those of the window.
    pub bills: Table<(Timestamp, AttemptId), Bill, Boxed>,
    /// Answers for retries.
    pub requests: Table<RequestId, Remembered>,
    /// Processes that a node reported and nobody placed: their stop is ordered until they are gone.
    pub strays: Table<(NodeId, AttemptId, Rank), Stray>,
    /// Promised starts of waiting jobs, by job and pool.
    pub dates: Table<(JobId, Name), Date, Boxed>,
    /// Index: the jobs that wait, in line within each budget and tier, each with what kind of job it is.
    pub line: Table<InLine, Kind>,
    /// Index: ended jobs whose GPUs are all free, by the moment from which they are only kept to be looked at.
    pub ended: Table<(Timestamp, JobId), ()>,
    /// How jobs ended that are not in state any more, for whoever depends on them.
    pub results: Table<JobId, JobResult>,
    /// Index: the same, by the moment of their end.
    pub results_by_end: Table<(Timestamp, JobId), ()>,
    /// Index: who waits for a job that has not ended: that one, then whoever waits.
    pub dependents: Table<(JobId, JobId), ()>,
    /// Index: what changes by time alone, and when; `apply` runs it in this order before each command.
    pub timers: Table<(Timestamp, Timer), ()>,
}

/// A waiting job's place: by budget and tier, then turn, then first submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InLine {
    /// Its leaf.
    pub budget: BudgetId,
    /// Funded before free.
    pub tier: Tier,
    /// What its submission said about the others of its budget.
    pub turn: Turn,
    /// When it was first submitted.
    pub submitted_at: Timestamp,
    /// Itself.
    pub job: JobId,
}

/// What a waiting job declared, in one number, so that those who are alike are known without being looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(u64);

impl Kind {
    /// Of a job that has run, or could not: what it is given depends on more than its terms.
    pub const OWN: Self = Self(0);

    /// Returns what kind of job it is.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        if job.next_attempt > AttemptNo::new(1) || !job.failed_on.is_empty() {
            return Self::OWN;
        }
        Self(digest_of(&job.terms).max(1))
    }
}

/// Something that changes by time alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A started attempt's protection ends: nothing is set aside for it any more.
    ProtectionOver(AttemptId),
    /// A node takes work again after failed launches.
    BackoffOver(NodeId),
    /// An attempt without go, or that its agents could not start, has had its time.
    StartBy(AttemptId),
    /// A held job is in line by itself from then on.
    Release(JobId),
    /// A drain begins, or its deadline is so near that what is left is told to leave.
    Drain(NodeId),
    /// A permission to join lapses.
    JoinToken(TokenHash),
    /// An answer is forgotten.
    Request(RequestId),
    /// A grant begins, ends, or counts no more.
    Grant(GrantId),
    /// The time of an edit has come, or what became of it is forgotten.
    Edit(EditId),
}

/// A process that a node reported and nobody placed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stray {
    /// Since when it is known.
    pub since: Timestamp,
    /// The GPUs it holds here, as far as they were idle.
    pub slots: Vec<Slot>,
}

/// One-of-a-kind facts of a control plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Meta {
    /// Its identity; none before it was founded.
    pub cluster: Option<ClusterId>,
    /// Its epoch.
    pub epoch: Epoch,
    /// Which behaviour `apply` has.
    pub level: u32,
    /// Its figures.
    pub settings: Settings,
    /// The time of the last entry.
    pub time: Timestamp,
    /// The last entry.
    pub index: LogIndex,
    /// The last entry's term.
    pub term: Term,
    /// The number that the next job takes.
    pub next_job: JobId,
    /// The number that the next node takes.
    pub next_node: NodeId,
    /// The number that the next budget takes.
    pub next_budget: BudgetId,
    /// The number that the next edit with a start time takes.
    pub next_edit: EditId,
    /// The number that the next grant takes.
    pub next_grant: GrantId,
    /// Version of the budget tree.
    pub tree: Revision,
    /// Why it is in safe mode; none when it is not.
    pub safe_mode: Option<SafeMode>,
    /// Changes that a node-by-node count would have to search for: live jobs; an array counts with all its places.
    pub live_jobs: u32,
    /// The tasks of all arrays in state, made or not.
    pub array_tasks: u32,
    /// The bytes of [`State::launches`].
    pub spec_bytes: u64,
    /// Agents' claims that were refused, by node: alarms.
    pub alarms: BTreeMap<NodeId, String>,
    /// Why cluster time may be wrong; none when somebody vouched for it, or an operator did.
    pub time_alarm: Option<TimeAlarm>,
    /// The last time that an operator set cluster time forward.
    pub time_jump: Option<TimeJump>,
}

/// Cluster time that nobody vouches for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TimeAlarm {
    /// Since when, in that time.
    pub since: Timestamp,
    /// What is known of it.
    pub what: String,
}

/// A step of cluster time by an operator's word: nothing happened in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimeJump {
    /// The moment before it.
    pub from: Timestamp,
    /// The moment after it.
    pub to: Timestamp,
}

impl TimeJump {
    /// Returns how much time it passed over.
    #[must_use]
    pub const fn span(self) -> Span {
        self.to.since(self.from)
    }
}

/// A control plane that adopts no plan until a person says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SafeMode {
    /// Since when.
    pub since: Timestamp,
    /// Since which entry.
    pub index: LogIndex,
    /// What was broken.
    pub what: String,
}

/// What nodes read, and how many jobs need it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Launch {
    /// As the replica that took the submission encoded it.
    pub bytes: Arc<[u8]>,
    /// Jobs that refer to it.
    pub jobs: u32,
}

impl Launch {
    /// Returns how many bytes nodes read.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }
}
