//! What three replicas promise together.

use std::time::Instant;

use raft_store::{Role, propose};

use crate::cluster::{Cluster, DEADLINE, Node, eventually, pause, write};
use crate::register::set;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_replica_waits_and_founds_nothing() {
    let mut node = Node::new().await;
    let replica = node.replica().clone();
    assert!(!replica.is_initialised());
    assert_eq!(replica.status().role, Role::Uninitialised);
    assert_eq!(replica.propose(set("a", "1")).await, Err(propose::Error::NotLeader { leader: None }));
    assert!(replica.read_barrier().await.is_err());
    node.stop().await;
    node.start().await;
    assert!(!node.replica().is_initialised());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_read_on_every_replica() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let replicas: Vec<_> = cluster.nodes.iter().map(|node| node.replica().clone()).collect();
    let (answer, was_asked_before) = write(&replicas, "a", "2").await;
    assert!(answer.bytes == b"1" || was_asked_before && answer.bytes == b"2", "{answer:?}");
    for at in 0..3 {
        assert_eq!(cluster.get(at, "a").await.as_deref(), Some("2"));
    }
    // A busy machine may elect another one at any time: then it is looked again.
    let deadline = Instant::now() + DEADLINE;
    loop {
        let leader = cluster.leader().await;
        let [leads, follows] = [leader, (leader + 1) % 3].map(|at| cluster.nodes[at].replica());
        let before = leads.status().term;
        let refusal = follows.propose(set("a", "3")).await;
        let after = leads.status();
        if after.is_leader() && after.term == before {
            assert!(answer.term <= before, "{answer:?}");
            let Err(propose::Error::NotLeader { leader: Some(named) }) = refusal else {
                panic!("{refusal:?}")
            };
            assert_eq!(named.peer_addr, cluster.nodes[leader].addr.to_string());
            assert!(named.client_addr.starts_with("client-of-"));
            break;
        }
        pause("a leader that stays", deadline).await;
    }
    eventually("the leader knows that nobody lags", || {
        let mut leaders = cluster.nodes.iter().map(|node| node.replica().status());
        let status = leaders.find(raft_store::Status::is_leader)?;
        (status.peers.len() == 2 && status.peers.values().all(|peer| peer.lag == 0)).then_some(())
    })
    .await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_missing_after_the_leader_is_lost() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    for round in 0..3 {
        for key in 0..20 {
            cluster.set(&format!("{round}-{key}"), "kept").await;
        }
        let leader = cluster.leader().await;
        cluster.nodes[leader].stop().await;
        cluster.set(&format!("after-{round}"), "kept").await;
        let other = cluster.leader().await;
        for key in 0..20 {
            assert_eq!(cluster.get(other, &format!("{round}-{key}")).await.as_deref(), Some("kept"));
        }
        cluster.nodes[leader].start().await;
        assert_eq!(cluster.get(leader, &format!("after-{round}")).await.as_deref(), Some("kept"));
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_there_after_all_replicas_restart() {
    let mut cluster = Cluster::founded(3, 10).await;
    for key in 0..60 {
        cluster.set(&format!("k{key}"), "kept").await;
    }
    let before = cluster.nodes[cluster.leader().await].replica().status().term;
    for _ in 0..2 {
        cluster.stop().await;
        for node in &mut cluster.nodes {
            node.start().await;
        }
        let leader = cluster.leader().await;
        for key in 0..60 {
            assert_eq!(cluster.get((leader + 1) % 3, &format!("k{key}")).await.as_deref(), Some("kept"));
        }
        assert!(cluster.nodes[leader].replica().status().term > before, "a term is never led twice");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_away_too_long_gets_a_snapshot() {
    let mut cluster = Cluster::founded(3, 20).await;
    cluster.set("first", "1").await;
    let away = (cluster.leader().await + 1) % 3;
    cluster.get(away, "first").await;
    let held = cluster.nodes[away].replica().status().last_log;
    cluster.nodes[away].stop().await;
    // Values that fill more than one chunk of a snapshot.
    let long = "x".repeat(2000);
    for key in 0..120 {
        cluster.set(&format!("k{key}"), &long).await;
    }
    let leader = cluster.leader().await;
    cluster.nodes[leader].replica().snapshot_now().await.expect("a snapshot is made");
    eventually("the log no longer reaches back to what the replica holds", || {
        (cluster.nodes[leader].replica().status().purged > held).then_some(())
    })
    .await;
    cluster.nodes[away].start().await;
    for key in ["first", "k0", "k119"] {
        assert!(cluster.get(away, key).await.is_some(), "{key}");
    }
    assert!(cluster.nodes[away].machine().registers().installs > 0, "it came by snapshot");
    let same = |at: usize| {
        let registers = cluster.nodes[at].machine().registers();
        (registers.values, registers.index, registers.term)
    };
    eventually("the machines are equal", || (same(away) == same(leader)).then_some(())).await;
    // What came by snapshot is there after a restart too.
    cluster.nodes[away].stop().await;
    cluster.nodes[away].start().await;
    assert_eq!(cluster.get(away, "k119").await, Some(long));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_made_also_if_an_older_one_is_being_written_when_it_is_asked_for() {
    let mut cluster = Cluster::founded(1, 1_000_000).await;
    let long = "x".repeat(20_000);
    for key in 0..100 {
        cluster.set(&format!("k{key}"), &long).await;
    }
    for round in 0..10 {
        let replica = cluster.nodes[0].replica().clone();
        let older = tokio::spawn(async move { replica.snapshot_now().await });
        let newer = cluster.set("round", &round.to_string()).await;
        let made = tokio::time::timeout(DEADLINE, cluster.nodes[0].replica().snapshot_now()).await;
        assert!(made.expect("it is made in time").expect("it is made") >= newer);
        assert!(older.await.expect("it does not panic").expect("it is made") > 0);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_a_lost_leader_that_were_not_acknowledged_give_way_without_a_new_write() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "before").await;
    let old = cluster.leader().await;
    for other in [(old + 1) % 3, (old + 2) % 3] {
        cluster.nodes[other].stop().await;
    }
    // Nobody can acknowledge these; they stay in the old leader's log alone.
    let replica = cluster.nodes[old].replica().clone();
    let held = replica.status().last_log;
    let alone: Vec<_> = (0..10)
        .map(|round| {
            let replica = replica.clone();
            tokio::spawn(async move { replica.propose(set("a", &format!("lost-{round}"))).await })
        })
        .collect();
    eventually("the old leader has taken or refused them all", || {
        let all_refused = alone.iter().all(tokio::task::JoinHandle::is_finished);
        (replica.status().last_log > held || all_refused).then_some(())
    })
    .await;
    cluster.nodes[old].stop().await;
    for proposal in alone {
        assert!(proposal.await.expect("no panic").is_err(), "no quorum, no acknowledgement");
    }
    for other in [(old + 1) % 3, (old + 2) % 3] {
        cluster.nodes[other].start().await;
    }
    for round in 0..3 {
        cluster.set("a", &format!("after-{round}")).await;
    }
    cluster.nodes[old].start().await;
    assert_eq!(cluster.get(old, "a").await.as_deref(), Some("after-2"));
    let logs = |at: usize| cluster.nodes[at].replica().status().last_log;
    eventually("the logs end alike", || (logs(old) == logs((old + 1) % 3)).then_some(())).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_replica_leaves_no_call_open() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let follower = (cluster.leader().await + 1) % 3;
    cluster.nodes[follower].stop_gracefully().await;
    cluster.set("a", "2").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_each_get_their_own_answer() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.leader().await;
    let replicas: Vec<_> = cluster.nodes.iter().map(|node| node.replica().clone()).collect();
    let writers = (0..64).map(|writer| {
        let replicas = replicas.clone();
        tokio::spawn(async move {
            for round in 0..10 {
                let (answer, was_asked_before) =
                    write(&replicas, &format!("w{writer}"), &round.to_string()).await;
                let answer = String::from_utf8(answer.bytes).expect("text");
                let before = if round == 0 { String::new() } else { (round - 1).to_string() };
                // A loaded machine may change its leader; the first try may have held, then the second found its value.
                let is_own = answer == before || was_asked_before && answer == round.to_string();
                assert!(is_own, "writer {writer} got {answer:?} in round {round}");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no writer fails");
    }
    cluster.stop().await;
}
