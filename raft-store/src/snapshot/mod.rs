//! Snapshots: the newest two, in chunks, in a database of their own.
//!
//! A snapshot is written chunk by chunk and synced; only then is its description written and synced. What has
//! no description is not there, and is removed at the next opening. One exception: the snapshot that is being
//! received from another replica is noted when its first chunk comes, and is gone on with after an interruption.
//!
//! Chunks are removed on a thread of their own: the last to let go of a snapshot may be a worker that sends
//! heartbeats.

mod reader;
mod writer;

#[cfg(test)]
mod power_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;

use crate::engine::{self, Change, Engine, SledEngine};
use crate::envelope::{self, Kind, Label};
use crate::record::{self, Description};
use crate::room::{Gauge, Room};

pub(crate) use self::reader::SnapshotReader;
pub(crate) use self::writer::{Shape, SnapshotWriter, Staged};

/// sled's page cache for snapshots: they are written and read in order.
const CACHE: u64 = 8 << 20;
/// Bytes of content in a chunk.
pub(crate) const CHUNK_BYTES: usize = engine::PIECE_BYTES;
/// Snapshots kept: the newest, and the one before in case the newest turns out damaged.
const KEPT: usize = 2;
const DELETES: usize = 64;

/// A snapshot's number in its database.
pub(crate) type Number = u64;

/// The handle to a replica's snapshots.
#[derive(Clone)]
pub(crate) struct SnapshotStore {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Arc<dyn Engine>,
    gauge: Arc<Gauge>,
    rate: u64,
    next: AtomicU64,
    named: Mutex<BTreeMap<Number, Description>>,
    /// Snapshots being read; their chunks stay until the reading ends.
    reading: Mutex<BTreeMap<Number, usize>>,
    /// What is being received from another replica, whole or not yet.
    partial: Mutex<Option<(Number, Description)>>,
    /// Whether somebody writes to it.
    is_receiving: AtomicBool,
    /// Where numbers go whose chunks may be of no more use.
    released: Sender<Number>,
}

/// A snapshot that is there to be read. It stays readable while the value lives.
pub(crate) struct Handle {
    store: SnapshotStore,
    number: Number,
    description: Description,
}

/// Why the snapshots could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The database is not what it must be.
    Damaged(String),
    /// The file system refused.
    Io(io::Error),
}

impl SnapshotStore {
    /// Opens the snapshots in `dir/snap`; `rate` is in bytes a second.
    pub(crate) fn open(dir: &Path, rate: u64, gauge: Arc<Gauge>) -> Result<Self, OpenError> {
        let engine = SledEngine::open(&dir.join("snap"), CACHE).map_err(|error| match error {
            engine::OpenError::Damaged(what) => {
                OpenError::Damaged(format!("the snapshots' database: {what}"))
            }
            engine::OpenError::Io(cause) => OpenError::Io(cause),
        })?;
        Self::on(Arc::new(engine), rate, gauge)
    }

    /// Whether another snapshot of the present size fits on the disk, with as much room left for the log.
    pub(crate) fn has_room(&self) -> bool {
        let newest = self.newest().map_or(0, |newest| newest.description.bytes);
        let fits = |room| room > newest.saturating_mul(3);
        // A disk that cannot be asked is not one that is known to be full.
        self.shared.gauge.room() == Room::Ample && self.shared.engine.room().map_or(true, fits)
    }

    /// Opens the snapshots on an engine. Damaged snapshots are dropped, with a warning: whether that matters
    /// depends on what the log still holds.
    pub(crate) fn on(engine: Arc<dyn Engine>, rate: u64, gauge: Arc<Gauge>) -> Result<Self, OpenError> {
        let mut named = BTreeMap::new();
        let mut numbers = Vec::new();
        for (key, value) in engine.scan(b"d", b"e", usize::MAX).map_err(OpenError::Io)? {
            let number =
                keys::number(&key).ok_or_else(|| OpenError::Damaged("a malformed key".to_owned()))?;
            numbers.push(number);
            match open_description(&value) {
                Ok(description) => drop(named.insert(number, description)),
                Err(error) => tracing::error!("the description of snapshot {number} is damaged: {error}"),
            }
        }
        let partial = read_partial(engine.as_ref()).map_err(OpenError::Io)?;
        numbers.extend(partial.iter().map(|(number, _)| *number));
        let (released, numbers_released) = channel();
        let shared = Shared {
            engine,
            gauge,
            rate: rate.max(1 << 20),
            next: AtomicU64::new(numbers.iter().max().map_or(1, |number| number + 1)),
            named: Mutex::new(named),
            reading: Mutex::default(),
            partial: Mutex::new(partial),
            is_receiving: AtomicBool::new(false),
            released,
        };
        let store = Self { shared: Arc::new(shared) };
        let weak = Arc::downgrade(&store.shared);
        thread::Builder::new()
            .name("raft-sweep".into())
            .spawn(move || sweep_released(&weak, &numbers_released))
            .map_err(OpenError::Io)?;
        store.drop_damaged().map_err(OpenError::Io)?;
        store.drop_old().map_err(OpenError::Io)?;
        Ok(store)
    }

