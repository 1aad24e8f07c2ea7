//! What one replica keeps: log and snapshots, which must fit together.

use std::path::Path;
use std::sync::Arc;

use crate::disk::forget_cached;
use crate::log::{LogStore, OpenError};
use crate::record::Membership;
use crate::room::{self, Gauge};
use crate::snapshot::{self, SnapshotStore};

/// Log and snapshots of one replica. Clones are the same ones.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) log: LogStore,
    pub(crate) snapshots: SnapshotStore,
    /// How much room their disk has.
    pub(crate) gauge: Arc<Gauge>,
}

impl Stores {
    /// Returns the members as of the opening, and the index of the entry that made them so.
    pub(crate) fn members_at_opening(&self) -> (u64, Membership) {
        let of_snapshot = || {
            let newest = self.snapshots.newest()?;
            let description = newest.description();
            Some((description.members_at.map_or(0, |at| at.index), description.membership.clone()))
        };
        self.log.members_at_opening().or_else(of_snapshot).unwrap_or_default()
    }

    /// Opens both in `dir`, checking all of it; snapshots are written at `rate` bytes a second at most.
    pub(crate) fn open(dir: &Path, rate: u64) -> Result<Self, OpenError> {
        forget_cached(dir);
        let gauge = Arc::<Gauge>::default();
        room::watch(dir, &gauge)
            .map_err(|cause| OpenError::Io { doing: "look after the disk's reserve", cause })?;
        let log = LogStore::open(dir, Arc::clone(&gauge))?;
        Self::together(log, SnapshotStore::open(dir, rate, Arc::clone(&gauge)), gauge)
    }

    /// Checks that they fit: what the log no longer holds must be in a snapshot that can be read.
    pub(crate) fn together(
        log: LogStore,
        snapshots: Result<SnapshotStore, snapshot::OpenError>,
        gauge: Arc<Gauge>,
    ) -> Result<Self, OpenError> {
        let snapshots = snapshots.map_err(|error| match error {
            snapshot::OpenError::Damaged(what) => OpenError::Damaged(what),
            snapshot::OpenError::Io(cause) => OpenError::Io { doing: "open the snapshots", cause },
        })?;
        let covered = snapshots.newest().and_then(|newest| newest.description().last);
        let purged = log.state().purged;
        if purged > covered {
            let at = |position: Option<_>| position.map_or_else(|| "none".to_owned(), |it| format!("{it}"));
            return Err(OpenError::Damaged(format!(
                "no readable snapshot reaches the point up to which the log was shortened: {} of {}",
                at(covered),
                at(purged)
            )));
        }
        Ok(Self { log, snapshots, gauge })
    }
}
