//! Agents' links: to the leader alone, one a node, each for its own node.

use std::pin::pin;

use proto::v1;
use proto::v1::server_message::Message as ToAgent;

use crate::support::{ADMIN, Lab, alone, hello, join, link, say_hello, until};

#[test]
fn follower_names_the_leader_and_a_foreign_node_is_refused_with_an_alarm() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let (one, two) = (join(&lab, "node-1").await, join(&lab, "node-2").await);
        let leader = lab.leader().await;
        let follower = lab.follower().await;
        let (_, answer) = say_hello(&lab, follower, &one, hello(&one, "boot-1", 2)).await.unwrap();
        let Some(ToAgent::Redirect(redirect)) = answer else { panic!("no redirect: {answer:?}") };
        assert_eq!(redirect.leader, Some(lab.configs[leader].listen.to_string()));

        let mut foreign = hello(&one, "boot-1", 2);
        foreign.node = two.node;
        let (_, answer) = say_hello(&lab, leader, &one, foreign).await.unwrap();
        assert!(matches!(answer, Some(ToAgent::Refusal(_))), "{answer:?}");
        let admin = lab.client(follower, ADMIN).await;
        until("an alarm that everybody sees", || async {
            let read = v1::ShowNodeRequest { read: None, name: "node-1".into() };
            let node = admin.inner.clone().show_node(admin.ask(read)).await.unwrap().into_inner();
            node.alarm
        })
        .await;

        let mut other_cluster = hello(&one, "boot-1", 2);
        other_cluster.cluster = vec![0; 16];
        let (_, answer) = say_hello(&lab, leader, &one, other_cluster).await.unwrap();
        assert!(matches!(answer, Some(ToAgent::Refusal(_))), "{answer:?}");

        let mut stranger = one.clone();
        stranger.credential = "made up".into();
        let refused = say_hello(&lab, leader, &stranger, hello(&one, "boot-1", 2)).await.err().unwrap();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
    });
}

#[test]
fn newest_session_of_a_machine_wins_and_another_machine_is_refused() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let node = join(&lab, "node-1").await;
        let mut old = link(&lab, &node, 2).await;
        old.beat().await;
        let mut new = link(&lab, &node, 2).await;
        let leader = lab.leader().await;
        // The newest one is heard of, so a copy of its data directory elsewhere gets nothing.
        new.beat().await;
        let mut copy = pin!(say_hello(&lab, leader, &node, hello(&node, "boot-of-a-copy", 2)));
        let (_, answer) = loop {
            tokio::select! {
                answered = &mut copy => break answered.unwrap(),
                _ = new.beat() => {}
            }
        };
        assert!(matches!(answer, Some(ToAgent::Refusal(_))), "{answer:?}");
        assert!(new.beat().await > 0);
        // A restarted machine is taken once its old link is quiet.
        drop(new);
        until("the restarted machine's link", || async {
            let (_, answer) =
                say_hello(&lab, lab.leader().await, &node, hello(&node, "boot-2", 2)).await.unwrap();
            matches!(answer, Some(ToAgent::Welcome(_))).then_some(())
        })
        .await;
    });
}