    /// Returns the newest snapshot.
    pub(crate) fn newest(&self) -> Option<Handle> {
        let named = self.named();
        let (number, description) = named.iter().max_by_key(|(number, found)| (found.last, **number))?;
        Some(self.handle(*number, description.clone()))
    }

    /// Starts to write a snapshot.
    pub(crate) fn create(&self) -> SnapshotWriter {
        SnapshotWriter::new(self.clone(), self.shared.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts to receive a snapshot from another replica, or goes on where it was interrupted. One at a time.
    pub(crate) fn receive(&self, description: &Description) -> io::Result<SnapshotWriter> {
        let turn = Turn::take(self)?;
        let known = lock(&self.shared.partial).clone();
        match known {
            Some((number, known)) if known == *description => SnapshotWriter::resume(turn, number),
            known => {
                let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
                let key = keys::partial(number);
                let mut changes = vec![Change::Put { key, value: seal_description(description) }];
                changes.extend(known.iter().map(|(old, _)| Change::Delete { key: keys::partial(*old) }));
                // Chunks are written after it, and no crash keeps them without it.
                self.shared.engine.write(changes)?;
                *lock(&self.shared.partial) = Some((number, description.clone()));
                if let Some((old, _)) = known {
                    self.let_go(old);
                }
                SnapshotWriter::resume(turn, number)
            }
        }
    }

    /// Forgets what was being received: it is not what was promised.
    pub(crate) fn abandon(&self) -> io::Result<()> {
        let Some((number, _)) = lock(&self.shared.partial).take() else { return Ok(()) };
        self.shared.engine.write(vec![Change::Delete { key: keys::partial(number) }])?;
        self.let_go(number);
        Ok(())
    }

    /// Makes a staged snapshot readable. It is not there yet: a crash forgets it.
    pub(crate) fn hold(&self, staged: &Staged, description: Description) -> Handle {
        self.handle(staged.number(), description)
    }

    /// Makes a snapshot one that is there, if it is not yet, and returns it: durable on return. One that lies
    /// with another replica is copied. Older ones beyond the second go.
    pub(crate) fn name(&self, handle: Handle) -> io::Result<Handle> {
        let handle =
            if Arc::ptr_eq(&self.shared, &handle.store.shared) { handle } else { self.copy(&handle)? };
        if self.named().contains_key(&handle.number) {
            return Ok(handle);
        }
        let key = keys::description(handle.number);
        let value = seal_description(&handle.description);
        self.shared.engine.sync()?;
        let mut changes = vec![Change::Put { key, value }];
        if lock(&self.shared.partial).as_ref().is_some_and(|(number, _)| *number == handle.number) {
            changes.push(Change::Delete { key: keys::partial(handle.number) });
        }
        self.shared.engine.write(changes)?;
        self.shared.engine.sync()?;
        self.named().insert(handle.number, handle.description.clone());
        lock(&self.shared.partial).take_if(|(number, _)| *number == handle.number);
        self.drop_old()?;
        Ok(handle)
    }

    fn copy(&self, handle: &Handle) -> io::Result<Handle> {
        let mut writer = self.create();
        for at in 0..handle.description.chunks {
            writer.put_sealed(&handle.chunk(at)?)?;
        }
        let (_, staged) = writer.finish()?;
        Ok(self.hold(&staged, handle.description.clone()))
    }

    fn handle(&self, number: Number, description: Description) -> Handle {
        *lock(&self.shared.reading).entry(number).or_default() += 1;
        Handle { store: self.clone(), number, description }
    }

    /// Reads every snapshot once and forgets those that cannot be read.
    fn drop_damaged(&self) -> io::Result<()> {
        let all: Vec<_> = self.named().iter().map(|(number, found)| (*number, found.clone())).collect();
        for (number, description) in all {
            let handle = self.handle(number, description);
            if let Err(error) = io::copy(&mut handle.read(), &mut io::sink()) {
                tracing::error!("snapshot {number} is damaged and left out: {error}");
                drop(handle);
                self.named().remove(&number);
                self.shared.engine.write(vec![Change::Delete { key: keys::description(number) }])?;
            }
        }
        Ok(())
    }

    fn drop_old(&self) -> io::Result<()> {
        // No lock is held while the engine writes: workers of the consensus look for the newest snapshot.
        let surplus = {
            let mut named = self.named();
            let mut order: Vec<_> = named.iter().map(|(number, found)| (found.last, *number)).collect();
            order.sort_unstable();
            order.truncate(order.len().saturating_sub(KEPT));
            order.retain(|(_, number)| named.remove(number).is_some());
            order
        };
        for (_, number) in surplus {
            self.shared.engine.write(vec![Change::Delete { key: keys::description(number) }])?;
        }
        self.sweep()
    }

    /// Removes chunks of snapshots that are neither named nor being read or written.
    fn sweep(&self) -> io::Result<()> {
        let mut from = keys::chunk(0, 0);
        loop {
            let Some((key, _)) = self.shared.engine.scan(&from, b"d", 1)?.pop() else { return Ok(()) };
            let Some(number) = keys::number(&key) else { return Ok(()) };
            if self.is_in_use(number) {
                from = keys::chunk(number + 1, 0);
            } else {
                self.remove_chunks(number)?;
            }
        }
    }

    fn is_in_use(&self, number: Number) -> bool {
        self.named().contains_key(&number)
            || lock(&self.shared.reading).contains_key(&number)
            || lock(&self.shared.partial).as_ref().is_some_and(|(partial, _)| *partial == number)
    }

    fn remove_chunks(&self, number: Number) -> io::Result<()> {
        loop {
            let (from, to) = (keys::chunk(number, 0), keys::chunk(number + 1, 0));
            let page = self.shared.engine.scan(&from, &to, DELETES)?;
            if page.is_empty() {
                return Ok(());
            }
            let changes = page.into_iter().map(|(key, _)| Change::Delete { key }).collect();
            self.shared.engine.write(changes)?;
        }
    }

    fn named(&self) -> MutexGuard<'_, BTreeMap<Number, Description>> {
        lock(&self.shared.named)
    }

    fn release(&self, number: Number) {
        let mut reading = lock(&self.shared.reading);
        if let Some(readers) = reading.get_mut(&number) {
            *readers -= 1;
            if *readers == 0 {
                reading.remove(&number);
            }
        }
        drop(reading);
        self.let_go(number);
    }

    fn let_go(&self, number: Number) {
        // The sweeper ends with the store: then the next opening sweeps.
        let _ = self.shared.released.send(number);
    }
}

/// The one who may write what is being received.
struct Turn {
    store: SnapshotStore,
}

impl Turn {
    fn take(store: &SnapshotStore) -> io::Result<Self> {
        if store.shared.is_receiving.swap(true, Ordering::Acquire) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another snapshot is being received"));
        }
        Ok(Self { store: store.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.store.shared.is_receiving.store(false, Ordering::Release);
    }
}

fn sweep_released(store: &Weak<Shared>, released: &Receiver<Number>) {
    while let Ok(number) = released.recv() {
        let Some(shared) = store.upgrade() else { return };
        let store = SnapshotStore { shared };
        if !store.is_in_use(number)
            && let Err(cause) = store.remove_chunks(number)
        {
            tracing::warn!("failed to remove a snapshot that is no longer needed: {cause}");
        }
    }
}

/// Returns what was being received when the store was last open. A damaged note is as none.
fn read_partial(engine: &dyn Engine) -> io::Result<Option<(Number, Description)>> {
    let mut notes = engine.scan(b"p", b"q", usize::MAX)?;
    let newest = notes.pop();
    for (key, _) in notes {
        engine.write(vec![Change::Delete { key }])?;
    }
    Ok(newest.and_then(|(key, value)| keys::number(&key).zip(open_description(&value).ok())))
}

impl Handle {
    /// Returns what the snapshot holds.
    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    /// Reads the content. A damaged chunk, a missing one or a wrong digest is an error.
    pub(crate) fn read(&self) -> SnapshotReader<'_> {
        SnapshotReader::new(self)
    }

