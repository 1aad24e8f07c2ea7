//! Jobs that ended in some time: those that state still has, and those that left it, newest first, each once.
//!
//! State's come first, by their end; then the history's, the last one to leave first. A list goes on over several
//! calls while jobs go from state to the history: so what left since the first call is taken together with state's.

use std::collections::BTreeMap;

use proto::history::v1::Record;
use proto::state::v1::record::Record as Kept;
use proto::{snapshot, v1};
use scheduler_core::budget;
use scheduler_core::command::{Code, Rejection};
use scheduler_core::id::{BudgetId, JobId, LogIndex, Name};
use scheduler_core::job::{Job, Phase};
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;
use tonic::Status;

use super::Walk;
use crate::history::{Direction, Query, Wants};
use crate::refusal;
use crate::shared::{Read, Shared};

/// Which jobs are asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Of this budget and those below it.
    pub budget: Option<BudgetId>,
    /// Of this user.
    pub user: Option<Name>,
    /// That ended from this moment on.
    pub since: Timestamp,
    /// And before this one.
    pub until: Option<Timestamp>,
    /// At most so many.
    pub most: usize,
}

/// Where a list goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Among state's jobs and those that left it after an index: behind a job, by its end and number.
    Present {
        /// The index of the first call.
        upto: LogIndex,
        /// The last job of the page before.
        below: (Timestamp, JobId),
    },
    /// In the history.
    Past {
        /// At this index.
        index: LogIndex,
        /// Behind so many of the jobs that left with it.
        skip: usize,
    },
}

/// A job that ended.
#[derive(Debug, Clone)]
pub struct One {
    /// Which.
    pub id: JobId,
    /// As it is, or was.
    pub job: Job,
    /// When it left state, if it has.
    pub left_at: Option<Timestamp>,
}

/// A page of them.
#[derive(Debug, Clone)]
pub struct Ended {
    /// In order.
    pub jobs: Vec<One>,
    /// A state that has them all.
    pub read: Read,
    /// Where the next page starts; none if there is no more.
    pub next: Option<Place>,
    /// How far back they go.
    pub reach: v1::Reach,
}

impl Place {
    /// Reads it as a client gives it back.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split('.').collect();
        match *words.as_slice() {
            ["s", upto, at, job] => Some(Self::Present {
                upto: LogIndex::new(upto.parse().ok()?),
                below: (Timestamp::from_millis(at.parse().ok()?), JobId::new(job.parse().ok()?)),
            }),
            ["h", index, skip] => {
                Some(Self::Past { index: LogIndex::new(index.parse().ok()?), skip: skip.parse().ok()? })
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Present { upto, below: (at, job) } => write!(f, "s.{upto}.{}.{job}", at.as_millis()),
            Self::Past { index, skip } => write!(f, "h.{index}.{skip}"),
        }
    }
}

impl Wanted {
    fn is_meant(&self, state: &State, job: &Job) -> bool {
        let Phase::Ended { at, .. } = job.phase else { return false };
        let is_then = at >= self.since && self.until.is_none_or(|until| at < until);
        let is_there = self.budget.is_none_or(|above| budget::path(state, job.budget).contains(&above));
        is_then && is_there && self.user.as_ref().is_none_or(|user| *user == job.user)
    }

    fn query(&self, through: LogIndex) -> Query {
        let wants = Wants { jobs: true, ..Wants::default() };
        Query {
            through,
            // Nothing leaves before it ends.
            from_time: self.since,
            direction: Direction::Backward,
            ..Query::all(wants)
        }
    }
}

/// Returns a page of the jobs that ended.
///
/// # Errors
/// When the history cannot be read, or the list is too old to go on.
pub async fn list(
    shared: &Shared,
    read: &Read,
    wanted: &Wanted,
    from: Option<Place>,
) -> Result<Ended, Status> {
    let mut page = Paging { wanted, state: read.view.state.clone(), jobs: Vec::new() };
    let now = read.view.state.meta.time.as_millis();
    let (through, mut skip) = match from {
        Some(Place::Past { index, skip }) => (index, skip),
        Some(Place::Present { .. }) | None => {
            let (upto, below) = match from {
                Some(Place::Present { upto, below }) => (upto, Some(below)),
                Some(Place::Past { .. }) | None => (read.view.index, None),
            };
            let left = left_since(shared, read, wanted, upto).await?;
            if let Some(below) = page.present(left, below) {
                let reach = v1::Reach { complete_from_at: below.0.as_millis(), ..v1::Reach::default() };
                return Ok(page.done(read, Some(Place::Present { upto, below }), reach));
            }
            (upto, 0)
        }
    };
    let mut walk = Walk::new(shared, read.view.index, wanted.query(through));
    while let Some(records) = walk.page().await? {
        for record in records {
            let index = LogIndex::new(record.index);
            let skipped = if index == through { std::mem::take(&mut skip) } else { 0 };
            let at = record.time_ms;
            if let Some(skip) = page.past(record, skipped)? {
                let missing = walk.missing().await?;
                let reach = v1::Reach { complete_from_at: at, kept_from_at: None, missing };
                return Ok(page.done(read, Some(Place::Past { index, skip }), reach));
            }
        }
    }
    let next = walk.rest().map(|index| Place::Past { index, skip: 0 });
    let reach = walk.reach(Some(wanted.since.as_millis()), now).await?;
    Ok(page.done(read, next, reach))
}

