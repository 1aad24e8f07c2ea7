//! The handle that the server holds, and what is behind it.

mod change;
mod found;
mod greet;
mod open;
mod propose;
mod read;
mod watch;

#[cfg(test)]
mod poll;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use openraft::async_runtime::watch::WatchReceiver as _;
use openraft::errors::ForwardToLeader;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch as channel;

pub use self::change::Joining;
pub use self::propose::Answer;
pub(crate) use self::read::confirm_leadership;

use self::propose::InFlight;
use crate::disk::{DirLock, DiskUse};
use crate::machine::Machine;
use crate::raft::Raft;
use crate::raft::types::C;
use crate::record::{Position, Vote};
use crate::snapshot::SnapshotStore;
use crate::standing::Standing;
use crate::stores::Stores;
use crate::transport::{self, Handler, Links, PeerService};
use crate::{Config, FreeDisk, Identity, Member, ReplicaId, Role, Status, open as open_error, removal};

/// A replica that stops waits so long for what is not durable yet.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// One replica of the log. Clones are the same replica.
#[derive(Clone)]
pub struct Replica {
    inner: Arc<Inner>,
}

/// What all handles, and the service for other replicas, share.
pub(crate) struct Inner {
    config: Config,
    links: Arc<Links>,
    status: channel::Sender<Status>,
    applied: channel::Sender<Option<Position>>,
    in_flight: InFlight,
    /// One change of members at a time.
    changes: tokio::sync::Mutex<()>,
    /// Who leads in which term, as this replica sees it, and since when.
    led: Mutex<Option<(ReplicaId, u64, Instant)>>,
    running: RwLock<Option<(Identity, Raft)>>,
    stores: RwLock<Option<Stores>>,
    /// Held while the replica becomes a member, or stops.
    phase: tokio::sync::Mutex<Phase>,
    /// The consensus has its own workers, so that nothing that the server does delays a heartbeat.
    workers: Handle,
    runtime: Mutex<Option<Runtime>>,
}

/// What is used once in a replica's life.
struct Phase {
    machine: Option<Box<dyn Machine>>,
    machine_thread: Option<std::thread::JoinHandle<()>>,
    lock: Option<DirLock>,
}

impl Replica {
    /// Opens the replica in the configured directory.
    ///
    /// A directory that belongs to a cluster is checked, the machine is brought back, and the replica takes
    /// part. An empty one is made and waits: it never founds a cluster by itself. The service for other
    /// replicas must be mounted in both cases.
    ///
    /// # Errors
    ///
    /// If the directory is in use, damaged or another replica's.
    pub async fn open(config: Config, machine: impl Machine) -> Result<Self, open_error::Error> {
        let inner = open::open(config, Box::new(machine)).await?;
        Ok(Self { inner })
    }

    /// Returns the service to mount on the listener for other replicas (`Server::add_service`).
    pub fn service(&self) -> PeerService {
        transport::service(Handler::new(Arc::clone(&self.inner)), &self.inner.config.peer_secret)
    }

    /// Whether this replica belongs to a cluster.
    pub fn is_initialised(&self) -> bool {
        self.inner.running().is_some()
    }

    /// Returns which cluster and replica this is, or `None` before it belongs to one.
    pub fn identity(&self) -> Option<Identity> {
        self.inner.running().map(|(identity, _)| identity)
    }

    /// Returns a receiver of this replica's view of itself. Who leads and who is a member is in it at once, how far
    /// everybody is within a fifth of a second.
    pub fn watch(&self) -> channel::Receiver<Status> {
        self.inner.status.subscribe()
    }

    /// Returns the newest view at once, as the consensus has it.
    pub fn status(&self) -> Status {
        let shown = self.inner.status.borrow().clone();
        let Some((identity, raft)) = self.inner.running() else { return shown };
        let now = raft.metrics().borrow_watched().clone();
        if matches!(shown.role, Role::Stopped | Role::Removed) || now.running_state.is_err() {
            return shown;
        }
        self.inner.view(identity, &now)
    }

    /// Returns a receiver of the last index that the machine has applied.
    pub fn watch_applied(&self) -> Applied {
        Applied { receiver: self.inner.applied.subscribe() }
    }

    /// Returns how much room is left for the data directory. New work should be refused when it is low.
    ///
    /// # Errors
    ///
    /// If the file system cannot be asked.
    pub fn free_disk(&self) -> std::io::Result<FreeDisk> {
        FreeDisk::of(&self.inner.config.data_dir)
    }

    /// Returns how long the oldest append has waited for the disk, in milliseconds.
    pub fn disk_stall_ms(&self) -> u64 {
        self.inner.stores().map_or(0, |stores| stores.log.stalled_ms())
    }

