//! A replica's data directory, looked at from outside: for `bursar doctor --data` and `bursar server rebuild`.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

pub use raft_store::holder;

/// What a directory says of itself.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The process that holds it.
    pub holder: Option<String>,
    /// The control plane, and the replica's number in it.
    pub identity: Option<(String, u64)>,
    /// The entry that removed the replica.
    pub removed_by: Option<u64>,
    /// What is damaged.
    pub damage: Option<String>,
    /// Why log and snapshots were not checked.
    pub unchecked: Option<String>,
    /// Whether log and snapshots were checked.
    pub was_checked: bool,
    /// The last index in the log.
    pub last_log: Option<u64>,
    /// The last index in the newest snapshot.
    pub snapshot: Option<u64>,
    /// The term of the last vote.
    pub term: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of the snapshots.
    pub snapshot_bytes: u64,
    /// Bytes that are free on the disk.
    pub free_bytes: u64,
    /// Whether that is little.
    pub is_low: bool,
}

/// Returns the control plane that a directory belongs to, and the replica's number; `None` if to none, or if that
/// cannot be read.
#[must_use]
pub fn identity(dir: &Path) -> Option<(String, u64)> {
    raft_store::identity(dir).map(|own| (own.cluster.to_string(), own.replica.get()))
}

/// Looks at a directory without changing it; a copy is checked in `scratch`.
///
/// # Errors
/// When it cannot be read at all.
pub fn inspect(dir: &Path, scratch: &Path) -> io::Result<Inspection> {
    let seen = raft_store::inspect(dir, scratch)?;
    Ok(Inspection {
        was_checked: seen.unchecked.is_none() && seen.identity.is_some(),
        holder: seen.holder,
        identity: seen.identity.map(|own| (own.cluster.to_string(), own.replica.get())),
        removed_by: seen.removed_by,
        damage: seen.damage,
        unchecked: seen.unchecked,
        last_log: seen.last_log,
        snapshot: seen.snapshot,
        term: seen.term,
        log_bytes: seen.usage.log_bytes,
        snapshot_bytes: seen.usage.snapshot_bytes,
        free_bytes: seen.free.map_or(0, |free| free.free_bytes),
        is_low: seen.free.is_some_and(|free| free.is_low()),
    })
}

/// Makes a directory that only its owner can enter.
///
/// # Errors
/// When it can be neither made nor narrowed.
pub fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut mode = std::fs::metadata(dir)?.permissions();
    if mode.mode() & 0o077 != 0 {
        mode.set_mode(0o700);
        std::fs::set_permissions(dir, mode)?;
    }
    Ok(())
}
