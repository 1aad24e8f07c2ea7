//! Writing a snapshot's chunks, at a bounded rate.

use std::io::{self, Write};
use std::mem;
use std::thread;
use std::time::{Duration, Instant};

use super::{CHUNK_BYTES, Number, SnapshotStore, Turn, keys, lock};
use crate::engine::Change;
use crate::envelope::{self, Kind, Label};
use crate::room::{self, Room};

/// The disk is told to catch up after so many bytes, so that one sync at the end does not hold up the log.
const SYNC_EVERY: u64 = 1 << 20;

/// A full disk is looked at again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Takes a snapshot's content, whole or chunk by chunk.
pub(crate) struct SnapshotWriter {
    staged: Staged,
    /// Bytes that were there before.
    resumed: u64,
    /// Held while a snapshot is received.
    turn: Option<Turn>,
    buffer: Vec<u8>,
    chunks: u32,
    bytes: u64,
    digest: blake3::Hasher,
    began: Instant,
    unsynced: u64,
}

/// A snapshot whose chunks are written but which has no name yet. Dropped, its chunks go.
pub(crate) struct Staged {
    store: SnapshotStore,
    number: Number,
}

/// The shape of what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) chunks: u32,
    pub(crate) bytes: u64,
    pub(crate) digest: [u8; 32],
}

impl SnapshotWriter {
    pub(super) fn new(store: SnapshotStore, number: Number) -> Self {
        *lock(&store.shared.reading).entry(number).or_default() += 1;
        Self {
            staged: Staged { store, number },
            resumed: 0,
            turn: None,
            buffer: Vec::with_capacity(CHUNK_BYTES),
            chunks: 0,
            bytes: 0,
            digest: blake3::Hasher::new(),
            began: Instant::now(),
            unsynced: 0,
        }
    }

    /// Goes on with a snapshot, after the chunks that are there and good.
    pub(super) fn resume(turn: Turn, number: Number) -> io::Result<Self> {
        let mut writer = Self::new(turn.store.clone(), number);
        while let Some(sealed) = turn.store.shared.engine.get(&keys::chunk(number, writer.chunks))? {
            let Ok((label, content)) = envelope::open(Kind::Chunk, &sealed) else { break };
            if label.first != u64::from(writer.chunks) {
                break;
            }
            writer.digest.update(content);
            writer.bytes += u64::try_from(content.len()).unwrap_or(u64::MAX);
            writer.chunks += 1;
        }
        writer.resumed = writer.bytes;
        writer.turn = Some(turn);
        Ok(writer)
    }

    /// Returns how many chunks are there.
    pub(crate) fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Takes one chunk in the envelope that another replica stored it under.
    pub(crate) fn put_sealed(&mut self, sealed: &[u8]) -> io::Result<()> {
        let invalid = |error: &dyn ToString| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        let (label, content) = envelope::open(Kind::Chunk, sealed).map_err(|error| invalid(&error))?;
        if label.first != u64::from(self.chunks) {
            return Err(invalid(&format!("chunk {} came in place of {}", label.first, self.chunks)));
        }
        self.store_chunk(content, sealed.to_vec())?;
        Ok(())
    }

    /// Ends the content and returns its shape and the staged snapshot.
    pub(crate) fn finish(mut self) -> io::Result<(Shape, Staged)> {
        self.write_buffer()?;
        let digest = *self.digest.finalize().as_bytes();
        drop(self.turn);
        Ok((Shape { chunks: self.chunks, bytes: self.bytes, digest }, self.staged))
    }

    fn write_buffer(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let content = mem::take(&mut self.buffer);
        let at = u64::from(self.chunks);
        let sealed = envelope::seal(Label { kind: Kind::Chunk, first: at, last: at }, &content);
        self.store_chunk(&content, sealed)?;
        self.buffer = content;
        self.buffer.clear();
        Ok(())
    }

    fn store_chunk(&mut self, content: &[u8], sealed: Vec<u8>) -> io::Result<()> {
        self.wait_for_room(sealed.len())?;
        let engine = &self.staged.store.shared.engine;
        let key = keys::chunk(self.staged.number, self.chunks);
        engine.write(vec![Change::Put { key, value: sealed }])?;
        let length = u64::try_from(content.len()).unwrap_or(u64::MAX);
        self.digest.update(content);
        self.bytes += length;
        self.unsynced += length;
        self.chunks = self.chunks.checked_add(1).ok_or_else(|| io::Error::other("too many chunks"))?;
        if self.unsynced >= SYNC_EVERY {
            engine.sync()?;
            self.unsynced = 0;
            let due =
                Duration::from_millis((self.bytes - self.resumed) * 1000 / self.staged.store.shared.rate);
            thread::sleep(due.saturating_sub(self.began.elapsed()));
        }
        Ok(())
    }
}

impl SnapshotWriter {
    /// A snapshot leaves the log its room: it waits while there is too little. It never fails for want of room,
    /// since the consensus would take that for a broken disk.
    fn wait_for_room(&self, bytes: usize) -> io::Result<()> {
        let shared = &self.staged.store.shared;
        let needed = room::LEAST.saturating_mul(2) + u64::try_from(bytes).unwrap_or(u64::MAX) * 2;
        while shared.gauge.room() == Room::None || shared.engine.room().is_ok_and(|room| room < needed) {
            if shared.gauge.is_closed() {
                return Err(io::Error::other("the replica is stopping"));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }
}

impl Write for SnapshotWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == CHUNK_BYTES {
            self.write_buffer()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Staged {
    /// Returns the number under which the chunks lie.
    pub(super) fn number(&self) -> Number {
        self.number
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.store.release(self.number);
    }
}
