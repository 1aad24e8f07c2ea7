//! Submissions as a trace has them, whatever its format was.

use scheduler_core::unit::{Span, Timestamp};

/// The jobs of one trace, in order of submission.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// What it is called in reports.
    pub name: String,
    /// Its jobs, by submission, then as they stood in the source.
    pub jobs: Vec<TraceJob>,
    /// What the import took and left.
    pub import: Import,
}

/// What became of the rows of a source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Import {
    /// Data rows read: header, comments and empty lines are none.
    pub rows: u64,
    /// Rows that were left out, in order; at most [`Import::SHOWN`] of each reason.
    pub skipped: Vec<Skipped>,
    /// How many rows were left out for each reason, most frequent first.
    pub reasons: Vec<(String, u64)>,
    /// What a reader of the figures should know: clamped times, a rule that was applied, columns that nobody reads.
    pub notes: Vec<String>,
}

impl Import {
    /// So many rows of one reason are shown with their line.
    pub const SHOWN: usize = 5;
}

/// A row that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its line in the source, from 1.
    pub line: u64,
    /// Why, with the value that was wrong.
    pub reason: String,
}

/// One job of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceJob {
    /// Its id in the source.
    pub name: String,
    /// Its line in the source, from 1.
    pub line: u64,
    /// When it was submitted; in traces without dates, since the first row.
    pub submitted_at: Timestamp,
    /// How long it ran, all its attempts together, without waits between them.
    pub duration: Span,
    /// GPUs, on all its nodes together; never 0.
    pub gpus: u32,
    /// Nodes, where the source says so.
    pub nodes: Option<u32>,
    /// The type of its GPUs, where the source says so.
    pub gpu_type: Option<String>,
    /// Its team: virtual cluster, account, organisation.
    pub team: Option<String>,
    /// Its user.
    pub user: Option<String>,
    /// The longest time that it asked for.
    pub time_limit: Option<Span>,
    /// Its minimum runtime; only formats of our own have one.
    pub min_runtime: Option<Span>,
    /// Whether it is in the free tier; only formats of our own say so.
    pub is_free: Option<bool>,
    /// How long it waited in the source.
    pub waited: Option<Span>,
    /// How it ended in the source.
    pub end: TraceEnd,
}

/// How a job ended in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceEnd {
    /// By itself, well.
    Completed,
    /// By itself, badly.
    Failed,
    /// By a person.
    Cancelled,
    /// At its time limit.
    TimedOut,
    /// With its node.
    NodeFailed,
    /// It ran on when the source was taken.
    Running,
    /// The source does not say.
    Unknown,
}
