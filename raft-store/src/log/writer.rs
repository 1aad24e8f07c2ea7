//! The one thread that writes the log: it takes all that waits, writes it, syncs once, and then tells everyone.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::keys::{self, RecordKey};
use super::mark::{Mark, MarkFile};
use super::recover::{Found, Span};
use super::tail::{Tail, next};
use super::{Durable, lock};
use crate::engine::{Change, Engine, PIECE_BYTES};
use crate::envelope::{Kind, Label, seal};
use crate::record::{self, Blob, Entry, Fragment, Position, Vote};
use crate::room::{self, Gauge};

/// What the thread is asked to do.
pub(super) enum Op {
    Append { entries: Vec<Entry>, epoch: u64, durable: Durable },
    Vote { vote: Vote, done: oneshot::Sender<()> },
    Committed,
    Truncate { keep: u64 },
    Purge { upto: Position },
    Flush { done: oneshot::Sender<()> },
}

/// At most so much is taken into one group commit.
const GROUP_BYTES: usize = 16 << 20;
const GROUP_OPS: usize = 4096;
/// A full disk is looked at again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Deletions in one batch.
const DELETES: usize = 256;
/// The mark on disk is at most so old.
const MARK_AGE: Duration = Duration::from_millis(50);

impl Op {
    fn weight(&self) -> usize {
        match self {
            Self::Append { entries, .. } => entries.iter().map(Entry::weight).sum(),
            Self::Vote { .. }
            | Self::Committed
            | Self::Truncate { .. }
            | Self::Purge { .. }
            | Self::Flush { .. } => 0,
        }
    }
}

/// What became of a group of operations.
enum Committed {
    Durable,
    /// The log was closed while the disk had no room.
    GivenUp,
}

pub(super) struct Writer {
    engine: Arc<dyn Engine>,
    tail: Arc<Mutex<Tail>>,
    /// The records in the engine by their first index.
    spans: BTreeMap<u64, Span>,
    /// The purged position in the engine; the tail's may be ahead.
    purged: Option<Position>,
    mark: MarkFile,
    mark_due: Option<Instant>,
    noted: Mark,
    /// Entries taken from the queue and not yet written.
    run: Vec<Entry>,
    gauge: Arc<Gauge>,
}

/// Who is told once the group is durable.
#[derive(Default)]
struct Waiting {
    appends: Vec<Durable>,
    others: Vec<oneshot::Sender<()>>,
    written: Vec<(u64, u64)>,
    must_sync: bool,
}

