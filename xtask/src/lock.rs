//! One test cluster at a time on a machine.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;

/// Holds the machine's only place for a test cluster until dropped.
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct ClusterLock {
    _file: File,
}

/// Waits until no other test on this machine runs a cluster, then takes the place.
///
/// Replicas that share two cores with another cluster miss their election timeouts, and a test then fails for
/// its neighbour's load. The lock belongs to the open file, so it holds between threads of one process too, and
/// the kernel gives it back when its holder dies in whatever way.
///
/// # Panics
///
/// When the lock file in the temporary directory can be neither made nor opened.
pub fn cluster_lock() -> ClusterLock {
    let path = std::env::temp_dir().join("bursar-cluster.lock");
    let file = open_shared(&path);
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("waiting for another cluster on this machine ({})", path.display());
            file.lock().unwrap_or_else(|e| panic!("failed to lock {}: {e}", path.display()));
        }
        Err(TryLockError::Error(e)) => panic!("failed to lock {}: {e}", path.display()),
    }
    ClusterLock { _file: file }
}

/// Opens the lock file for this account, also where another account made it.
fn open_shared(path: &PathBuf) -> File {
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)
        .or_else(|_| File::open(path))
        .unwrap_or_else(|e| panic!("failed to open {}: {e}", path.display()))
}
