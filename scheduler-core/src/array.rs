//! Job arrays: one record for many jobs that differ in a number alone.
//!
//! ```text
//!  4190[0-9%4]:  JobArray 4190 { what each asks, made: 7, bad: {2} }   tasks 4191 ... 4200, at most four in state
//! ```
//!
//! An array takes its own number and one more for each task. Task records are made as they are needed: when one ends the
//! next is made in the same entry, so that never more of them live than the array's limit.

mod bits;
mod indexes;

use alloc::collections::BTreeMap;

pub use bits::Bits;
pub use indexes::{Error, Indexes, LIVE_MAX, RANGES_MAX, Range, TASKS_MAX};

use crate::id::JobId;
use crate::job::{End, Job};

/// An array of jobs, from its submission until an hour after its last task has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JobArray {
    /// What every task is, and where the array stands: held, waiting (its tasks are made as they are needed), ended.
    /// Never live: its tasks are.
    pub job: Job,
    /// Which tasks there are, and how many may live at once.
    pub indexes: Indexes,
    /// So many tasks were made, or were cancelled before their turn came: those at the first places.
    pub made: u32,
    /// Tasks that were made and have not ended.
    pub live: u32,
    /// How many ended, by how.
    pub ends: BTreeMap<End, u32>,
    /// The places of those that ended and have not completed.
    pub bad: Bits,
    /// The places of those that were cancelled before their turn came.
    pub skipped: Bits,
}

/// A task's place in its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// The array.
    pub of: JobId,
    /// Its number there: 7 of `4190[7]`.
    pub index: u32,
}

impl JobArray {
    /// Makes an array of which nothing has run.
    #[must_use]
    pub fn new(job: Job, indexes: Indexes) -> Self {
        let (bad, skipped) = (Bits::default(), Bits::default());
        Self { job, indexes, made: 0, live: 0, ends: BTreeMap::new(), bad, skipped }
    }

    /// Returns how many tasks have ended.
    #[must_use]
    pub fn ended(&self) -> u32 {
        self.ends.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns how many tasks have neither been made nor ended.
    #[must_use]
    pub fn rest(&self) -> u32 {
        self.indexes.count().saturating_sub(self.ended()).saturating_sub(self.live)
    }

    /// Returns how many of its tasks to come would run besides those that live, if GPUs were free: all of them, unless
    /// it is held or says how many may live at once.
    #[must_use]
    pub fn to_come(&self) -> u32 {
        let besides = self.indexes.limit().map_or(u32::MAX, |limit| limit.saturating_sub(self.live));
        if self.job.phase.is_waiting() { self.rest().min(besides) } else { 0 }
    }

    /// Returns how many of its tasks may live at once: so many places among the live jobs it has until it ends.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.indexes.live_max().min(self.indexes.count())
    }

    /// Whether all its tasks have ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended() >= self.indexes.count()
    }

    /// Returns how the array ended, if all its tasks have: completed if each of them did, else the worst of what happened.
    #[must_use]
    pub fn end(&self) -> End {
        let worst = [End::Failed, End::TimedOut, End::Lost, End::Preempted, End::Cancelled, End::Superseded];
        worst.into_iter().find(|end| self.ends.contains_key(end)).unwrap_or(End::Completed)
    }

    /// Returns the number of the task at a place.
    #[must_use]
    pub const fn task_at(of: JobId, place: u32) -> JobId {
        JobId::new(of.get().saturating_add(1).saturating_add(place))
    }

    /// Returns the place of the task with a number, if it is one of array `of`.
    #[must_use]
    pub fn place_of(&self, of: JobId, task: JobId) -> Option<u32> {
        let place = task.get().checked_sub(of.get())?.checked_sub(1)?;
        (place < self.indexes.count()).then_some(place)
    }
}
