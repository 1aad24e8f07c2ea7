//! From a directory to a replica.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use openraft::SnapshotPolicy;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch as channel;

use super::{Inner, Phase, watch};
use crate::disk::{DirLock, LockError};
use crate::log;
use crate::machine::Machine;
use crate::open::Error;
use crate::raft::Raft;
use crate::raft::machine_thread::MachineThread;
use crate::raft::network::Network;
use crate::raft::state_machine::StateMachine;
use crate::removal;
use crate::stores::Stores;
use crate::transport::Links;
use crate::{Config, Identity, Status};

/// The consensus' own workers: one may wait for the machine while the other sends heartbeats.
const WORKERS: usize = 2;
/// A snapshot's transfer may take so long.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(600);
/// Entries in one replication message; with the largest entry far below what a message may hold.
const MESSAGE_ENTRIES: u64 = 128;

pub(super) async fn open(config: Config, machine: Box<dyn Machine>) -> Result<Arc<Inner>, Error> {
    let reading = {
        let config = config.clone();
        tokio::task::spawn_blocking(move || read(&config))
    };
    let read =
        reading.await.map_err(|panic| Error::Start { path: config.data_dir.clone(), cause: panic.into() })?;
    let (lock, identity, stores) = read?;
    on(config, machine, Some(lock), identity, stores).await
}

/// Makes a replica of stores that were opened.
pub(super) async fn on(
    config: Config,
    machine: Box<dyn Machine>,
    lock: Option<DirLock>,
    identity: Option<Identity>,
    stores: Stores,
) -> Result<Arc<Inner>, Error> {
    let path = config.data_dir.clone();
    let has_directory = lock.is_some();
    let start = |cause: std::io::Error| Error::Start { path: path.clone(), cause: cause.into() };
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .thread_name("raft")
        .enable_all()
        .build()
        .map_err(&start)?;
    let workers = runtime.handle().clone();
    let inner = Arc::new(Inner {
        links: Arc::new(Links::new(&config.peer_secret, workers.clone())),
        config,
        status: channel::Sender::new(Status::default()),
        applied: channel::Sender::new(None),
        in_flight: super::InFlight::default(),
        changes: tokio::sync::Mutex::default(),
        led: Mutex::default(),
        running: RwLock::new(None),
        stores: RwLock::new(Some(stores)),
        phase: tokio::sync::Mutex::new(Phase { machine: Some(machine), machine_thread: None, lock }),
        workers,
        runtime: Mutex::new(Some(runtime)),
    });
    if has_directory {
        inner.standing().keep_in(&path);
    }
    if let Some(identity) = identity {
        let mut phase = inner.phase.lock().await;
        inner.start(&mut phase, identity).await?;
    }
    Ok(inner)
}

/// Takes the directory and reads what is in it.
fn read(config: &Config) -> Result<(DirLock, Option<Identity>, Stores), Error> {
    let path = || config.data_dir.clone();
    let damaged = |what: String| Error::Damaged { path: path(), what };
    let lock = DirLock::take(&config.data_dir).map_err(|error| match error {
        LockError::Held(holder) => Error::Locked { path: path(), holder },
        LockError::Io(cause) => Error::Io { doing: "take the data directory", path: path(), cause },
    })?;
    let identity = Identity::load(&config.data_dir).map_err(|cause| match cause.get_ref() {
        Some(what) => damaged(what.to_string()),
        None => Error::Io { doing: "read the identity", path: path(), cause },
    })?;
    if let (Some(configured), Some(identity)) = (config.replica, identity)
        && identity.replica != configured
    {
        return Err(Error::OtherReplica { path: path(), found: identity.replica, configured });
    }
    if let Some(identity) = identity {
        match removal::load(&config.data_dir) {
            Ok(None) => {}
            Ok(Some(by)) => {
                return Err(Error::Removed { path: path(), replica: identity.replica, by });
            }
            Err(cause) if cause.kind() == std::io::ErrorKind::InvalidData => {
                return Err(damaged(cause.to_string()));
            }
            Err(cause) => {
                return Err(Error::Io { doing: "read whether it was removed", path: path(), cause });
            }
        }
    }
    if identity.is_some() && !config.data_dir.join("mark").exists() {
        return Err(damaged("the high-water mark is missing".to_owned()));
    }
    let stores = Stores::open(&config.data_dir, config.snapshot_rate).map_err(|error| match error {
        log::OpenError::Damaged(what) => damaged(what),
        log::OpenError::Io { doing, cause } => Error::Io { doing, path: path(), cause },
    })?;
    if identity.is_none() && (stores.log.state().last.is_some() || stores.log.vote().is_some()) {
        return Err(damaged("there is a log but the identity file is missing".to_owned()));
    }
    Ok((lock, identity, stores))
}

