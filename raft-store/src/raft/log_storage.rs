//! The log, as the consensus library asks for it.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};

use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};

use super::types::{self, C};
use crate::log::LogStore;
use crate::record::Entry;

/// Entries are handed to replication in portions of about so many bytes.
const PORTION_BYTES: usize = 4 << 20;

impl LogStore {
    async fn entries(&self, range: Range<u64>, limit_bytes: usize) -> io::Result<Vec<EntryOf<C>>> {
        let entries = if self.is_in_memory(&range) {
            self.read(range, limit_bytes)?
        } else {
            // Disk work must not hold up the worker that sends heartbeats.
            let log = self.clone();
            let reading = tokio::task::spawn_blocking(move || log.read(range, limit_bytes));
            reading.await.map_err(io::Error::other)??
        };
        entries.into_iter().map(|entry| types::entry(entry).map_err(io::Error::other)).collect()
    }
}

impl RaftLogReader<C> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<EntryOf<C>>> {
        self.entries(half_open(&range), usize::MAX).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<C>>> {
        Ok(self.vote().map(types::vote))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<EntryOf<C>>> {
        self.entries(start..end, PORTION_BYTES).await
    }
}

impl RaftLogStorage<C> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let state = self.state();
        Ok(LogState {
            last_purged_log_id: state.purged.map(types::log_id),
            last_log_id: state.last.map(types::log_id),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<C>) -> io::Result<()> {
        let saved = Self::save_vote(self, types::vote_record(vote))?;
        saved.await.map_err(|_| io::Error::other("the log's writer thread has ended"))
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<C>>) -> io::Result<()> {
        Self::save_committed(self, committed.map(types::position))
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<C>>> {
        Ok(self.committed().map(types::log_id))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().map(types::entry_record).collect();
        Self::append(self, entries, Box::new(move || callback.io_completed(Ok(()))))
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogIdOf<C>>) -> io::Result<()> {
        Self::truncate_after(self, last_log_id.map(types::position))
    }

    async fn purge(&mut self, log_id: LogIdOf<C>) -> io::Result<()> {
        Self::purge(self, types::position(log_id))
    }
}

fn half_open(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}
