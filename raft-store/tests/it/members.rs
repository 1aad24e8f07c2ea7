//! Who leads and who is a member.

use raft_store::{ReplicaId, change};

use crate::cluster::{CLUSTER, Cluster, Node, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_handed_over_on_request() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let leader = cluster.leader().await;
    let next = ReplicaId::new(u64::try_from((leader + 1) % 3).expect("small") + 1);
    cluster.nodes[leader].replica().transfer_leader(next).await.expect("it is handed over");
    assert_eq!(cluster.leader().await, (leader + 1) % 3);
    let refusal = cluster.nodes[leader].replica().transfer_leader(ReplicaId::new(99)).await;
    assert!(matches!(refusal, Err(change::Error::NotLeader { .. })));
    cluster.set("a", "2").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_replica_is_replaced_under_a_new_number() {
    let mut cluster = Cluster::founded(3, 20).await;
    for key in 0..50 {
        cluster.set(&format!("k{key}"), "kept").await;
    }
    let leader = cluster.leader().await;
    let lost = (leader + 1) % 3;
    cluster.nodes[lost].stop().await;
    let replica = cluster.nodes[leader].replica().clone();
    let lost_id = ReplicaId::new(u64::try_from(lost).expect("small") + 1);
    replica.remove_member(lost_id).await.expect("a quorum removes it");

    let mut fresh = Node::new().await;
    let addr = fresh.addr.to_string();
    let member = replica.add_member(&addr, "client").await.expect("it catches up and votes");
    assert!(member.id.get() >= 1000, "numbers of founders are never given again");
    assert_eq!(fresh.replica().identity().map(|own| (own.cluster, own.replica)), Some((CLUSTER, member.id)));
    fresh.replica().read_barrier().await.expect("it reads");
    assert_eq!(fresh.machine().get("k49").as_deref(), Some("kept"));
    eventually("three vote", || (replica.status().voters.len() == 3).then_some(())).await;

    // The new one counts: with it and the leader alone the cluster goes on.
    let third = (leader + 2) % 3;
    cluster.nodes[third].stop().await;
    cluster.set("after", "1").await;
    fresh.stop().await;
    cluster.stop().await;
}