impl Inner {
    /// Starts to take part as `identity`.
    pub(super) async fn start(self: &Arc<Self>, phase: &mut Phase, identity: Identity) -> Result<(), Error> {
        let failed = |cause: crate::BoxError| Error::Start { path: self.config.data_dir.clone(), cause };
        let stores = self.stores().ok_or_else(|| failed("the replica has been shut down".into()))?;
        let machine =
            phase.machine.take().ok_or_else(|| failed("the machine was used by a failed start".into()))?;
        let (machine, thread) =
            MachineThread::start(machine, self.applied.clone()).map_err(|cause| failed(cause.into()))?;
        phase.machine_thread = Some(thread);
        let config = raft_config(&self.config, identity)
            .validate()
            .map_err(|error| failed(format!("the timing cannot work: {error}").into()))?;
        self.standing().stands_on(Some(stores.log.clone()));
        let (by, members) = stores.members_at_opening();
        if members.members.iter().any(|member| member.id == identity.replica.get()) {
            self.standing().is_member_by(by);
        }
        let others = members.members.into_iter().map(|member| (member.id, member.peer_addr));
        let missed = self.what_others_miss(identity, others).await;
        let removed_by = *self.standing().removed().borrow();
        if let Some(by) = removed_by {
            self.note_removal(by);
            let path = self.config.data_dir.clone();
            return Err(Error::Removed { path, replica: identity.replica, by });
        }
        if let Some(what) = missed {
            self.standing().stands_on(None);
            return Err(Error::Damaged { path: self.config.data_dir.clone(), what });
        }
        let network = Network::new(identity, Arc::clone(&self.links));
        let log = stores.log;
        let state_machine = StateMachine::new(machine, stores.snapshots, log.clone());
        let starting = self.workers.spawn(async move {
            Raft::new(identity.replica.get(), Arc::new(config), network, log, state_machine).await
        });
        let raft = match starting.await {
            Ok(Ok(raft)) => raft,
            Ok(Err(error)) => return Err(failed(error.to_string().into())),
            Err(panic) => return Err(failed(panic.into())),
        };
        watch::spawn(self, identity, raft.clone());
        *self.running.write().unwrap_or_else(PoisonError::into_inner) = Some((identity, raft));
        Ok(())
    }

    pub(super) fn workers(&self) -> &Handle {
        &self.workers
    }
}

fn raft_config(config: &Config, identity: Identity) -> openraft::Config {
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let (min, max) = (millis(config.timing.election_min), millis(config.timing.election_max));
    openraft::Config {
        cluster_name: identity.cluster.to_string(),
        heartbeat_interval: millis(config.timing.heartbeat),
        election_timeout_min: min,
        election_timeout_max: max,
        enable_pre_vote: Some(true),
        // Replication runs ahead of the own disk. A leader that went on in its old term after a crash could put
        // another entry where a follower already holds one of the same term.
        enable_leader_restore: Some(false),
        // At least a lease and an election.
        quorum_loss_probe_interval: Some(max.saturating_mul(2) + min),
        install_snapshot_timeout: millis(SNAPSHOT_LIMIT),
        max_payload_entries: MESSAGE_ENTRIES,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(config.snapshot_every),
        max_in_snapshot_log_to_keep: config.keep_behind_snapshot,
        purge_batch_size: (config.snapshot_every / 8).clamp(1, 1024),
        replication_lag_threshold: config.snapshot_every.saturating_mul(2) + config.keep_behind_snapshot,
        ..openraft::Config::default()
    }
}