    /// Returns how long the present leader has led, as far as this replica knows; `None` if it knows of none.
    pub fn led_for(&self) -> Option<Duration> {
        let led = self.inner.led.lock().unwrap_or_else(PoisonError::into_inner);
        led.map(|(_, _, since)| since.elapsed())
    }

    /// Returns how many bytes log and snapshots take on disk. Disk work.
    pub fn disk_use(&self) -> DiskUse {
        DiskUse::of(&self.inner.config.data_dir)
    }

    /// Stops the replica: nothing is written afterwards, and the directory may be opened again. A leader should
    /// hand over first, see [`Replica::transfer_leader`].
    pub async fn shutdown(&self) {
        self.inner.shutdown().await;
    }
}

/// Follows what the machine has applied.
#[derive(Debug, Clone)]
pub struct Applied {
    receiver: channel::Receiver<Option<Position>>,
}

impl Applied {
    /// Returns the last applied index.
    pub fn index(&self) -> Option<u64> {
        self.receiver.borrow().map(|at| at.index)
    }

    /// Waits until `index` is applied; `false` if the replica stops before.
    pub async fn reaches(&mut self, index: u64) -> bool {
        self.receiver.wait_for(|at| at.is_some_and(|at| at.index >= index)).await.is_ok()
    }
}

impl Inner {
    /// Returns the identity and the consensus, if this replica takes part.
    pub(crate) fn running(&self) -> Option<(Identity, Raft)> {
        self.running.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Follows this replica's view of itself.
    pub(crate) fn subscribe(&self) -> channel::Receiver<Status> {
        self.status.subscribe()
    }

    /// Returns what this replica holds, and what it remembers of the others.
    pub(crate) fn standing(&self) -> &Standing {
        self.links.standing()
    }

    /// Returns the snapshots, for a transfer.
    pub(crate) fn snapshots(&self) -> Result<SnapshotStore, tonic::Status> {
        let stores = self.stores();
        stores
            .map(|stores| stores.snapshots)
            .ok_or_else(|| tonic::Status::unavailable("this replica is stopping"))
    }

    /// Whether this replica has durably promised to follow the leader with that vote, and has entries that are
    /// not yet on disk.
    pub(crate) fn follows_while_disk_is_busy(&self, vote: Vote) -> bool {
        self.stores()
            .is_some_and(|stores| stores.log.has_waiting() && stores.log.settled_vote() == Some(vote))
    }

    /// Returns how many bytes of entries wait for the disk.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.stores().map_or(0, |stores| stores.log.waiting_bytes())
    }

    fn stores(&self) -> Option<Stores> {
        self.stores.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes durably that entry `by` removed this replica, and says so.
    fn note_removal(&self, by: u64) {
        let dir = self.data_dir();
        tracing::error!("{}", crate::fatal::removed(dir, by));
        // A modelled replica has no directory; a real one whose directory takes nothing is told again.
        if let Err(cause) = removal::store(dir, by) {
            tracing::warn!("the removal could not be written down: {cause}");
        }
    }

    /// Writes down what is remembered of the others.
    async fn save_remembered(&self) {
        let links = Arc::clone(&self.links);
        // A disk that stands still must not hold up the end; a little less is remembered then.
        let saving = tokio::task::spawn_blocking(move || links.standing().save_all());
        let _ = tokio::time::timeout(FLUSH_LIMIT, saving).await;
    }

    fn data_dir(&self) -> &Path {
        &self.config.data_dir
    }

    async fn shutdown(&self) {
        let mut phase = self.phase.lock().await;
        let running = self.running.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((_, raft)) = running
            && raft.shutdown().await.is_err()
        {
            tracing::warn!("the consensus ended with a panic while shutting down");
        }
        self.standing().stands_on(None);
        self.save_remembered().await;
        let stores = self.stores.write().unwrap_or_else(PoisonError::into_inner).take();
        self.status.send_modify(|status| status.role = Role::Stopped);
        if let Some(Stores { log, snapshots, gauge }) = stores {
            if let Ok(flushed) = log.flush() {
                // The writer answers or stops the process; on a full disk it waits, and need not be waited for.
                let _ = tokio::time::timeout(FLUSH_LIMIT, flushed).await;
            }
            gauge.close();
            drop(snapshots);
            log.close().await;
        }
        phase.machine = None;
        if let Some(thread) = phase.machine_thread.take() {
            // Ends once the last of the consensus' tasks has let go of it.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        phase.lock = None;
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A runtime may not be dropped where it would have to wait.
        let runtime = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

/// Returns the other replica that an error names as leader. A leader that no quorum has confirmed for a while
/// names itself: nobody should be sent there.
fn leader_of(raft: &Raft, forward: &ForwardToLeader<C>) -> Option<Member> {
    let (id, node) = forward.leader_id.zip(forward.leader_node.as_ref())?;
    (id != *raft.node_id()).then(|| Member::from_node(id, node))
}
