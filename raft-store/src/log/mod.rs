//! The log: entries, vote and purge mark of one replica.
//!
//! ```text
//! append ─► Tail (readable at once) ─► queue ─► writer thread ─► engine write ─► sync ─► mark ─► callbacks
//! save_vote, truncate, purge ────────────┘       one group commit for all that waits
//! ```
//!
//! Writes pass through one thread in order. A failed write or sync stops the process.

mod keys;
mod mark;
mod recover;
mod tail;
mod writer;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
pub(crate) mod power_tests;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::engine::{Engine, SledEngine};
use crate::record::{Entry, Membership, Position, Vote};
use crate::room::Gauge;

pub(crate) use self::mark::{Mark, MarkFile};
pub(crate) use self::recover::OpenError;
use self::tail::Tail;
use self::writer::{Op, Writer};

/// sled's page cache for the log.
const CACHE: u64 = 64 << 20;
/// Entries kept decoded in memory for replication and applying.
const TAIL_BYTES: usize = 32 << 20;

/// Called once an append is durable, in order.
pub(crate) type Durable = Box<dyn FnOnce() + Send>;

/// What a log holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The last entry that was removed from the front.
    pub(crate) purged: Option<Position>,
    /// The last entry; the purged one if nothing is left.
    pub(crate) last: Option<Position>,
}

/// The handle to a log. Clones read and write the same one.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<dyn Engine>,
    tail: Arc<Mutex<Tail>>,
    queue: Sender<Op>,
    writer: Mutex<Option<JoinHandle<()>>>,
    gauge: Arc<Gauge>,
}

impl LogStore {
    /// Opens the log in `dir/log` with its mark in `dir/mark`, checking all of it.
    pub(crate) fn open(dir: &Path, gauge: Arc<Gauge>) -> Result<Self, OpenError> {
        let engine = SledEngine::open(&dir.join("log"), CACHE)?;
        Self::on(Arc::new(engine), MarkFile::open(&dir.join("mark")), TAIL_BYTES, gauge)
    }

    /// Opens the log on an engine.
    pub(crate) fn on(
        engine: Arc<dyn Engine>,
        mark: io::Result<(MarkFile, Mark)>,
        tail_bytes: usize,
        gauge: Arc<Gauge>,
    ) -> Result<Self, OpenError> {
        let recovered = recover::recover(engine.as_ref(), mark, tail_bytes)?;
        let tail = Arc::new(Mutex::new(recovered.tail));
        let (queue, ops) = channel();
        let writer = Writer::new(Arc::clone(&engine), Arc::clone(&tail), recovered.found, Arc::clone(&gauge));
        let thread = thread::Builder::new()
            .name("raft-log".into())
            .spawn(move || writer.run(&ops))
            .map_err(|cause| OpenError::Io { doing: "start the log's writer thread", cause })?;
        Ok(Self { shared: Arc::new(Shared { engine, tail, queue, writer: Mutex::new(Some(thread)), gauge }) })
    }

    /// Returns what the log holds.
    pub(crate) fn state(&self) -> State {
        self.tail().state()
    }

    /// Returns the last members that the log held when it was opened, and their entry's index, if it held any.
    pub(crate) fn members_at_opening(&self) -> Option<(u64, Membership)> {
        self.tail().members()
    }

    /// Returns the vote, durable or about to be.
    pub(crate) fn vote(&self) -> Option<Vote> {
        self.tail().vote()
    }

    /// Returns vote and extent as of one moment: a later leader's vote is there before the log is shortened for it.
    pub(crate) fn vote_and_state(&self) -> (Option<Vote>, State) {
        let tail = self.tail();
        (tail.vote(), tail.state())
    }

    /// Returns the vote that is on disk, unless another is about to be.
    pub(crate) fn settled_vote(&self) -> Option<Vote> {
        let tail = self.tail();
        tail.durable_vote().filter(|vote| tail.vote() == Some(*vote))
    }

    /// Whether appended entries are not durable yet.
    pub(crate) fn has_waiting(&self) -> bool {
        self.tail().has_waiting()
    }

