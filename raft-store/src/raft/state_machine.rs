//! The machine and its snapshots, as the consensus library asks for them.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use futures_util::{Stream, StreamExt};
use openraft::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder, Snapshot};
use tokio::sync::oneshot;

use super::machine_thread::{At, FrozenAt, MachineThread};
use super::types::{self, C};
use crate::log::LogStore;
use crate::machine::Frozen;
use crate::snapshot::{Handle, SnapshotStore};

/// Entries handed to the machine at once.
const APPLY_MAX: usize = 1024;

/// The machine's thread and the snapshots of its state.
#[derive(Clone)]
pub(crate) struct StateMachine {
    machine: MachineThread,
    snapshots: SnapshotStore,
    log: LogStore,
}

impl StateMachine {
    pub(crate) fn new(machine: MachineThread, snapshots: SnapshotStore, log: LogStore) -> Self {
        Self { machine, snapshots, log }
    }
}

impl RaftStateMachine<C> for StateMachine {
    type SnapshotData = Handle;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogIdOf<C>>, StoredMembershipOf<C>)> {
        let at = self.machine.at().await?;
        Ok((at.last, at.membership))
    }

    async fn apply<Strm>(&mut self, entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<C>>> + Unpin + OptionalSend,
    {
        // Whatever is ready is one batch: the stream itself never waits for anything but the log.
        let mut entries = entries.ready_chunks(APPLY_MAX);
        while let Some(items) = entries.next().await {
            let items = items.into_iter().collect::<io::Result<Vec<_>>>()?;
            self.machine.apply(items).await?;
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        if !force && !self.snapshots.has_room() {
            tracing::warn!("no snapshot is made: the disk is nearly full");
            return None;
        }
        Some(self.get_snapshot_builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { frozen: Mutex::new(Some(self.machine.freeze().await)), snapshots: self.snapshots.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<C>, snapshot: Handle) -> io::Result<()> {
        // Entries that contradict the snapshot were removed before this call. They must be gone for good before
        // the snapshot is there for good: a crash between the two would leave both.
        self.log.flush()?.await.map_err(|_| io::Error::other("the log's writer thread has ended"))?;
        let snapshots = self.snapshots.clone();
        let naming = tokio::task::spawn_blocking(move || snapshots.name(snapshot));
        let snapshot = naming.await.map_err(io::Error::other)??;
        self.machine.install(meta.clone(), snapshot).await
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<C, Handle>>> {
        self.snapshots.newest().map(to_snapshot).transpose()
    }
}

/// Writes a frozen state to the snapshots.
pub(crate) struct Builder {
    /// Only the library's bound asks for a lock: a builder is used once.
    frozen: Mutex<Option<io::Result<FrozenAt>>>,
    snapshots: SnapshotStore,
}

impl RaftSnapshotBuilder<C> for Builder {
    type SnapshotData = Handle;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<C, Handle>> {
        let frozen = self.frozen.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let frozen = frozen.ok_or_else(|| io::Error::other("a frozen state is written once"))?;
        let (at, frozen) = frozen?;
        let snapshots = self.snapshots.clone();
        let (done, built) = oneshot::channel();
        thread::Builder::new().name("raft-snapshot".into()).spawn(move || {
            // The receiver is gone only if the replica is shutting down.
            let _ = done.send(write(&snapshots, at, frozen.as_ref()));
        })?;
        built.await.map_err(|_| io::Error::other("the snapshot's thread panicked"))?
    }
}

fn write(snapshots: &SnapshotStore, at: At, frozen: &dyn Frozen) -> io::Result<SnapshotOf<C, Handle>> {
    let mut writer = snapshots.create();
    frozen.write(&mut writer)?;
    let (shape, staged) = writer.finish()?;
    let meta = SnapshotMetaOf::<C> { last_log_id: at.last, last_membership: at.membership };
    let handle = snapshots.name(snapshots.hold(&staged, types::description(&meta, shape)))?;
    Ok(Snapshot { meta, snapshot: handle })
}

/// Turns a stored snapshot into the library's.
pub(crate) fn to_snapshot(handle: Handle) -> io::Result<SnapshotOf<C, Handle>> {
    let meta = types::snapshot_meta(handle.description()).map_err(io::Error::other)?;
    Ok(Snapshot { meta, snapshot: handle })
}