    /// Returns the envelope of one chunk as stored.
    pub(crate) fn chunk(&self, at: u32) -> io::Result<Vec<u8>> {
        let found = self.store.shared.engine.get(&keys::chunk(self.number, at))?;
        found.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("chunk {at} is missing")))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.store.release(self.number);
    }
}

/// Wraps a description, as stored and sent.
pub(crate) fn seal_description(description: &Description) -> Vec<u8> {
    let last = description.last.map_or(0, |last| last.index);
    envelope::seal(Label { kind: Kind::Snapshot, first: last, last }, &record::encode(description))
}

/// Unwraps a description.
pub(crate) fn open_description(bytes: &[u8]) -> Result<Description, envelope::Error> {
    let (_, payload) = envelope::open(Kind::Snapshot, bytes)?;
    record::decode(payload)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `c` number part: a chunk; `d` number: a description; `p` number: the description of what is being received.
mod keys {
    use super::Number;

    pub(super) fn chunk(number: Number, at: u32) -> Vec<u8> {
        [b"c".as_slice(), &number.to_be_bytes(), &at.to_be_bytes()].concat()
    }

    pub(super) fn description(number: Number) -> Vec<u8> {
        [b"d".as_slice(), &number.to_be_bytes()].concat()
    }

    pub(super) fn partial(number: Number) -> Vec<u8> {
        [b"p".as_slice(), &number.to_be_bytes()].concat()
    }

    pub(super) fn number(key: &[u8]) -> Option<Number> {
        let (number, _) = key.get(1..)?.split_first_chunk()?;
        Some(u64::from_be_bytes(*number))
    }
}
