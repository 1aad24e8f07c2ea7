//! One replica, from its configuration to its stop.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto::v1::agent_link_server::AgentLinkServer;
use proto::v1::control_server::ControlServer;
use proto::v1::peer_server::PeerServer;
use proto::v1::setup_server::SetupServer;
use raft_store::{DiskUse, PeerSecret, Replica as Log, Role, Timing};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use crate::addresses::Addresses;
use crate::api::{self, Api};
use crate::clock::Moment;
use crate::config::Config;
use crate::disk::{self, Disk};
use crate::error::Error;
use crate::events::Events;
use crate::futures::{self, Futures};
use crate::hand_over;
use crate::history::{self, History};
use crate::incoming::Incoming;
use crate::lead;
use crate::limits::Proposals;
use crate::machine::Machine;
use crate::past;
use crate::peers::{self, Gate, Pass, Peers};
use crate::setup::Setup;
use crate::shared::{LONG_VIEWS, RECHECKS, Shared};
use crate::time::{self, Clock};
use crate::view;

/// Calls under way get so long to end when the replica stops.
const STOPPING: Duration = Duration::from_secs(3);
/// A connection that does not answer a ping within this time, sent as often, is closed.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How often the files are added up.
const ADD_UP: Duration = Duration::from_secs(5);
/// Connections to one listener: 1,024 agents, people and their programs.
const CONNECTIONS: usize = 8192;
/// Calls at once on one connection.
const STREAMS: u32 = 256;
/// The longest list of headers.
const HEADERS: u32 = 16 * 1024;

/// A running replica.
pub struct Replica {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    clients: Serving,
    peers: Serving,
}

type Serving = JoinHandle<Result<(), tonic::transport::Error>>;

impl Replica {
    /// Opens the data directory, takes part in the log, and listens.
    ///
    /// # Errors
    /// When the configuration cannot be, the directory is in use or damaged, or an address is taken.
    pub async fn start(config: Config) -> Result<Self, Error> {
        config.check()?;
        let secret = secret(&config.peer_secret_file)?;
        let (client_listener, client) = listen("listen", config.listen).await?;
        let (peer_listener, peer) = listen("peer_listen", config.peer_listen).await?;
        let addresses = Addresses { client, peer };
        let shared = open(config, secret, addresses).await?;
        let clients = serve_clients(&shared, client_listener);
        let peers = serve_peers(&shared, peer_listener, Pass::new(&secret));
        let data = shared.config.data.clone();
        addresses.write(&data).map_err(file("write", &data.join("addresses")))?;
        tracing::info!(%client, %peer, role = shared.role(), "listening");
        let tasks = spawn(&shared);
        Ok(Self { shared, tasks, clients, peers })
    }

    /// Returns where it is reached.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.shared.addresses
    }

    /// Returns what its parts share: for tests that look inside.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until a listener ends by itself, which is never right.
    pub async fn failed(&mut self) -> Error {
        let (addr, ended) = tokio::select! {
            ended = &mut self.clients => (self.shared.addresses.client, ended),
            ended = &mut self.peers => (self.shared.addresses.peer, ended),
        };
        let cause = match ended {
            Ok(Ok(())) => None,
            Ok(Err(cause)) => Some(cause.into()),
            Err(cause) => Some(cause.into()),
        };
        Error::Served { addr, cause }
    }

    /// Waits until this replica is removed from its cluster; it then takes no part any more.
    pub fn removed(&self) -> impl Future<Output = ()> + use<> {
        let mut standing = self.shared.log.watch();
        async move {
            if standing.wait_for(|standing| standing.role == Role::Removed).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Hands leadership over if it leads, lets calls end, and closes the data directory.
    pub async fn stop(mut self) {
        hand_over::before_the_end(&self.shared).await;
        self.shared.stopping.send_replace(true);
        for serving in [&mut self.clients, &mut self.peers] {
            if tokio::time::timeout(STOPPING, &mut *serving).await.is_err() {
                serving.abort();
            }
        }
        self.tasks.shutdown().await;
        // A snapshot that is being written waits for history, which may wait for room.
        tokio::task::block_in_place(|| self.shared.history.close());
        self.shared.log.shutdown().await;
        Addresses::forget(&self.shared.config.data);
        tracing::info!("stopped");
    }

    /// Ends without handing over and without letting calls end, as far as a process can do that to itself.
    pub async fn drop_dead(mut self) {
        self.clients.abort();
        self.peers.abort();
        self.tasks.shutdown().await;
        self.shared.stopping.send_replace(true);
        tokio::task::block_in_place(|| self.shared.history.abandon());
        self.shared.log.shutdown().await;
    }
}

/// Reads the peers' secret: any content of at least 32 bytes, hashed to the length that is used.
fn secret(path: &Path) -> Result<[u8; 32], Error> {
    let content = fs::read(path).map_err(file("read", path))?;
    let content = content.trim_ascii();
    if content.len() < 32 {
        return Err(Error::ShortSecret { path: path.to_owned(), length: content.len() });
    }
    Ok(blake3::derive_key("bursar peer secret v1", content))
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |cause| Error::File { doing, path, cause }
}

async fn listen(key: &'static str, addr: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let failed = |cause| Error::Listen { key, addr, cause };
    let listener = TcpListener::bind(addr).await.map_err(failed)?;
    let real = listener.local_addr().map_err(failed)?;
    Ok((listener, real))
}

async fn open(config: Config, secret: [u8; 32], addresses: Addresses) -> Result<Arc<Shared>, Error> {
    let data = config.data.clone();
    let clock = Arc::new(Clock::open(&data).map_err(Error::Clock)?);
    let events = Arc::new(Events::default());
    let (publisher, views) = view::channel();
    let history = History::open(&data.join("history"), config.history_bounds()).map_err(Error::History)?;
    let machine = Machine::new(publisher, Arc::clone(&events), history.clone(), Arc::clone(&clock));
    let mut log_config = raft_store::Config::new(&data, PeerSecret::new(secret));
    log_config.timing = Timing::millis(config.heartbeat_ms, config.election_min_ms, config.election_max_ms);
    log_config.snapshot_every = config.snapshot_every;
    log_config.keep_behind_snapshot = log_config.keep_behind_snapshot.min(config.snapshot_every);
    let opened = Log::open(log_config, machine).await;
    let log = opened.map_err(|cause| Error::Log { path: data.clone(), cause: Box::new(cause) })?;
    clock.opened();
    // The directory is ours from here on.
    Addresses::forget(&data);
    let setup =
        Setup::prepare(&data, log.is_initialised()).map_err(file("prepare the setup secret in", &data))?;
    let disk = Disk::new(data, config.free_disk_min_bytes, config.free_disk_min_percent);
    Ok(Arc::new(Shared {
        config,
        addresses,
        log,
        views,
        clock,
        events,
        history,
        rechecks: Semaphore::new(RECHECKS),
        long_views: Semaphore::new(LONG_VIEWS),
        futures: Futures::default(),
        history_reads: Semaphore::new(past::READERS),
        calls: Arc::default(),
        proposals: Proposals::default(),
        peers: Arc::new(Peers::new(Pass::new(&secret))),
        links: Arc::default(),
        disk,
        usage: watch::Sender::new(DiskUse::default()),
        began: Moment::now(),
        setup,
        leading: watch::Sender::new(None),
        last_plan: watch::Sender::new(None),
        undecided: watch::Sender::new(None),
        stopping: watch::Sender::new(false),
    }))
}

fn builder() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .max_concurrent_streams(Some(STREAMS))
        .http2_max_header_list_size(Some(HEADERS))
}

