//! Reading the history, a page at a time, within bounds: so many records and so long for one answer.

use std::time::Duration;

use proto::history::v1::Record;
use proto::v1;
use scheduler_core::id::LogIndex;
use tonic::Status;

use crate::clock::Deadline;
use crate::history::{self, Direction, Query, Range, Wants};
use crate::shared::Shared;

/// Records that are looked through for one answer at most; the answer says where to go on.
pub const RECORDS: usize = 20_000;
/// How long one answer may take to look.
pub const TIME: Duration = Duration::from_secs(3);
/// Records of one page.
const PAGE: usize = 500;
/// Entries that one page looks through: what matches may be rare.
const SPAN: u64 = 65_536;
/// Holes whose moments are looked up.
const DATED: usize = 16;

/// A walk through the history.
pub struct Walk<'a> {
    shared: &'a Shared,
    /// The index that the caller's state has.
    seen: LogIndex,
    query: Query,
    /// Where the next page starts; none behind the last one.
    rest: Option<LogIndex>,
    records_left: usize,
    deadline: Deadline,
    /// The moment of the last record that was seen.
    last_at: Option<u64>,
    holes: Vec<Range>,
    /// The last page was one, and the next one may be its other part.
    is_in_hole: bool,
}

impl<'a> Walk<'a> {
    /// Prepares to read what `query` asks for, up to what the caller's state has seen.
    #[must_use]
    pub fn new(shared: &'a Shared, seen: LogIndex, query: Query) -> Self {
        let query = Query { through: query.through.min(seen), ..query };
        let start = match query.direction {
            Direction::Forward => query.from,
            Direction::Backward => query.through,
        };
        Self {
            shared,
            seen,
            query,
            rest: Some(start),
            records_left: RECORDS,
            deadline: Deadline::after(TIME),
            last_at: None,
            holes: Vec::new(),
            is_in_hole: false,
        }
    }

    /// The same with other bounds than an answer has: for what goes on for as long as its reader likes.
    #[must_use]
    pub fn within(mut self, records: usize, time: Duration) -> Self {
        (self.records_left, self.deadline) = (records, Deadline::after(time));
        self
    }

    /// Returns the next page; none if there is none, or the bounds are reached, which [`Self::rest`] tells apart.
    ///
    /// # Errors
    /// When too many read at once, or the history cannot be read.
    pub async fn page(&mut self) -> Result<Option<Vec<Record>>, Status> {
        let Some(rest) = self.rest.filter(|_| self.records_left > 0 && !self.deadline.is_over()) else {
            return Ok(None);
        };
        let _turn = super::turn(self.shared).await?;
        let (query, behind) = self.part(rest);
        let page = history::read(self.shared, self.seen, query).await?;
        self.records_left -= page.records.len().min(self.records_left);
        self.last_at = page.records.last().map(|last| last.time_ms).or(self.last_at);
        self.is_in_hole = page.hole.is_some();
        if let Some(hole) = page.hole {
            self.add(hole);
        }
        self.rest = page.next.or(behind);
        Ok(Some(page.records))
    }

    /// Returns the query for the page that starts at `rest`, and what comes behind what it looks through.
    fn part(&self, rest: LogIndex) -> (Query, Option<LogIndex>) {
        let query = Query { most: PAGE.min(self.records_left), ..self.query.on_from(rest) };
        // What mentions a job is found without looking at the rest.
        if query.job.is_some() {
            return (query, None);
        }
        let floor = LogIndex::new(self.shared.history.coverage().floor);
        match query.direction {
            Direction::Forward => {
                let from = query.from.max(floor);
                let end = LogIndex::new(from.get().saturating_add(SPAN));
                let through = query.through.min(LogIndex::new(end.get() - 1));
                (Query { from, through, ..query }, Some(end).filter(|end| *end <= query.through))
            }
            Direction::Backward => {
                let begin = LogIndex::new(query.through.get().saturating_sub(SPAN - 1));
                let from = query.from.max(begin).max(floor);
                let behind = from.get().checked_sub(1).map(LogIndex::new);
                let behind = behind.filter(|behind| *behind >= query.from.max(floor));
                (Query { from, ..query }, behind)
            }
        }
    }

    /// Returns where to go on; none if everything was read.
    #[must_use]
    pub fn rest(&self) -> Option<LogIndex> {
        self.rest
    }

    /// Whether the last hole may go on.
    #[must_use]
    pub fn is_in_hole(&self) -> bool {
        self.is_in_hole
    }

    /// Returns the parts that are missing in what was read.
    #[must_use]
    pub fn holes(&self) -> &[Range] {
        &self.holes
    }

    /// Returns what is missing in what was read, with the moments of what is known on both sides.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub async fn missing(&self) -> Result<Vec<v1::Missing>, Status> {
        let mut missing = Vec::new();
        for hole in &self.holes {
            let is_dated = missing.len() < DATED;
            let (from_at, to_at) = if is_dated { self.sides(*hole).await? } else { (None, None) };
            missing.push(v1::Missing {
                first_index: hole.from,
                last_index: hole.through,
                from_at,
                to_at,
                why: "neither this replica nor one that answers has it now".to_owned(),
            });
        }
        Ok(missing)
    }

    /// Returns how far back the answer goes, for what was asked for `since` then, or ever. Only of a walk backward.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub async fn reach(&self, since: Option<u64>, now: u64) -> Result<v1::Reach, Status> {
        let coverage = self.shared.history.coverage();
        let asked = since.unwrap_or(0);
        let kept = coverage.first_ms.filter(|first| coverage.floor > 0 && *first > asked);
        let complete_from_at = match self.rest {
            // Others of the same moment may come next.
            Some(_) => self.last_at.map_or(now, |at| at.saturating_add(1)).max(asked),
            None => kept.unwrap_or(asked),
        };
        let kept_from_at = kept.filter(|_| self.rest.is_none());
        Ok(v1::Reach { complete_from_at, kept_from_at, missing: self.missing().await? })
    }

    /// Notes a hole; one over several pages is one.
    fn add(&mut self, hole: Range) {
        let touches = |last: &Range| {
            hole.from <= last.through.saturating_add(1) && last.from <= hole.through.saturating_add(1)
        };
        match self.holes.last_mut().filter(|last| touches(last)) {
            Some(last) => {
                last.from = last.from.min(hole.from);
                last.through = last.through.max(hole.through);
            }
            None => self.holes.push(hole),
        }
    }

    /// Returns the moments of the records before and behind a hole, whatever they tell.
    async fn sides(&self, hole: Range) -> Result<(Option<u64>, Option<u64>), Status> {
        let all =
            Query { most: 1, ..Query::all(Wants { audit: true, events: true, jobs: true, bills: true }) };
        let before = hole.from.checked_sub(1).map(|through| Query {
            from: LogIndex::new(through.saturating_sub(SPAN)),
            through: LogIndex::new(through),
            direction: Direction::Backward,
            ..all
        });
        let behind = hole.through.checked_add(1).map(|from| Query {
            from: LogIndex::new(from),
            through: LogIndex::new(from.saturating_add(SPAN)).min(self.seen),
            ..all
        });
        let mut sides = [None, None];
        for (side, query) in sides.iter_mut().zip([before, behind]) {
            let Some(query) = query else { continue };
            let _turn = super::turn(self.shared).await?;
            let page = history::read(self.shared, self.seen, query).await?;
            *side = page.records.first().map(|record| record.time_ms);
        }
        Ok((sides[0], sides[1]))
    }
}
