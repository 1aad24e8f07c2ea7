//! Replicas in this process, each with its own directory, listener and connections.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use raft_store::{
    Answer, ClusterId, Config, Member, PeerSecret, Replica, ReplicaId, Timing, change, open, propose,
};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use crate::register::{Register, set};

pub const SECRET: [u8; 32] = [42; 32];
pub const DEADLINE: Duration = Duration::from_secs(240);

/// Slow enough for a machine on which a thread may wait a second for a core: what is tested is what happens, not how
/// fast, and several tests speak to one leader all along.
pub const TIMING: Timing = Timing::millis(200, 1500, 3000);

pub fn config(dir: &Path) -> Config {
    let mut config = Config::new(dir, PeerSecret::new(SECRET));
    config.timing = TIMING;
    config
}

/// One replica that can be stopped and started again.
pub struct Node {
    pub dir: TempDir,
    pub addr: SocketAddr,
    pub snapshot_every: u64,
    pub live: Option<Live>,
}

pub struct Live {
    pub replica: Replica,
    pub machine: Register,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Node {
    pub async fn new() -> Self {
        let mut node = Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            snapshot_every: 1_000_000,
            live: None,
        };
        node.start().await;
        node
    }

    /// Opens the replica and serves it; on the address that it had before, if it had one.
    pub async fn start(&mut self) {
        let mut config = config(self.dir.path());
        config.snapshot_every = self.snapshot_every;
        config.keep_behind_snapshot = 5;
        self.try_start(config).await.expect("the replica opens");
    }

    pub async fn try_start(&mut self, config: Config) -> Result<(), open::Error> {
        let machine = Register::default();
        let replica = Replica::open(config, machine.clone()).await?;
        let listener = TcpListener::bind(self.addr).await.expect("the address is free");
        self.addr = listener.local_addr().expect("it is bound");
        let (stop, stopped) = oneshot::channel::<()>();
        let server = Server::builder().add_service(replica.service());
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            let served = server.serve_with_incoming_shutdown(TcpListenerStream::new(listener), stopped).await;
            served.expect("the server runs until it is told to stop");
        });
        self.live = Some(Live { replica, machine, stop: Some(stop), serving });
        Ok(())
    }

    /// Stops without handing over, as a crash would look to the others.
    pub async fn stop(&mut self) {
        let Some(mut live) = self.live.take() else { return };
        live.stop.take().map(|stop| stop.send(()));
        live.serving.abort();
        let _ = live.serving.await;
        live.replica.shutdown().await;
    }

    /// Stops in order: the replica, then its listener, whose calls are waited for.
    pub async fn stop_gracefully(&mut self) {
        let Some(mut live) = self.live.take() else { return };
        live.replica.shutdown().await;
        live.stop.take().map(|stop| stop.send(()));
        tokio::time::timeout(DEADLINE, live.serving).await.expect("no call is left open").expect("no panic");
    }

    pub fn replica(&self) -> &Replica {
        &self.live.as_ref().expect("the replica runs").replica
    }

    pub fn machine(&self) -> &Register {
        &self.live.as_ref().expect("the replica runs").machine
    }

    pub fn member(&self, id: u64) -> Member {
        let addr = self.addr.to_string();
        Member { id: ReplicaId::new(id), peer_addr: addr.clone(), client_addr: format!("client-of-{addr}") }
    }
}

/// Three replicas or however many; founder `n` is the one at `n - 1`.
pub struct Cluster {
    pub id: ClusterId,
    pub nodes: Vec<Node>,
}

/// Returns an id that no other cluster of this process has: one that takes over another's port must not be taken for it.
pub fn fresh_id() -> ClusterId {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    ClusterId::new([NEXT.fetch_add(1, Ordering::Relaxed); 16])
}