/// Returns what left state after `upto`, which is little: the time between two pages.
async fn left_since(
    shared: &Shared,
    read: &Read,
    wanted: &Wanted,
    upto: LogIndex,
) -> Result<Vec<Record>, Status> {
    let mut left = Vec::new();
    if upto >= read.view.index {
        return Ok(left);
    }
    let from = LogIndex::new(upto.get().saturating_add(1));
    let query = Query { from, ..wanted.query(read.view.index) };
    let mut walk = Walk::new(shared, read.view.index, query);
    while let Some(records) = walk.page().await? {
        left.extend(records);
    }
    match walk.rest() {
        None => Ok(left),
        Some(_) => Err(refusal::status(&Rejection::new(
            Code::Conflict,
            "this list is too old to go on".to_owned(),
            "too many jobs have left the present state since its first page",
            "start it again".to_owned(),
        ))),
    }
}

/// A page while it is made.
struct Paging<'a> {
    wanted: &'a Wanted,
    /// The present one; jobs that left are put back.
    state: State,
    jobs: Vec<One>,
}

impl Paging<'_> {
    /// Takes state's jobs, and those of `left`, behind `below`; returns the last one if there are more than asked for.
    fn present(
        &mut self,
        left: Vec<Record>,
        below: Option<(Timestamp, JobId)>,
    ) -> Option<(Timestamp, JobId)> {
        let mut found = BTreeMap::new();
        let is_behind = |key: &(Timestamp, JobId)| below.is_none_or(|below| *key < below);
        for (id, job) in self.state.jobs.iter().filter(|(_, job)| self.wanted.is_meant(&self.state, job)) {
            let Phase::Ended { at, .. } = job.phase else { continue };
            found.insert((at, *id), One { id: *id, job: job.clone(), left_at: None });
        }
        for record in left {
            let left_at = Some(Timestamp::from_millis(record.time_ms));
            // What cannot be read is told where the history itself is looked through.
            for (id, job) in self.take(record).unwrap_or_default() {
                let Phase::Ended { at, .. } = job.phase else { continue };
                if self.wanted.is_meant(&self.state, &job) {
                    found.insert((at, id), One { id, job, left_at });
                }
            }
        }
        let mut found = found.into_iter().rev().filter(|(key, _)| is_behind(key)).peekable();
        let mut last = None;
        while self.jobs.len() < self.wanted.most {
            let (key, one) = found.next()?;
            last = Some(key);
            self.jobs.push(one);
        }
        found.peek().and(last)
    }

    /// Takes the jobs that left with an entry, the last one first, behind the first `skip` of them. Returns how many to
    /// skip on the next page if not all of them have room.
    fn past(&mut self, record: Record, skip: usize) -> Result<Option<usize>, Status> {
        let left_at = Some(Timestamp::from_millis(record.time_ms));
        let gone = self.take(record).map_err(|cause| super::unreadable(&cause))?;
        for (n, (id, job)) in gone.into_iter().rev().enumerate().skip(skip) {
            if !self.wanted.is_meant(&self.state, &job) {
                continue;
            }
            if self.jobs.len() >= self.wanted.most {
                return Ok(Some(n));
            }
            self.jobs.push(One { id, job, left_at });
        }
        Ok(None)
    }

    /// Returns the jobs of a record, and puts what their nodes read into the state.
    fn take(&mut self, record: Record) -> Result<Vec<(JobId, Job)>, proto::Error> {
        let mut jobs = Vec::new();
        for kept in record.left.into_iter().filter_map(|kept| kept.record) {
            match kept {
                Kept::Job(kept) => jobs.push(snapshot::read_job_record(kept)?),
                Kept::Launch(kept) => {
                    let (hash, launch) = snapshot::read_launch_record(kept)?;
                    if !self.state.launches.contains(&hash) {
                        self.state.launches.insert(hash, launch);
                    }
                }
                _ => {}
            }
        }
        Ok(jobs)
    }

    fn done(mut self, read: &Read, next: Option<Place>, reach: v1::Reach) -> Ended {
        for one in self.jobs.iter().filter(|one| one.left_at.is_some()) {
            if !self.state.jobs.contains(&one.id) {
                self.state.jobs.insert(one.id, one.job.clone());
            }
        }
        Ended { jobs: self.jobs, read: super::with(read, self.state), next, reach }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_as_they_were_given() {
        let present =
            Place::Present { upto: LogIndex::new(7), below: (Timestamp::from_millis(9), JobId::new(3)) };
        let past = Place::Past { index: LogIndex::new(12), skip: 2 };
        for place in [present, past] {
            assert_eq!(Place::parse(&place.to_string()), Some(place));
        }
        for text in ["", "s", "h.1", "h.1.x", "s.1.2", "x.1.2", "h.-1.0"] {
            assert_eq!(Place::parse(text), None, "{text}");
        }
    }
}