async fn told_to_stop(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

fn serve_clients(shared: &Arc<Shared>, listener: TcpListener) -> Serving {
    let api = Api::new(Arc::clone(shared));
    let control = ControlServer::new(api.clone()).max_decoding_message_size(api::MESSAGE_MAX);
    let setup = SetupServer::new(api.clone()).max_decoding_message_size(64 * 1024);
    let agents = AgentLinkServer::new(api).max_decoding_message_size(api::MESSAGE_MAX);
    let router = builder().add_service(control).add_service(setup).add_service(agents);
    let incoming = Incoming::new(listener, CONNECTIONS);
    tokio::spawn(router.serve_with_incoming_shutdown(incoming, told_to_stop(shared.stopping.subscribe())))
}

fn serve_peers(shared: &Arc<Shared>, listener: TcpListener, pass: Pass) -> Serving {
    let peer = PeerServer::new(Api::new(Arc::clone(shared)))
        .max_decoding_message_size(peers::MESSAGE_MAX)
        .max_encoding_message_size(peers::MESSAGE_MAX);
    let peer = InterceptedService::new(peer, Gate(pass));
    // Replication runs for as long as it likes on few connections.
    let router = builder().max_concurrent_streams(None).add_service(shared.log.service()).add_service(peer);
    let incoming = Incoming::new(listener, CONNECTIONS);
    tokio::spawn(router.serve_with_incoming_shutdown(incoming, told_to_stop(shared.stopping.subscribe())))
}

fn spawn(shared: &Arc<Shared>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(lead::run(Arc::clone(shared)));
    tasks.spawn(time::run(Arc::clone(shared)));
    tasks.spawn(look_at_disk(Arc::clone(shared)));
    tasks.spawn(add_up_files(Arc::clone(shared)));
    tasks.spawn(forget_setup(Arc::clone(shared)));
    tasks.spawn(history::fetch(Arc::clone(shared)));
    tasks.spawn(futures::run(Arc::clone(shared)));
    tasks
}

async fn look_at_disk(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(disk::LOOK).await;
        shared.disk.look();
        hand_over::to_one_with_room(&shared).await;
    }
}

/// Adds up what log and snapshots take on disk, now and then.
async fn add_up_files(shared: Arc<Shared>) {
    loop {
        let log = shared.log.clone();
        if let Ok(usage) = tokio::task::spawn_blocking(move || log.disk_use()).await {
            shared.usage.send_replace(usage);
        }
        tokio::time::sleep(ADD_UP).await;
    }
}

/// Removes the setup secret once the first entry is in the log.
async fn forget_setup(shared: Arc<Shared>) {
    let mut views = shared.views.clone();
    while views.take_newest().state.meta.cluster.is_none() {
        if !views.changed().await {
            return;
        }
    }
    shared.setup.remove();
}
