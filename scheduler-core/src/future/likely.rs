//! The range of a job's start over many futures.

use alloc::vec::Vec;

use super::course::Course;
use super::draw::Draw;
use super::lengths::Lengths;
use super::view::around;
use crate::id::JobId;
use crate::plan::Links;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// With fewer futures no range is told.
pub const FUTURES_MIN: u32 = 10;

/// What is asked of the futures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// When does this job start.
    pub job: JobId,
    /// From which the futures are made.
    pub seed: u64,
    /// How many of them.
    pub futures: u32,
    /// How far each goes.
    pub horizon: Span,
}

/// When a job starts in each of some futures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likely {
    /// Which job.
    pub job: JobId,
    /// From which they were made.
    pub seed: u64,
    /// How many were run.
    pub futures: u32,
    /// The moment at which they begin.
    pub at: Timestamp,
    /// The moment at which they end.
    pub until: Timestamp,
    /// When it starts, in those in which it does, in order.
    pub starts: Vec<Timestamp>,
    /// How many ended jobs tell how long jobs run.
    pub ended: usize,
}

/// In which the job starts in eight of ten futures: not before the first tenth, and not after the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Too few futures were run.
    Unknown,
    /// Between two moments.
    Between {
        /// A tenth of the futures have it start before.
        from: Timestamp,
        /// A tenth after.
        to: Timestamp,
    },
    /// From a moment on; more than a tenth have it not start before their end.
    From {
        /// A tenth of the futures have it start before.
        from: Timestamp,
    },
    /// Not before their end, in nine of ten.
    Later,
}

/// Runs the futures of a question one after the other, as long as `goes_on` says so; it is asked before each with how many
/// were run. None if the job does not stand in line.
#[must_use]
pub fn likely(
    state: &State,
    links: &Links,
    question: &Question,
    now: Timestamp,
    mut goes_on: impl FnMut(u32) -> bool,
) -> Option<Likely> {
    let now = now.max(state.meta.time);
    let view = around(state, question.job, now)?;
    let lengths = Lengths::of(state);
    let until = now.plus(question.horizon);
    let (mut starts, mut futures) = (Vec::new(), 0);
    while futures < question.futures && goes_on(futures) {
        let draw = Draw::new(question.seed, futures);
        let course = Course::new(view.clone(), (links, &lengths), (draw, question.job), (now, until));
        starts.extend(course.run());
        futures += 1;
    }
    starts.sort_unstable();
    let (job, seed, ended) = (question.job, question.seed, lengths.ended());
    Some(Likely { job, seed, futures, at: now, until, starts, ended })
}

impl Likely {
    /// Returns the range that holds eight of ten futures.
    #[must_use]
    pub fn range(&self) -> Range {
        if self.futures < FUTURES_MIN {
            return Range::Unknown;
        }
        let tenth = usize::try_from(self.futures / 10).unwrap_or(0);
        let all = usize::try_from(self.futures).unwrap_or(usize::MAX);
        match (self.starts.get(tenth), self.starts.get(all - 1 - tenth)) {
            (Some(from), Some(to)) => Range::Between { from: *from, to: *to },
            (Some(from), None) => Range::From { from: *from },
            (None, _) => Range::Later,
        }
    }

    /// Returns in how many futures it does not start before their end.
    #[must_use]
    pub fn without(&self) -> u32 {
        self.futures.saturating_sub(u32::try_from(self.starts.len()).unwrap_or(u32::MAX))
    }
}
