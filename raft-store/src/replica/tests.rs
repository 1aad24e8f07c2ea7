//! Replicas whose disks are modelled: slow ones.

use std::io::{self, Read, Write};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

use super::poll::{pause, soon};
use super::*;
use crate::engine::disk_model::{Faults, Keep};
use crate::ground::{Ground, Modelled};
use crate::machine::{BoxError, Committed, Frozen};
use crate::{ClusterId, PeerSecret, ReplicaId, Timing};

/// Keeps nothing.
struct Idle;

impl Frozen for Idle {
    fn write(&self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

impl Machine for Idle {
    fn apply(&mut self, entries: &[Committed<'_>]) -> Vec<Vec<u8>> {
        entries.iter().map(|_| Vec::new()).collect()
    }

    fn advanced(&mut self, _: u64, _: u64) {}

    fn freeze(&self) -> Box<dyn Frozen> {
        Box::new(Self)
    }

    fn install(&mut self, _: u64, _: u64, _: &mut dyn Read) -> Result<(), BoxError> {
        Ok(())
    }
}

struct Node {
    ground: Modelled,
    replica: Replica,
    addr: String,
}

async fn node() -> Node {
    let ground = Modelled::new();
    let stores = ground.open().unwrap_or_else(|error| panic!("{error:?}"));
    let inner = open::on(config(), Box::new(Idle), None, None, stores).await.expect("it opens");
    let replica = Replica { inner };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("it is bound").to_string();
    let server = Server::builder().tcp_nodelay(true).add_service(replica.service());
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    Node { ground, replica, addr }
}

/// Three replicas, and where the leader is.
async fn cluster() -> (Vec<Node>, usize) {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(node().await);
    }
    let members = nodes.iter().zip(1..).map(|(node, id)| Member {
        id: ReplicaId::new(id),
        peer_addr: node.addr.clone(),
        client_addr: String::new(),
    });
    let members: Vec<_> = members.collect();
    // No file is written for a modelled replica: who it is needs no directory.
    for (node, id) in nodes.iter().zip(1..) {
        let mut phase = node.replica.inner.phase.lock().await;
        let identity = Identity { cluster: ClusterId::new([3; 16]), replica: ReplicaId::new(id) };
        node.replica.inner.start(&mut phase, identity).await.expect("it starts");
    }
    let (_, raft) = nodes[0].replica.inner.running().expect("it was started");
    found::initialize(&raft, &members).await.expect("it is founded");
    let deadline = soon();
    loop {
        for (at, node) in nodes.iter().enumerate() {
            if node.replica.propose(b"first".to_vec()).await.is_ok() {
                return (nodes, at);
            }
        }
        pause("a leader", deadline).await;
    }
}

fn slow_down(node: &Node, latency: Duration) {
    node.ground.disk.fail(Faults { latency, ..Faults::default() });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_slower_than_a_lease_cause_no_election() {
    let (nodes, leader) = cluster().await;
    let term = nodes[leader].replica.status().term;
    // Twice the lease, for every sync of both followers.
    for at in [(leader + 1) % 3, (leader + 2) % 3] {
        slow_down(&nodes[at], Duration::from_millis(1600));
    }
    for _ in 0..2 {
        nodes[leader].replica.propose(b"slow".to_vec()).await.expect("the leader stays");
    }
    for node in &nodes {
        assert_eq!(node.replica.status().term, term, "nobody asked for votes");
        slow_down(node, Duration::ZERO);
    }
    for node in &nodes {
        node.replica.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_alone_stands_still_hands_over() {
    let (nodes, leader) = cluster().await;
    slow_down(&nodes[leader], Duration::from_secs(6));
    nodes[leader].replica.propose(b"slow".to_vec()).await.expect("the others are a quorum");
    let other = nodes[(leader + 1) % 3].replica.clone();
    let moved = |status: &Status| status.leader.as_ref().is_some_and(|it| it.peer_addr != nodes[leader].addr);
    let handed =
        tokio::time::timeout(Duration::from_secs(30), async { other.watch().wait_for(moved).await.is_ok() });
    assert!(handed.await.expect("another leads"));
    slow_down(&nodes[leader], Duration::ZERO);
    for node in &nodes {
        node.replica.shutdown().await;
    }
}

fn config() -> Config {
    let mut config = Config::new("/nowhere", PeerSecret::new([1; 32]));
    config.timing = Timing::millis(100, 400, 800);
    config
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_of_a_replica_does_not_take_part() {
    let (nodes, leader) = cluster().await;
    let follower = &nodes[(leader + 1) % 3];
    let then = follower.ground.disk.operations();
    for _ in 0..20 {
        nodes[leader].replica.propose(b"later".to_vec()).await.expect("the leader stays");
    }
    let identity = follower.replica.identity().expect("it is a member");
    let held = |node: &Node| node.replica.status().last_log;
    let deadline = soon();
    while held(follower) < held(&nodes[leader]) {
        pause("the follower has what the leader has", deadline).await;
    }
    follower.replica.shutdown().await;
    let reopened = async |ground: Modelled| {
        let stores = ground.open().unwrap_or_else(|error| panic!("it is whole in itself: {error:?}"));
        open::on(config(), Box::new(Idle), None, Some(identity), stores).await.map(|inner| Replica { inner })
    };
    let old = Modelled { disk: follower.ground.disk.cut_after(then, Keep::All).0 };
    match reopened(old).await {
        Err(open_error::Error::Damaged { what, .. }) => assert!(what.contains("remembers more"), "{what}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("an older copy took part"),
    }
    let intact = Modelled { disk: follower.ground.disk.cut(Keep::Nothing) };
    let again = reopened(intact).await.expect("what was not copied takes part");
    again.shutdown().await;
    for node in &nodes {
        node.replica.shutdown().await;
    }
}
