//! What a job asks for: the part that decisions read, and the part that only the node reads.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::array::Indexes;
use crate::id::{JobId, Label, Name};
use crate::unit::{Bytes, GpuCount, Span, Timestamp};

/// Which books a job is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Charged, and protected for its minimum runtime.
    Funded,
    /// Not charged, never protected: the free tier.
    Free,
}

/// Order among the jobs of one budget; means nothing to anybody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Turn {
    /// Before the others.
    First,
    /// In order of submission.
    #[default]
    Normal,
    /// After the others.
    Last,
}

/// Where a submission's tier or other term came from; the receipt says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TermSource {
    /// Written in the submission itself (a flag or a file; the client knows which).
    Submission,
    /// A default that the owner of a budget on the path set.
    BudgetDefault,
    /// Nobody said it, so the cautious value holds. Never the source of a tier.
    Unsaid,
}

/// What a budget's owner sets for submissions that say nothing themselves; the nearest level up the path counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ContractDefaults {
    /// The minimum runtime; zero is the free tier.
    pub min_runtime: Option<Span>,
    /// Whether jobs resume from a checkpoint.
    pub resumable: Option<bool>,
    /// The time limit of an attempt.
    pub time_limit: Option<Span>,
}

/// Resources of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// On how many nodes: 1 for a job on one node.
    pub nodes: u32,
    /// GPUs on each of them.
    pub gpus_per_node: GpuCount,
    /// The GPU's name as the driver gives it, or a part of it; any if none.
    pub gpu_type: Option<Label>,
    /// Types that do as well, in order of preference, if that one does not let it start now. A job runs wholly on GPUs of
    /// one type.
    pub or_types: Vec<Label>,
    /// Its nodes are in one group of this level of their topology, from 1, the outermost; anywhere if none.
    pub within: Option<u8>,
    /// Cores on each node; the GPUs' part of the node if none.
    pub cpus: Option<u32>,
    /// Memory on each node; the GPUs' part of the node if none.
    pub memory: Option<Bytes>,
}

impl Shape {
    /// Returns the shape once for each type that it may have, the preferred first; itself alone, if it names no second.
    #[must_use]
    pub fn of_each_type(&self) -> Vec<Self> {
        let types = self.gpu_type.iter().chain(&self.or_types);
        let of = |kind: &Label| Self { gpu_type: Some(kind.clone()), or_types: Vec::new(), ..self.clone() };
        if self.or_types.is_empty() { alloc::vec![self.clone()] } else { types.map(of).collect() }
    }
}

/// The part of a submission that decisions read, as asked; `None` = not said.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// The job's name.
    pub name: Label,
    /// Where it is charged, always a leaf: `a/b/c` as the client wrote it.
    pub budget: String,
    /// The pool it must run in; any if none.
    pub cluster: Option<Name>,
    /// Its GPUs.
    pub shape: Shape,
    /// Time for real progress, the length of its protection; zero is the free tier.
    pub min_runtime: Option<Span>,
    /// The longest time of an attempt.
    pub time_limit: Option<Span>,
    /// Whether it goes on from a checkpoint when started again.
    pub resumable: Option<bool>,
    /// From a preemption's notice to the kill.
    pub grace: Option<Span>,
    /// The notice signal's number.
    pub signal: Option<u8>,
    /// How often it says it saves.
    pub checkpoint_every: Option<Span>,
    /// Which checkpoint files say that one is complete.
    pub checkpoint_glob: Option<String>,
    /// The exit code that means "start me again".
    pub requeue_code: Option<u8>,
    /// How often a failed attempt is tried again.
    pub retries: u16,
    /// Order among the jobs of its budget.
    pub turn: Option<Turn>,
    /// Whether it starts held.
    pub is_held: bool,
    /// When it may start, and after what.
    pub asks: Asks,
}

/// What a submission asks beside its shape and its contract; nothing, unless it says so.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Asks {
    /// It is held until then.
    pub begin: Option<Timestamp>,
    /// It is held until all of these have ended.
    pub after: Vec<After>,
    /// It is an array of so many tasks.
    pub array: Option<Indexes>,
    /// Nodes that it is never placed on, by their names.
    pub exclude: Vec<Name>,
}

/// A job that must have ended before another one stands in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct After {
    /// Which: a job, or an array, of which all tasks are meant.
    pub job: JobId,
    /// Which task of that array, if one is meant.
    pub task: Option<u32>,
    /// How it must have ended.
    pub wants: Wants,
}

/// How a job must have ended for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wants {
    /// In any way.
    End,
    /// Completed.
    Success,
}

/// The part of a submission that only the node reads; `apply` and `plan` never do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Launch {
    /// What runs.
    pub program: Program,
    /// Where it runs; must exist on the node.
    pub working_dir: String,
    /// The log file; one in the attempt's directory if none. `%j` job, `%a` attempt, `%r` rank.
    pub output: Option<String>,
    /// The job's own environment.
    pub env: BTreeMap<String, String>,
    /// Names of files on the node whose content is put in the environment.
    pub secrets: Vec<String>,
    /// Which checkpoint files say that one is complete; the request's, which the replica puts here.
    pub checkpoint_glob: Option<String>,
}

/// What a rank executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Program {
    /// A program with its arguments.
    Command(Vec<String>),
    /// A script of at most 48 KiB, run by its `#!` line or `/bin/sh`.
    Script(String),
}
