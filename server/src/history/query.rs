//! What is asked of history, and a page of what it has.

use proto::history::v1::Record;
use proto::v1;
use scheduler_core::id::{JobId, LogIndex};
use scheduler_core::unit::Timestamp;

use super::shape::Range;

/// Which way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// From the oldest on.
    #[default]
    Forward,
    /// From the newest back.
    Backward,
}

/// Which parts of records are wanted; a record with none of them is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wants {
    /// Who asked what.
    pub audit: bool,
    /// What happened.
    pub events: bool,
    /// Jobs that left state, with their decisions and launches, and attempts that left a job's past.
    pub jobs: bool,
    /// Bills that left state.
    pub bills: bool,
}

/// What is wanted. Indexes and times are both bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// The first index.
    pub from: LogIndex,
    /// The last index.
    pub through: LogIndex,
    /// The first moment of cluster time.
    pub from_time: Timestamp,
    /// The last moment of cluster time.
    pub through_time: Timestamp,
    /// Only what mentions this job.
    pub job: Option<JobId>,
    /// Which way.
    pub direction: Direction,
    /// The most records of a page.
    pub most: usize,
    /// Which parts.
    pub wants: Wants,
}

impl Query {
    /// Asks for everything of these kinds.
    #[must_use]
    pub fn all(wants: Wants) -> Self {
        Self {
            from: LogIndex::new(0),
            through: LogIndex::new(u64::MAX),
            from_time: Timestamp::from_millis(0),
            through_time: Timestamp::from_millis(u64::MAX),
            job: None,
            direction: Direction::Forward,
            most: 1_000,
            wants,
        }
    }

    /// Returns the query for the next page.
    #[must_use]
    pub fn on_from(self, next: LogIndex) -> Self {
        match self.direction {
            Direction::Forward => Self { from: next, ..self },
            Direction::Backward => Self { through: next, ..self },
        }
    }

    pub(super) fn to_wire(self) -> v1::HistoryQuery {
        v1::HistoryQuery {
            from: self.from.get(),
            through: self.through.get(),
            from_ms: self.from_time.as_millis(),
            through_ms: self.through_time.as_millis(),
            job: self.job.map(JobId::get),
            backward: self.direction == Direction::Backward,
            most: u32::try_from(self.most).unwrap_or(u32::MAX),
            audit: self.wants.audit,
            events: self.wants.events,
            jobs: self.wants.jobs,
            bills: self.wants.bills,
        }
    }

    pub(super) fn of_wire(m: &v1::HistoryQuery) -> Self {
        Self {
            from: LogIndex::new(m.from),
            through: LogIndex::new(m.through),
            from_time: Timestamp::from_millis(m.from_ms),
            through_time: Timestamp::from_millis(m.through_ms),
            job: m.job.map(JobId::new),
            direction: if m.backward { Direction::Backward } else { Direction::Forward },
            most: usize::try_from(m.most).unwrap_or(usize::MAX),
            wants: Wants { audit: m.audit, events: m.events, jobs: m.jobs, bills: m.bills },
        }
    }
}

/// One page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// What was found, in the direction asked for. Events and audit lines are numbered and dated.
    pub records: Vec<Record>,
    /// Where the next page starts ([`Query::on_from`]); none if there is nothing more.
    pub next: Option<LogIndex>,
    /// What comes next is not there: the page ends before it, and the next page starts behind it.
    pub hole: Option<Range>,
}
