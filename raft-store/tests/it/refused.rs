//! What is not for this replica is refused.

use std::time::Instant;

use raft_store::{Config, PeerSecret, Replica, ReplicaId, found, open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cluster::{Cluster, Node, config, fresh_id};
use crate::register::Register;

fn cause(error: &dyn std::error::Error) -> String {
    let own = error.to_string();
    error.source().map_or(own.clone(), |source| format!("{own}: {source}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_of_another_cluster_is_not_taken() {
    let mut cluster = Cluster::founded(1, 1_000_000).await;
    let mut other = Node::new().await;
    let members = vec![other.member(1), cluster.nodes[0].member(2)];
    let foreign = fresh_id();
    let refusal =
        other.replica().found(foreign, ReplicaId::new(1), members).await.expect_err("it has a cluster");
    assert!(matches!(refusal, found::Error::Invite { id, .. } if id == ReplicaId::new(2)), "{refusal:?}");
    assert!(cause(&refusal).contains(&cluster.id.to_string()), "{}", cause(&refusal));
    // Nothing changed for the cluster that was there.
    cluster.set("a", "1").await;
    let again = cluster.nodes[0].replica();
    let members = vec![cluster.nodes[0].member(1)];
    let refusal = again.found(foreign, ReplicaId::new(1), members.clone()).await;
    assert!(matches!(refusal, Err(found::Error::Taken { cluster: taken, .. }) if taken == cluster.id));
    let refusal = again.found(cluster.id, ReplicaId::new(1), members).await;
    assert!(matches!(refusal, Err(found::Error::AlreadyFounded)));
    other.stop().await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_secret_is_refused() {
    let mut node = Node::new().await;
    let mut stranger = Node::new().await;
    stranger.stop().await;
    let mut config = Config::new(stranger.dir.path(), PeerSecret::new([1; 32]));
    config.timing = crate::cluster::TIMING;
    stranger.try_start(config).await.expect("it opens");
    let members = vec![stranger.member(1), node.member(2)];
    let refusal = stranger
        .replica()
        .found(fresh_id(), ReplicaId::new(1), members)
        .await
        .expect_err("the secret differs");
    assert!(cause(&refusal).contains("secret"), "{}", cause(&refusal));
    assert!(!node.replica().is_initialised());
    stranger.stop().await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_replica_at_a_member_s_address_is_left_alone() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let away = (cluster.leader().await + 1) % 3;
    cluster.nodes[away].stop().await;
    let mut foreign = Node::new().await;
    foreign.stop().await;
    foreign.addr = cluster.nodes[away].addr;
    foreign.start().await;
    let members = vec![foreign.member(1)];
    let replica = foreign.replica().clone();
    replica.found(fresh_id(), ReplicaId::new(1), members.clone()).await.expect("it is founded");
    for key in 0..20 {
        cluster.set(&format!("k{key}"), "1").await;
    }
    replica.watch().wait_for(|status| status.is_leader()).await.expect("it leads alone");
    replica.read_barrier().await.expect("it reads");
    assert!(foreign.machine().registers().values.is_empty());
    assert_eq!(replica.status().members, members);
    foreign.stop().await;
    cluster.nodes[away].start().await;
    assert_eq!(cluster.get(away, "k19").await.as_deref(), Some("1"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_port_changes_nothing() {
    let mut cluster = Cluster::founded(1, 1_000_000).await;
    cluster.set("a", "1").await;
    for garbage in
        [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0xff; 70_000], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()]
    {
        let mut stream = TcpStream::connect(cluster.nodes[0].addr).await.expect("the port is open");
        // The other end may have hung up already.
        let _ = stream.write_all(&garbage).await;
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
    }
    cluster.set("a", "2").await;
    assert_eq!(cluster.get(0, "a").await.as_deref(), Some("2"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_replica_on_one_directory_is_refused() {
    let mut node = Node::new().await;
    let second = Replica::open(config(node.dir.path()), Register::default()).await;
    let Err(open::Error::Locked { path, holder }) = second else { panic!("it must not open") };
    assert_eq!(path, node.dir.path());
    assert_eq!(holder, std::process::id().to_string());
    node.stop().await;
    // The first one gone, the directory opens at once.
    let began = Instant::now();
    node.start().await;
    assert!(began.elapsed().as_secs() < 30, "the lock went with its holder");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_number_is_refused() {
    let mut cluster = Cluster::founded(1, 1_000_000).await;
    cluster.stop().await;
    let mut config = config(cluster.nodes[0].dir.path());
    config.replica = Some(ReplicaId::new(5));
    let refusal = Replica::open(config, Register::default()).await.err().expect("it is replica 1's");
    assert!(matches!(refusal, open::Error::OtherReplica { .. }), "{refusal}");
}