impl Cluster {
    pub async fn founded(count: u64, snapshot_every: u64) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..count {
            let mut node = Node::new().await;
            node.stop().await;
            node.snapshot_every = snapshot_every;
            node.start().await;
            nodes.push(node);
        }
        let members = nodes.iter().zip(1..).map(|(node, id)| node.member(id)).collect();
        let id = fresh_id();
        nodes[0].replica().found(id, ReplicaId::new(1), members).await.expect("the cluster is founded");
        Self { id, nodes }
    }

    /// Returns where the leader is that all running replicas agree on.
    pub async fn leader(&self) -> usize {
        eventually("all agree on a running leader", || {
            let live = || self.nodes.iter().filter(|node| node.live.is_some());
            let statuses: Vec<_> = live().map(|node| node.replica().status()).collect();
            let leader = statuses.iter().find(|status| status.is_leader())?.leader.clone()?;
            let agreed = statuses.iter().all(|status| status.leader.as_ref() == Some(&leader));
            let leads = |node: &Node| {
                let live = node.live.as_ref().and_then(|live| live.replica.identity());
                live.is_some_and(|own| own.replica == leader.id)
            };
            let at = self.nodes.iter().position(leads)?;
            agreed.then_some(at)
        })
        .await
    }

    /// Writes until some replica acknowledges; a write without an answer is made again.
    pub async fn set(&self, name: &str, value: &str) -> u64 {
        let live = self.nodes.iter().filter(|node| node.live.is_some());
        let replicas: Vec<_> = live.map(|node| node.replica().clone()).collect();
        write(&replicas, name, value).await.0.index
    }

    /// Reads through one replica, linearizably.
    pub async fn get(&self, at: usize, name: &str) -> Option<String> {
        let node = &self.nodes[at];
        let deadline = Instant::now() + DEADLINE;
        loop {
            match node.replica().read_barrier().await {
                Ok(_) => return node.machine().get(name),
                Err(error) => assert!(Instant::now() < deadline, "no read in time: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Asks whoever leads, again when it leads no more: a busy machine may elect another one at any time.
    pub async fn led<T>(
        &self,
        ask: impl AsyncFn(&Replica) -> Result<T, change::Error>,
    ) -> Result<T, change::Error> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let leader = self.leader().await;
            match ask(self.nodes[leader].replica()).await {
                Err(change::Error::NotLeader { .. } | change::Error::Timeout) => {}
                answer => return answer,
            }
            pause("a leader that stays", deadline).await;
        }
    }

    /// Returns a replica that runs and does not lead.
    pub async fn follower(&self) -> usize {
        let leader = self.leader().await;
        let other = |at: &usize| *at != leader && self.nodes[*at].live.is_some();
        (0..self.nodes.len()).find(other).expect("two run")
    }

    /// Waits until whoever leads sees that one that joins has caught up.
    pub async fn has_caught_up(&self, member: ReplicaId) {
        eventually("it has caught up", || {
            let mut live = self.nodes.iter().filter(|node| node.live.is_some());
            let is_level = |joining: raft_store::Joining| joining.has_caught_up();
            live.any(|node| node.replica().joining(member).is_some_and(is_level)).then_some(())
        })
        .await;
    }

    pub async fn stop(&mut self) {
        for node in &mut self.nodes {
            node.stop().await;
        }
    }
}

/// Writes through whichever of `replicas` leads until one acknowledges; says too whether an earlier try may have held.
pub async fn write(replicas: &[Replica], name: &str, value: &str) -> (Answer, bool) {
    let deadline = Instant::now() + DEADLINE;
    let mut may_have_held = false;
    loop {
        for replica in replicas.iter().filter(|replica| replica.status().is_leader()) {
            match replica.propose(set(name, value)).await {
                Ok(answer) => return (answer, may_have_held),
                Err(propose::Error::NotLeader { .. } | propose::Error::Unknown { .. }) => {
                    may_have_held = true
                }
                Err(error) => panic!("a write failed: {error}"),
            }
        }
        pause("no replica took the write", deadline).await;
    }
}

/// Waits a moment before another look, as long as there is time.
pub async fn pause(what: &str, deadline: Instant) {
    assert!(Instant::now() < deadline, "not in time: {what}");
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Polls until `look` finds something.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        pause(what, deadline).await;
    }
}

/// Copies a data directory, but for the reserve: its bytes say nothing.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for file in fs::read_dir(from).expect("a directory") {
        let file = file.expect("an entry");
        let target = to.join(file.file_name());
        if file.file_type().expect("a type").is_dir() {
            copy(&file.path(), &target);
        } else if file.file_name() != "reserve" {
            fs::copy(file.path(), target).expect("a copy");
        }
    }
}
