//! sled 0.34.7 as an engine. What it takes for a sync does not reach the platter on Linux (`sync_file_range`, which
//! commits neither file size nor device cache). To sync its file after its `flush` is not enough: sled moves live data
//! to new places in its file and then writes over the old ones, and a power cut between two such syncs of ours may keep
//! the overwriting and lose what was moved, so that data is gone which had been durable for long. So each of its own
//! syncs has to be one, and [`sync_file_range`] stands in for the C library's.
//!
//! What does not fit into a quarter of one of its segments sled writes to a file beside, which nobody syncs. That is not
//! about values alone: it writes a leaf of its tree anew in one piece, and a leaf has up to 16 values before it is split
//! and 10 changes on top. So values are short and segments long enough for the largest leaf ([`SEGMENT_BYTES`]), and
//! should there be a file beside all the same, it is refused to call anything durable.

use std::ffi::{c_int, c_uint};
use std::fs::File;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Change, Engine, Pair, VALUE_MAX};
use crate::disk::{FreeDisk, make_private};

/// Why a database could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// sled found its files damaged, or fell over them.
    Damaged(String),
    /// The file system refused.
    Io(io::Error),
}

/// A segment of sled's file: four leaves fit, each of as many of the longest values as one may have, and then some.
const SEGMENT_BYTES: usize = 2 << 20;
/// More than a leaf has: 17, one that was merged into it, and the changes since.
const VALUES_IN_A_LEAF: usize = 32;
const _: () = assert!(VALUES_IN_A_LEAF * (VALUE_MAX + 64) < SEGMENT_BYTES / 4 - 1024);

/// Set once sled has called [`sync_file_range`].
static STANDS_IN: AtomicBool = AtomicBool::new(false);

/// Makes the stand-in do nothing: sled as it comes, for tests that show what that loses.
#[cfg(test)]
pub(crate) static LETS_PASS: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn fdatasync(file: c_int) -> c_int;
}

/// Stands in for the C library's call of this name, which nothing but sled uses here: makes all of the file durable, its
/// size too. Sets `errno` when it fails, as sled expects.
// SAFETY: the name is the C library's, and so are the arguments and what is returned; no more is promised to callers.
#[unsafe(no_mangle)]
extern "C" fn sync_file_range(file: c_int, _at: i64, _length: i64, _flags: c_uint) -> c_int {
    STANDS_IN.store(true, Ordering::Relaxed);
    #[cfg(test)]
    if LETS_PASS.load(Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: a plain system call on a number; one that is no open file is an error like any other.
    unsafe { fdatasync(file) }
}

/// One sled database with one tree.
pub(crate) struct SledEngine {
    db: ::sled::Db,
    dir: PathBuf,
    data: File,
}

impl SledEngine {
    /// Opens the database in `dir`, or makes it.
    pub(crate) fn open(dir: &Path, cache: u64) -> Result<Self, OpenError> {
        make_private(dir).map_err(OpenError::Io)?;
        let config = ::sled::Config::new()
            .path(dir)
            .cache_capacity(cache)
            .flush_every_ms(None)
            .segment_size(SEGMENT_BYTES)
            .print_profile_on_drop(false);
        let db = open_patiently(&config)?;
        let data = File::open(dir.join("db")).map_err(OpenError::Io)?;
        data.sync_all().map_err(OpenError::Io)?;
        if let Ok(conf) = File::open(dir.join("conf")) {
            conf.sync_all().map_err(OpenError::Io)?;
        }
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(OpenError::Io)?;
        Ok(Self { db, dir: dir.to_owned(), data })
    }
}

#[cfg(test)]
impl SledEngine {
    /// What sled itself takes for a sync, to show that it is none.
    pub(crate) fn flush_alone(&self) -> io::Result<()> {
        self.db.flush().map(drop).map_err(from_sled)
    }
}

/// sled locks its file; a database of this process that is just being dropped may still hold it.
fn open_patiently(config: &::sled::Config) -> Result<::sled::Db, OpenError> {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        // sled is known to panic on some damaged files.
        match panic::catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(::sled::Error::Io(cause))) if is_locked(&cause) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(Err(::sled::Error::Io(cause))) if cause.kind() != io::ErrorKind::InvalidData => {
                return Err(OpenError::Io(cause));
            }
            Ok(Err(cause)) => return Err(OpenError::Damaged(cause.to_string())),
            Err(_) => return Err(OpenError::Damaged("the engine panicked while reading its files".into())),
        }
    }
}

/// sled wraps the lock's error in one of its own, keeping only the text.
fn is_locked(cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::WouldBlock || cause.to_string().contains("could not acquire lock")
}

impl Engine for SledEngine {
    fn write(&self, changes: Vec<Change>) -> io::Result<()> {
        let mut changes = changes;
        if changes.len() == 1 {
            // A batch of one costs sled more than a plain write.
            return match changes.remove(0) {
                Change::Put { key, value } => {
                    check_size(&value)?;
                    self.db.insert(key, value).map(drop)
                }
                Change::Delete { key } => self.db.remove(key).map(drop),
            }
            .map_err(from_sled);
        }
        let mut batch = ::sled::Batch::default();
        for change in changes {
            match change {
                Change::Put { key, value } => {
                    check_size(&value)?;
                    batch.insert(key, value);
                }
                Change::Delete { key } => batch.remove(key),
            }
        }
        self.db.apply_batch(batch).map_err(from_sled)
    }

    fn sync(&self) -> io::Result<()> {
        self.db.flush().map_err(from_sled)?;
        // A directory that cannot be listed, or is gone with its test, says nothing either way.
        if std::fs::read_dir(self.dir.join("blobs")).is_ok_and(|mut files| files.next().is_some()) {
            return Err(io::Error::other("the engine has put data into a file that it does not sync"));
        }
        // A program that was linked in some other way still keeps what it acknowledges.
        if STANDS_IN.load(Ordering::Relaxed) { Ok(()) } else { self.data.sync_data() }
    }

    fn room(&self) -> io::Result<u64> {
        FreeDisk::of(&self.dir).map(|free| free.free_bytes)
    }

    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        Ok(self.db.get(key).map_err(from_sled)?.map(|value| value.to_vec()))
    }

    fn floor(&self, key: &[u8]) -> io::Result<Option<Pair>> {
        let found = self.db.range(..=key).next_back().transpose().map_err(from_sled)?;
        Ok(found.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> io::Result<Vec<Pair>> {
        self.db
            .range(from..to)
            .take(limit)
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).map_err(from_sled))
            .collect()
    }
}

fn check_size(value: &[u8]) -> io::Result<()> {
    if value.len() > VALUE_MAX {
        return Err(io::Error::other("a value above the engine's limit"));
    }
    Ok(())
}

fn from_sled(cause: ::sled::Error) -> io::Error {
    match cause {
        ::sled::Error::Io(cause) => cause,
        cause => io::Error::other(cause),
    }
}
