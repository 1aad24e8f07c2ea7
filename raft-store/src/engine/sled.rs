//! sled 0.34.7 as an engine. Its `flush` does not reach the platter on Linux (`sync_file_range`, which commits
//! neither file size nor device cache), so its data file is opened a second time and `fdatasync` called on it.

use std::fs::File;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
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
        self.data.sync_data()
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
        return Err(io::Error::other("a value above the engine's limit would bypass the sync"));
    }
    Ok(())
}

fn from_sled(cause: ::sled::Error) -> io::Error {
    match cause {
        ::sled::Error::Io(cause) => cause,
        cause => io::Error::other(cause),
    }
}