    /// Returns the saved commit hint, cut to what the log holds.
    pub(crate) fn committed(&self) -> Option<Position> {
        let tail = self.tail();
        let last = tail.state().last;
        tail.committed().min(last)
    }

    /// Appends entries that follow the last one. They can be read on return; `durable` is called once they are
    /// on disk.
    pub(crate) fn append(&self, entries: Vec<Entry>, durable: Durable) -> io::Result<()> {
        let mut tail = self.tail();
        let epoch = tail.append(&entries)?;
        self.send(Op::Append { entries, epoch, durable })
    }

    /// Saves the vote; the channel answers once it is durable.
    pub(crate) fn save_vote(&self, vote: Vote) -> io::Result<tokio::sync::oneshot::Receiver<()>> {
        let (done, saved) = tokio::sync::oneshot::channel();
        let mut tail = self.tail();
        tail.set_vote(vote);
        self.send(Op::Vote { vote, done })?;
        Ok(saved)
    }

    /// Notes how far the log is committed; not durable until something else is.
    pub(crate) fn save_committed(&self, committed: Option<Position>) -> io::Result<()> {
        let mut tail = self.tail();
        tail.set_committed(committed);
        self.send(Op::Committed)
    }

    /// Removes all entries after `keep`; all entries if `None`.
    pub(crate) fn truncate_after(&self, keep: Option<Position>) -> io::Result<()> {
        let mut tail = self.tail();
        let keep = tail.truncate_after(keep);
        self.send(Op::Truncate { keep })
    }

    /// Removes all entries up to `upto`, which may lie beyond the last.
    pub(crate) fn purge(&self, upto: Position) -> io::Result<()> {
        let mut tail = self.tail();
        tail.purge(upto);
        self.send(Op::Purge { upto })
    }

    /// Returns the entries with an index in `range` that the log holds, about `limit_bytes` of them at most but
    /// at least one.
    pub(crate) fn read(&self, range: Range<u64>, limit_bytes: usize) -> io::Result<Vec<Entry>> {
        let (older, mut cached) = self.tail().read(range, limit_bytes);
        if older.is_empty() {
            return Ok(cached);
        }
        let expected = older.end - older.start;
        let mut entries = recover::read(self.shared.engine.as_ref(), older, limit_bytes)?;
        if u64::try_from(entries.len()) == Ok(expected) {
            entries.append(&mut cached);
        }
        Ok(entries)
    }

    /// Whether all of `range` that the log holds can be read without the disk.
    pub(crate) fn is_in_memory(&self, range: &Range<u64>) -> bool {
        let (older, _) = self.tail().read(range.clone(), 0);
        older.is_empty()
    }

    /// Returns how many bytes of appended entries are not durable yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.tail().waiting_bytes()
    }

    /// Returns how long the oldest append has waited for the disk, in milliseconds.
    pub(crate) fn stalled_ms(&self) -> u64 {
        self.tail().stalled_ms()
    }

    /// Returns once everything written so far, the commit hint included, is durable.
    pub(crate) fn flush(&self) -> io::Result<tokio::sync::oneshot::Receiver<()>> {
        let (done, flushed) = tokio::sync::oneshot::channel();
        self.send(Op::Flush { done })?;
        Ok(flushed)
    }

    /// Waits until no other handle is left, then ends the writer; a straggler's handle ends it later.
    pub(crate) async fn close(self) {
        for _ in 0..400 {
            if Arc::strong_count(&self.shared) == 1 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        // Ending waits for the thread.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    fn send(&self, op: Op) -> io::Result<()> {
        self.shared.queue.send(op).map_err(|_| io::Error::other("the log's writer thread has ended"))
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        lock(&self.shared.tail)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last sender goes with this value's replacement; the thread then ends after its last commit.
        self.gauge.close();
        let (closed, _) = channel();
        self.queue = closed;
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            tracing::error!("the log's writer thread panicked");
        }
    }
}

/// A panic while the lock is held stops the process elsewhere; the data is whole either way.
fn lock(tail: &Mutex<Tail>) -> MutexGuard<'_, Tail> {
    tail.lock().unwrap_or_else(PoisonError::into_inner)
}
