//! Looking at a data directory without taking part, and without changing it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use crate::disk::{DiskUse, FreeDisk};
use crate::log::OpenError;
use crate::stores::Stores;
use crate::{Identity, removal};

/// So much is left free beside a copy that is checked.
const SPARE: u64 = 64 << 20;
/// The copy is not written with any haste that would matter.
const RATE: u64 = 1 << 30;

/// What a directory says of itself.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The process that holds it, as it wrote its number there.
    pub holder: Option<String>,
    /// Which cluster and replica it belongs to.
    pub identity: Option<Identity>,
    /// The entry that removed the replica.
    pub removed_by: Option<u64>,
    /// What is damaged.
    pub damage: Option<String>,
    /// Why log and snapshots were not checked.
    pub unchecked: Option<String>,
    /// The last index in the log.
    pub last_log: Option<u64>,
    /// The last index in the newest snapshot.
    pub snapshot: Option<u64>,
    /// The term of the last vote.
    pub term: u64,
    /// What log and snapshots take.
    pub usage: DiskUse,
    /// What is free.
    pub free: Option<FreeDisk>,
}

/// Returns the process that holds a directory; `None` if nobody does, or there is no such directory.
///
/// # Errors
///
/// If it cannot be asked.
pub fn holder(dir: &Path) -> io::Result<Option<String>> {
    let path = dir.join("lock");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    match file.try_lock() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(fs::read_to_string(path)?.trim().to_owned())),
        Err(TryLockError::Error(cause)) => Err(cause),
    }
}

/// Returns which cluster and replica a directory belongs to; `None` if to none, or if that cannot be read.
pub fn identity(dir: &Path) -> Option<Identity> {
    Identity::load(dir).ok().flatten()
}

/// Looks at a directory as opening it would. Log and snapshots are checked on a copy in `scratch`, since opening them
/// writes; that takes as much room there as they have.
///
/// # Errors
///
/// If the directory cannot be read at all.
pub fn inspect(dir: &Path, scratch: &Path) -> io::Result<Inspection> {
    fs::read_dir(dir)?;
    let mut seen = Inspection { holder: holder(dir)?, usage: DiskUse::of(dir), ..Inspection::default() };
    seen.free = FreeDisk::of(dir).ok();
    match Identity::load(dir) {
        Ok(identity) => seen.identity = identity,
        Err(cause) => seen.damage = Some(cause.to_string()),
    }
    match removal::load(dir) {
        Ok(by) => seen.removed_by = by,
        Err(cause) => seen.damage = seen.damage.or_else(|| Some(cause.to_string())),
    }
    let has_log = dir.join("log").exists();
    if seen.identity.is_none() && seen.damage.is_none() && !has_log {
        return Ok(seen);
    }
    if seen.identity.is_some() && !dir.join("mark").exists() {
        seen.damage = seen.damage.or_else(|| Some("the high-water mark is missing".to_owned()));
    }
    let needed = seen.usage.log_bytes.saturating_add(seen.usage.snapshot_bytes).saturating_add(SPARE);
    let room = FreeDisk::of(scratch)?.free_bytes;
    if let Some(holder) = &seen.holder {
        seen.unchecked = Some(format!("process {holder} writes there; it checked them when it began"));
    } else if room < needed {
        let mib = |bytes: u64| bytes >> 20;
        seen.unchecked =
            Some(format!("a copy needs {} MiB, {} has {}", mib(needed), scratch.display(), mib(room)));
    } else if seen.damage.is_none() {
        check(dir, scratch, &mut seen)?;
    }
    Ok(seen)
}

/// Opens a copy, and notes what is found.
fn check(dir: &Path, scratch: &Path, seen: &mut Inspection) -> io::Result<()> {
    let copied = scratch.join("copy");
    for part in ["log", "snap", "mark"] {
        copy(&dir.join(part), &copied.join(part))?;
    }
    match Stores::open(&copied, RATE) {
        Ok(stores) => {
            let log = stores.log.state();
            seen.last_log = log.last.map(|last| last.index);
            seen.term = stores.log.vote().map_or(0, |vote| vote.term);
            seen.snapshot =
                stores.snapshots.newest().and_then(|newest| Some(newest.description().last?.index));
            if seen.identity.is_none() && (log.last.is_some() || seen.term > 0) {
                seen.damage = Some("there is a log but the identity file is missing".to_owned());
            }
            stores.gauge.close();
        }
        Err(OpenError::Damaged(what)) => seen.damage = Some(what),
        Err(OpenError::Io { doing, cause }) => seen.unchecked = Some(format!("failed to {doing}: {cause}")),
    }
    Ok(())
}

/// Copies a file, or a directory with everything in it; nothing if there is none.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::metadata(from) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(cause),
        Ok(seen) if seen.is_dir() => {
            fs::create_dir_all(to)?;
            fs::read_dir(from)?.try_for_each(|entry| {
                let entry = entry?;
                copy(&entry.path(), &to.join(entry.file_name()))
            })
        }
        Ok(_) => {
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::copy(from, to).map(|_| ())
        }
    }
}
