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

/// One cluster at a time: what is tested here has to do with time.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

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
    let _turn = TURN.lock().await;
    let (nodes, leader) = cluster().await;
    let term = nodes[leader].replica.status().term;
    // Twice the lease, for every sync of both followers.
    for at in [(leader + 1) % 3, (leader + 2) % 3] {
        slow_down(&nodes[at], Duration::from_millis(4_000));
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
    let _turn = TURN.lock().await;
    let (nodes, leader) = cluster().await;
    slow_down(&nodes[leader], Duration::from_secs(6));
    nodes[leader].replica.propose(b"slow".to_vec()).await.expect("the others are a quorum");
    let other = nodes[(leader + 1) % 3].replica.clone();
    let moved = |status: &Status| status.leader.as_ref().is_some_and(|it| it.peer_addr != nodes[leader].addr);
    let handed =
        tokio::time::timeout(Duration::from_secs(120), async { other.watch().wait_for(moved).await.is_ok() });
    assert!(handed.await.expect("another leads"));
    slow_down(&nodes[leader], Duration::ZERO);
    for node in &nodes {
        node.replica.shutdown().await;
    }
}

fn config() -> Config {
    let mut config = Config::new("/nowhere", PeerSecret::new([1; 32]));
    // A machine that lets a thread wait for half a second elects nobody for that.
    config.timing = Timing::millis(100, 1_000, 2_000);
    config
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_of_a_replica_does_not_take_part() {
    let _turn = TURN.lock().await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_a_dead_leader_left_half_done_is_brought_to_its_end() {
    let _turn = TURN.lock().await;
    let (nodes, leader) = cluster().await;
    let (_, raft) = nodes[leader].replica.inner.running().expect("it runs");
    let now = nodes[leader].replica.status();
    let members = now.members.iter().map(|member| (member.id.get(), member.to_node()));
    let all: std::collections::BTreeSet<u64> = now.voters.iter().map(|id| id.get()).collect();
    let own = nodes[leader].replica.identity().expect("it is a member").replica.get();
    let without = all.iter().copied().filter(|id| *id != own).collect();
    let members: std::collections::BTreeMap<_, _> = members.collect();
    let joint = openraft::Membership::new(vec![all, without], members).expect("a change from three to two");
    let command = openraft::EntryPayload::Membership(joint.clone());
    raft.append_membership(joint, command, []).await.expect("it is written");
    nodes[leader].replica.shutdown().await;
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    let deadline = soon();
    while !others.iter().any(|at| {
        let status = nodes[*at].replica.status();
        status.is_leader() && !status.is_changing && status.voters.len() == 2
    }) {
        pause("the next leader ends the change", deadline).await;
    }
    for at in others {
        nodes[at].replica.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_at_any_point_of_a_change_leaves_members_that_are_old_half_done_or_new() {
    let _turn = TURN.lock().await;
    let (nodes, leader) = cluster().await;
    let disk = &nodes[leader].ground.disk;
    let before = disk.operations();
    let gone = nodes[(leader + 1) % 3].replica.identity().expect("it is a member").replica;
    nodes[leader].replica.remove_member(gone).await.expect("a majority stays");
    let after = disk.operations();
    let own = nodes[leader].replica.identity().expect("it is a member").replica.get();
    let mut seen = std::collections::BTreeSet::new();
    for cut in before..=after {
        let stores = Modelled { disk: disk.cut_after(cut, Keep::Nothing).0 }.open();
        let stores = stores.unwrap_or_else(|error| panic!("cut after {cut}: {error:?}"));
        let (_, members) = stores.members_at_opening();
        let sizes: Vec<usize> = members.voters.iter().map(Vec::len).collect();
        assert!([vec![3], vec![3, 2], vec![2]].contains(&sizes), "cut after {cut}: {members:?}");
        assert!(members.voters.iter().all(|voters| voters.contains(&own)), "cut after {cut}: {members:?}");
        seen.insert((sizes, members.members.len()));
        stores.gauge.close();
    }
    assert!(seen.len() >= 3, "old, half done, new: {seen:?}");
    for node in &nodes {
        node.replica.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_answers_nobody_who_has_not_said_what_it_remembers_of_it() {
    use crate::transport::Purpose;
    use crate::transport::wire::{Parties, ReadIndexRequest};

    let _turn = TURN.lock().await;
    let (nodes, leader) = cluster().await;
    let own = nodes[leader].replica.identity().expect("it is a member");
    // As after a restart of the other end: the connection is there, and nobody has greeted on it.
    let parties = Parties { cluster: own.cluster, from: ReplicaId::new(77), to: own.replica };
    let link = nodes[leader].replica.inner.links.get(own.replica, &nodes[leader].addr, Purpose::Control);
    let link = link.expect("it is an address");
    let ask = async || {
        let request = ReadIndexRequest { address: parties.address() };
        link.stranger().read_index(request).await.map(|_| ()).map_err(|status| status.code())
    };
    assert_eq!(ask().await, Err(tonic::Code::FailedPrecondition));
    // It is told what its members are; that 77 is none of them is for 77 to judge.
    link.greet(parties).await.expect("it remembers nothing that the other lacks");
    assert_eq!(ask().await, Ok(()));
    for node in &nodes {
        node.replica.shutdown().await;
    }
}

/// Set for the child of the test below.
const DEAD_CORE: &str = "RAFT_STORE_DEAD_CORE";

/// Not a test of its own: the child of the test below, whose consensus dies.
#[test]
fn child_s_consensus_dies() {
    if std::env::var_os(DEAD_CORE).is_none() {
        return;
    }
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let (nodes, leader) = cluster().await;
        let (_, raft) = nodes[leader].replica.inner.running().expect("it runs");
        println!("it dies");
        let _ = raft.with_raft_state(|_| panic!("a fault inside the consensus")).await;
        let deadline = soon();
        loop {
            pause("the process ends by itself", deadline).await;
        }
    });
}

#[test]
fn a_replica_whose_consensus_has_died_says_so_and_ends() {
    let program = std::env::current_exe().expect("this program");
    let child = std::process::Command::new(program)
        .args(["replica::tests::child_s_consensus_dies", "--exact", "--nocapture"])
        .env(DEAD_CORE, "1")
        .output()
        .expect("the child runs");
    let (out, err) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(out.contains("it dies") && !err.contains("the process ends by itself"), "{out}\n{err}");
    assert!(
        !child.status.success() && err.contains("the consensus of this replica has ended"),
        "{out}\n{err}"
    );
}