impl Writer {
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        tail: Arc<Mutex<Tail>>,
        found: Found,
        gauge: Arc<Gauge>,
    ) -> Self {
        let Found { spans, purged, mark, noted } = found;
        Self { engine, tail, spans, purged, mark, mark_due: None, noted, run: Vec::new(), gauge }
    }

    /// Runs until the last handle to the log is gone.
    pub(super) fn run(mut self, ops: &Receiver<Op>) {
        loop {
            let first = match self.mark_due {
                None => ops.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => ops.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            let outcome = match first {
                Ok(op) => self.commit(op, ops),
                Err(RecvTimeoutError::Timeout) => self.sync_mark().map(|()| Committed::Durable),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            match outcome {
                Ok(Committed::Durable) => {}
                // Nobody was told that it is durable.
                Ok(Committed::GivenUp) => return,
                Err(cause) => crate::fatal::stop("write the replicated log", &cause),
            }
        }
        if let Err(cause) = self.engine.sync().and_then(|()| self.sync_mark()) {
            crate::fatal::stop("write the end of the replicated log", &cause);
        }
    }

    fn commit(&mut self, first: Op, ops: &Receiver<Op>) -> io::Result<Committed> {
        let mut waiting = Waiting::default();
        let mut bytes = first.weight();
        let mut group = vec![first];
        while bytes < GROUP_BYTES && group.len() < GROUP_OPS {
            let Ok(op) = ops.try_recv() else { break };
            bytes += op.weight();
            group.push(op);
        }
        if !self.has_room(bytes) {
            return Ok(Committed::GivenUp);
        }
        for op in group {
            self.take(op, &mut waiting)?;
        }
        self.write_run()?;
        if waiting.must_sync {
            self.engine.sync()?;
        }
        self.finish(waiting)?;
        Ok(Committed::Durable)
    }

    /// Waits until the disk has room for so many bytes; `false` if the log is closed before.
    fn has_room(&self, bytes: usize) -> bool {
        // Records carry headers, and the engine writes more than it is given.
        let needed = room::LEAST.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(2));
        // A disk that cannot be asked is not known to be full; writing tells.
        while self.engine.room().is_ok_and(|room| room < needed) {
            if self.gauge.is_closed() {
                return false;
            }
            self.gauge.await_room(true);
            thread::sleep(LOOK_AGAIN);
        }
        self.gauge.await_room(false);
        true
    }

    fn take(&mut self, op: Op, waiting: &mut Waiting) -> io::Result<()> {
        match op {
            Op::Append { entries, epoch, durable } => {
                if let Some(last) = entries.last() {
                    waiting.written.push((last.at.index + 1, epoch));
                }
                self.run.extend(entries);
                waiting.appends.push(durable);
                waiting.must_sync = true;
            }
            Op::Vote { vote, done } => {
                self.write_run()?;
                let value = seal(Label { kind: Kind::Vote, first: 0, last: 0 }, &record::encode(&vote));
                self.engine.write(vec![Change::Put { key: keys::VOTE.to_vec(), value }])?;
                self.noted.vote = Some(vote);
                waiting.others.push(done);
                waiting.must_sync = true;
            }
            Op::Committed => {}
            Op::Truncate { keep } => {
                self.write_run()?;
                self.truncate(keep)?;
            }
            Op::Purge { upto } => {
                self.write_run()?;
                self.purge(upto)?;
                waiting.must_sync = true;
            }
            Op::Flush { done } => {
                waiting.others.push(done);
                waiting.must_sync = true;
            }
        }
        Ok(())
    }

    /// Notes the new state, then tells everyone, in order.
    fn finish(&mut self, waiting: Waiting) -> io::Result<()> {
        let committed = {
            let mut tail = lock(&self.tail);
            for (below, epoch) in &waiting.written {
                tail.written(*below, *epoch);
            }
            if let Some(vote) = self.noted.vote.filter(|_| waiting.must_sync) {
                tail.vote_is_durable(vote);
            }
            tail.committed()
        };
        self.noted.committed = committed;
        if waiting.must_sync {
            self.mark.write(&self.noted)?;
            self.mark_due.get_or_insert_with(|| Instant::now() + MARK_AGE);
            if self.mark_due.is_some_and(|due| due <= Instant::now()) {
                self.sync_mark()?;
            }
        } else {
            // Only a hint: it is written with the rest of the mark, and synced when that is.
            self.mark.write(&self.noted)?;
            self.mark_due.get_or_insert_with(|| Instant::now() + MARK_AGE);
        }
        // Not before: while the mark is written to a slow disk the appends still wait, and whoever asks is told so.
        lock(&self.tail).durable(waiting.appends.len());
        for durable in waiting.appends {
            durable();
        }
        for done in waiting.others {
            // Who no longer waits need not be told.
            let _ = done.send(());
        }
        Ok(())
    }

    fn sync_mark(&mut self) -> io::Result<()> {
        self.mark_due = None;
        self.mark.sync()
    }

    /// Writes the entries taken so far, as few records as their size allows.
    fn write_run(&mut self) -> io::Result<()> {
        let run = std::mem::take(&mut self.run);
        let mut rest = run.as_slice();
        while let Some(first) = rest.first() {
            if first.weight() > PIECE_BYTES {
                self.write_parts(first)?;
                rest = &rest[1..];
                continue;
            }
            let mut bytes = 0;
            let count = rest
                .iter()
                .take_while(|entry| {
                    bytes += entry.weight();
                    bytes <= PIECE_BYTES
                })
                .count();
            let (batch, others) = rest.split_at(count);
            self.write_batch(batch)?;
            rest = others;
        }
        if let Some(last) = run.last() {
            self.noted.last = Some(last.at);
        }
        Ok(())
    }

    fn write_batch(&mut self, batch: &[Entry]) -> io::Result<()> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let key = RecordKey { first: first.at.index, part: 0 }.encode();
        self.engine.write(vec![Change::Put { key, value: record::seal_batch(batch) }])?;
        self.spans.insert(first.at.index, Span { last: last.at.index, parts: 1 });
        Ok(())
    }

    /// Writes one large entry in parts; the entry is there once the last part is.
    fn write_parts(&mut self, entry: &Entry) -> io::Result<()> {
        let index = entry.at.index;
        let whole = record::encode(entry);
        let pieces = whole.chunks(PIECE_BYTES);
        let parts =
            u16::try_from(pieces.len()).map_err(|_| io::Error::other("an entry of more than 768 MiB"))?;
        for (part, piece) in (0..parts).zip(pieces) {
            let fragment = Fragment { parts, bytes: Blob(piece.to_vec().into()) };
            let label = Label { kind: Kind::Fragment, first: index, last: u64::from(part) };
            let value = seal(label, &record::encode(&fragment));
            let key = RecordKey { first: index, part }.encode();
            self.engine.write(vec![Change::Put { key, value }])?;
        }
        self.spans.insert(index, Span { last: index, parts });
        Ok(())
    }

    /// Removes everything from index `keep` on, from the end backwards so that no crash leaves a hole.
    fn truncate(&mut self, keep: u64) -> io::Result<()> {
        if self.noted.last.is_some_and(|last| last.index >= keep) {
            // The mark must not claim what is about to go, not even after a power cut, nor what was written a
            // moment ago and may not survive one.
            self.engine.sync()?;
            self.noted.last = self.position_below(keep)?;
            self.mark.write(&self.noted)?;
            self.sync_mark()?;
        }
        let gone = self.spans.split_off(&keep);
        let mut changes = Vec::new();
        for (first, span) in gone.iter().rev() {
            for part in (0..span.parts).rev() {
                changes.push(Change::Delete { key: RecordKey { first: *first, part }.encode() });
            }
            if changes.len() >= DELETES {
                self.engine.write(std::mem::take(&mut changes))?;
            }
        }
        let straddling = self.spans.last_key_value().filter(|(_, span)| span.last >= keep);
        if let Some((first, _)) = straddling {
            let first = *first;
            let key = RecordKey { first, part: 0 }.encode();
            let value = self.engine.get(&key)?.ok_or_else(|| io::Error::other("a record has vanished"))?;
            let mut batch = record::open_batch(&value).map_err(io::Error::other)?;
            batch.retain(|entry| entry.at.index < keep);
            changes.push(Change::Put { key, value: record::seal_batch(&batch) });
            self.spans.insert(first, Span { last: keep - 1, parts: 1 });
        }
        if !changes.is_empty() {
            self.engine.write(changes)?;
        }
        Ok(())
    }

    /// Returns the position just below `index`: of an entry, or the purged one.
    fn position_below(&self, index: u64) -> io::Result<Option<Position>> {
        if next(self.purged) >= index {
            return Ok(self.purged);
        }
        let read = super::recover::read(self.engine.as_ref(), index - 1..index, usize::MAX)?;
        Ok(read.first().map(|entry| entry.at))
    }

    /// Notes the purge, then removes the records that lie wholly below it.
    fn purge(&mut self, upto: Position) -> io::Result<()> {
        let value = seal(Label { kind: Kind::Purged, first: 0, last: upto.index }, &record::encode(&upto));
        self.engine.write(vec![Change::Put { key: keys::PURGED.to_vec(), value }])?;
        self.purged = self.purged.max(Some(upto));
        if next(self.noted.last) <= upto.index {
            self.noted.last = Some(upto);
        }
        let mut changes = Vec::new();
        while let Some(record) = self.spans.first_entry().filter(|record| record.get().last <= upto.index) {
            let (first, span) = record.remove_entry();
            for part in 0..span.parts {
                changes.push(Change::Delete { key: RecordKey { first, part }.encode() });
            }
            if changes.len() >= DELETES {
                self.engine.write(std::mem::take(&mut changes))?;
            }
        }
        if changes.is_empty() { Ok(()) } else { self.engine.write(changes) }
    }
}
