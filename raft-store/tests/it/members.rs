//! Who leads and who is a member.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use raft_store::{Replica, ReplicaId, Role, change, open};

use crate::cluster::{Cluster, DEADLINE, Node, config, copy, eventually, fresh_id, pause};
use crate::register::Register;

fn id(number: u64) -> ReplicaId {
    ReplicaId::new(number)
}

/// Returns the number of the founder at a place.
fn founder(at: usize) -> ReplicaId {
    id(u64::try_from(at).expect("small") + 1)
}

/// Adds a replica through whoever leads, repeating what was cut off.
async fn join(cluster: &Cluster, node: &Node) -> ReplicaId {
    let addr = node.addr.to_string();
    cluster.led(async |leader| leader.add_member(&addr, "client").await).await.expect("it joins").id
}

/// Removes a replica through whoever leads.
async fn remove(cluster: &Cluster, gone: ReplicaId) {
    cluster.led(async |leader| leader.remove_member(gone).await).await.expect("it is removed");
}

/// Waits until exactly these vote, as all who do see it.
async fn voters(cluster: &Cluster, wanted: &[ReplicaId]) {
    eventually("all see who votes", || {
        let live = cluster.nodes.iter().filter(|node| node.live.is_some());
        let all = live.map(|node| node.replica().status()).filter(|status| status.role != Role::Removed);
        let mut sees = all.map(|status| status.voters == wanted && !status.is_changing);
        sees.all(|sees| sees).then_some(())
    })
    .await;
}

fn own(node: &Node) -> ReplicaId {
    node.replica().identity().expect("it is a member").replica
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_handed_over_on_request() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let refusal = cluster.led(async |leader| leader.transfer_leader(id(99)).await).await;
    assert!(matches!(refusal, Err(change::Error::NoSuchMember(_))), "{refusal:?}");
    // A busy machine may elect somebody else at any time; then it is asked again.
    let deadline = Instant::now() + DEADLINE;
    loop {
        let leader = cluster.leader().await;
        let (next, place) = (founder((leader + 1) % 3), (leader + 1) % 3);
        let old = cluster.nodes[leader].replica().clone();
        let handed = old.transfer_leader(next).await;
        if handed.is_ok() && cluster.leader().await == place {
            let refusal = old.transfer_leader(id(99)).await;
            let again = old.transfer_leader(next).await;
            if cluster.leader().await == place {
                assert!(matches!(refusal, Err(change::Error::NotLeader { .. })), "{refusal:?}");
                again.expect("it leads already");
                break;
            }
        }
        pause("it is handed over", deadline).await;
    }
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

    let fresh = Node::new().await;
    let addr = fresh.addr.to_string();
    let member = cluster.led(async |leader| leader.add_learner(&addr, "client").await).await;
    let member = member.expect("it is invited");
    assert!(member.id.get() >= 1000, "numbers of founders are never given again");
    assert_eq!(
        fresh.replica().identity().map(|own| (own.cluster, own.replica)),
        Some((cluster.id, member.id))
    );
    let refusal = cluster.led(async |leader| leader.transfer_leader(member.id).await).await;
    assert!(matches!(refusal, Err(change::Error::NoVote(_))), "{refusal:?}");
    cluster.has_caught_up(member.id).await;
    // In one change: the majority never rests on the lost one.
    let (joins, replaces) = (BTreeSet::from([member.id]), BTreeSet::from([founder(lost)]));
    let changed = cluster.led(async |leader| leader.promote(&joins, &replaces).await).await;
    changed.expect("it votes in the other's place");
    let status = cluster.nodes[cluster.leader().await].replica().status();
    assert!(!status.members.iter().any(|member| replaces.contains(&member.id)), "{status:?}");
    fresh.replica().read_barrier().await.expect("it reads");
    assert_eq!(fresh.machine().get("k49").as_deref(), Some("kept"));

    // The new one counts: with it and the leader alone the cluster goes on.
    let third = cluster.follower().await;
    cluster.nodes[third].stop().await;
    cluster.nodes.push(fresh);
    cluster.set("after", "1").await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_grows_to_five_and_shrinks_to_one_and_keeps_everything() {
    let mut cluster = Cluster::founded(1, 20).await;
    let mut written = 0;
    let mut ids = vec![id(1)];
    for _ in 0..4 {
        cluster.set(&format!("k{written}"), "kept").await;
        written += 1;
        let node = Node::new().await;
        let joined = join(&cluster, &node).await;
        assert!(!ids.contains(&joined));
        ids.push(joined);
        cluster.nodes.push(node);
        voters(&cluster, &ids).await;
    }
    let joined = join(&cluster, &cluster.nodes[4]).await;
    assert_eq!(joined, ids[4], "who is a member already joins no second time");
    // The eldest first: the leader is among those that go.
    while ids.len() > 1 {
        let gone = ids.remove(0);
        remove(&cluster, gone).await;
        let mut node = cluster.nodes.remove(0);
        eventually("it knows that it is gone", || {
            (node.replica().status().role == Role::Removed).then_some(())
        })
        .await;
        voters(&cluster, &ids).await;
        cluster.set(&format!("k{written}"), "kept").await;
        written += 1;
        let said = node.replica().propose(b"k lost".to_vec()).await;
        assert!(said.is_err(), "who is gone takes nothing");
        node.stop().await;
        let refused = Replica::open(config(node.dir.path()), Register::default()).await.err();
        assert!(
            matches!(refused, Some(open::Error::Removed { replica, .. }) if replica == gone),
            "{refused:?}"
        );
    }
    for key in 0..written {
        assert_eq!(cluster.get(0, &format!("k{key}")).await.as_deref(), Some("kept"), "k{key}");
    }
    let last = cluster.nodes[0].replica().remove_member(ids[0]).await;
    assert!(matches!(last, Err(change::Error::LastMember(_))), "{last:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_away_when_it_was_removed_learns_it_and_takes_no_part() {
    let mut cluster = Cluster::founded(3, 20).await;
    cluster.set("a", "1").await;
    let leader = cluster.leader().await;
    let away = (leader + 1) % 3;
    cluster.get(away, "a").await;
    cluster.nodes[away].stop().await;
    remove(&cluster, founder(away)).await;
    // The log no longer has the entry that removed it: a snapshot carries on who is a member.
    for key in 0..60 {
        cluster.set(&format!("k{key}"), "1").await;
    }
    // With nobody else there it waits, and does not lead alone.
    let mut node = std::mem::replace(&mut cluster.nodes[away], Node::new().await);
    cluster.stop().await;
    node.start().await;
    assert!(node.replica().read_barrier().await.is_err(), "it does not act alone");
    assert!(!node.replica().status().is_leader());
    for at in [leader, (leader + 2) % 3] {
        cluster.nodes[at].start().await;
    }
    eventually("it learns that it is gone", || (node.replica().status().role == Role::Removed).then_some(()))
        .await;
    let said = node.replica().transfer_leader(founder(leader)).await;
    assert!(said.is_err());
    node.stop().await;
    let refused = node.try_start(config(node.dir.path())).await.expect_err("it was removed").to_string();
    assert!(refused.contains("bursar server rebuild"), "{refused}");
    assert!(matches!(
        Replica::open(config(node.dir.path()), Register::default()).await,
        Err(open::Error::Removed { .. })
    ));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_is_cut_off_goes_on_under_the_same_number() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    let long = "x".repeat(1000);
    for key in 0..100 {
        cluster.set(&format!("k{key}"), &long).await;
    }
    let mut node = Node::new().await;
    let addr = node.addr.to_string();
    let invite = async |leader: &Replica| leader.add_learner(&addr, "client").await;
    let first = cluster.led(&invite).await.expect("it is invited");
    // The learner dies while it catches up, and comes back.
    node.stop().await;
    let refusal = cluster.led(&invite).await;
    assert!(matches!(refusal, Err(change::Error::Unreachable { .. })), "{refusal:?}");
    node.start().await;
    let again = cluster.led(&invite).await.expect("it is one already");
    assert_eq!(again, first);
    // The leader dies before the new one votes.
    let leader = cluster.leader().await;
    cluster.nodes[leader].stop().await;
    assert_eq!(join(&cluster, &node).await, first.id);
    let next = cluster.leader().await;
    assert!(cluster.nodes[next].replica().status().voters.contains(&first.id));
    cluster.nodes[leader].start().await;
    cluster.nodes.push(node);
    assert_eq!(cluster.get(3, "k99").await, Some(long));
    let one = cluster.nodes[0].member(1);
    let taken = cluster.led(async |leader| leader.add_learner(&one.peer_addr, "client").await).await;
    assert_eq!(taken.expect("a founder is a member").id, id(1));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_of_elsewhere_or_of_before_does_not_join() {
    let mut cluster = Cluster::founded(1, 1_000_000).await;
    let mut other = Cluster::founded(1, 1_000_000).await;
    other.stop().await;
    let mut stranger = Node::new().await;
    let replica = stranger.replica().clone();
    let foreign = fresh_id();
    replica.found(foreign, id(1), vec![stranger.member(1)]).await.expect("it is founded");
    let leader = cluster.nodes[cluster.leader().await].replica().clone();
    let refusal =
        leader.add_learner(&stranger.addr.to_string(), "client").await.expect_err("it has a cluster");
    assert!(refusal.to_string().contains("another cluster"), "{refusal}");
    let nobody = leader.add_learner("127.0.0.1:1", "client").await;
    assert!(matches!(nobody, Err(change::Error::Unreachable { .. })), "{nobody:?}");
    assert_eq!(leader.status().members.len(), 1);
    stranger.stop().await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_leaves_no_majority_is_refused_before_anything_is_written() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let dead = cluster.follower().await;
    cluster.nodes[dead].stop().await;
    // At once: it need not have been silent for long.
    let deadline = Instant::now() + DEADLINE;
    let (refusal, voters) = loop {
        let other = founder(cluster.follower().await);
        let leader = cluster.nodes[cluster.leader().await].replica();
        match leader.remove_member(other).await {
            // Another one leads now.
            Err(change::Error::NotLeader { .. } | change::Error::Timeout) => {}
            Ok(()) => panic!("{other:?} was removed"),
            refusal => break (refusal, leader.status().voters.len()),
        }
        pause("a leader that stays", deadline).await;
    };
    let expected = matches!(refusal, Err(change::Error::NoMajority { voters: 2, alive: 1, needed: 2 }));
    assert!(expected, "{refusal:?}");
    assert_eq!(voters, 3);
    // The dead one can go, and then the cluster is two.
    remove(&cluster, founder(dead)).await;
    cluster.set("a", "2").await;
    cluster.stop().await;
}

/// Two leaders after each other, each with a change that the other knows nothing of (the schedule of the bug of
/// single-server changes): what the first could not have decided is gone, and there is one majority at any time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_two_leaders_never_make_two_majorities() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let old = cluster.leader().await;
    let (one, two) = ((old + 1) % 3, (old + 2) % 3);
    cluster.nodes[one].stop().await;
    cluster.nodes[two].stop().await;
    // Alone it can begin nothing: no entry of its own is committed any more.
    let replica = cluster.nodes[old].replica().clone();
    let node = Node::new().await;
    let addr = node.addr.to_string();
    let (adds, removes) =
        tokio::join!(replica.add_learner(&addr, "client"), replica.remove_member(founder(one)));
    assert!(adds.is_err() && removes.is_err(), "nothing is decided without a majority");
    assert_eq!(replica.status().voters.len(), 3, "and nothing is begun");
    cluster.nodes[old].stop().await;
    cluster.nodes[one].start().await;
    cluster.nodes[two].start().await;
    // The other two remove the old one, which then comes back with what it alone has.
    remove(&cluster, founder(old)).await;
    cluster.set("a", "2").await;
    let back = &mut cluster.nodes[old];
    let config = config(back.dir.path());
    match back.try_start(config).await {
        Err(open::Error::Removed { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(()) => {
            eventually("it learns that it is gone", || {
                (back.replica().status().role == Role::Removed).then_some(())
            })
            .await;
            back.stop().await;
        }
    }
    let wanted: Vec<_> = [one, two].map(founder).into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    voters(&cluster, &wanted).await;
    // The replica that the old leader wanted to add is free: its call came to nothing.
    assert!(join(&cluster, &node).await.get() >= 1000);
    cluster.nodes.push(node);
    assert_eq!(cluster.get(3, "a").await.as_deref(), Some("2"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_the_same_time_are_made_one_after_the_other() {
    let mut cluster = Cluster::founded(5, 1_000_000).await;
    cluster.set("a", "1").await;
    let leader = cluster.leader().await;
    let node = Node::new().await;
    let addr = node.addr.to_string();
    let (first, second) = (founder((leader + 1) % 5), founder((leader + 2) % 5));
    let (one, two, three, four) = tokio::join!(
        cluster.led(async |leader| leader.remove_member(first).await),
        cluster.led(async |leader| leader.remove_member(second).await),
        cluster.led(async |leader| leader.add_member(&addr, "client").await),
        cluster.led(async |leader| leader.add_learner(&addr, "client").await),
    );
    one.expect("a majority stays");
    two.expect("a majority stays");
    let (joined, again) = (three.expect("it joins"), four.expect("it joins"));
    assert_eq!(joined, again, "two calls for one replica give one number");
    let mut wanted: Vec<_> = (0..5).map(founder).filter(|id| ![first, second].contains(id)).collect();
    wanted.push(joined.id);
    eventually("they are what was asked for", || {
        let mut live = cluster.nodes.iter().map(|node| node.replica().status());
        live.any(|status| status.is_leader() && status.voters == wanted).then_some(())
    })
    .await;
    let mut node = node;
    node.stop().await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_a_member_comes_with_a_snapshot() {
    let mut cluster = Cluster::founded(3, 20).await;
    cluster.set("a", "1").await;
    let leader = cluster.leader().await;
    let away = (leader + 1) % 3;
    cluster.get(away, "a").await;
    cluster.nodes[away].stop().await;
    // A member comes and another goes; the log is then shortened beyond both.
    let node = Node::new().await;
    let joined = join(&cluster, &node).await;
    cluster.nodes.push(node);
    let gone = founder((leader + 2) % 3);
    remove(&cluster, gone).await;
    cluster.nodes[(leader + 2) % 3].stop().await;
    for key in 0..80 {
        cluster.set(&format!("k{key}"), "1").await;
    }
    let at = cluster.leader().await;
    cluster.nodes[at].replica().snapshot_now().await.expect("a snapshot is made");
    cluster.nodes[away].start().await;
    let wanted: Vec<_> =
        [founder(leader), founder(away), joined].into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    voters(&cluster, &wanted).await;
    // It counts with the new ones, and after a restart it knows them from its own snapshot.
    cluster.nodes[away].stop().await;
    cluster.nodes[away].start().await;
    voters(&cluster, &wanted).await;
    assert_eq!(cluster.get(away, "k79").await.as_deref(), Some("1"));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_is_found_out_by_replicas_that_have_all_restarted() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let leader = cluster.leader().await;
    let back = (leader + 1) % 3;
    cluster.get(back, "a").await;
    cluster.nodes[back].stop().await;
    let old = tempfile::tempdir().expect("a temporary directory");
    copy(cluster.nodes[back].dir.path(), old.path());
    cluster.nodes[back].start().await;
    for key in 0..20 {
        cluster.set(&format!("k{key}"), "1").await;
    }
    assert!(cluster.get(back, "k19").await.is_some());
    cluster.stop().await;
    fs::remove_dir_all(cluster.nodes[back].dir.path()).expect("it was there");
    copy(old.path(), cluster.nodes[back].dir.path());
    for at in [leader, (leader + 2) % 3] {
        cluster.nodes[at].start().await;
    }
    cluster.leader().await;
    let config = config(cluster.nodes[back].dir.path());
    match cluster.nodes[back].try_start(config).await {
        Err(open::Error::Damaged { what, .. }) => assert!(what.contains("remembers more"), "{what}"),
        Err(error) => panic!("{error}"),
        Ok(()) => panic!("an older copy took part"),
    }
    cluster.set("after", "1").await;
    cluster.stop().await;
}

/// A copy from before an election forgot for whom it voted, and may elect a second leader of that term where nobody is who
/// knows. Whoever followed the first one says so when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_that_elected_a_second_leader_of_its_own_term_is_found_out() {
    // Where an election takes two attempts its term is another one, and nothing was given twice.
    for _ in 0..10 {
        if is_found_out_after_it_gave_its_vote_twice().await {
            return;
        }
    }
    panic!("inconclusive: no second leader had the term of the first one");
}

async fn is_found_out_after_it_gave_its_vote_twice() -> bool {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let leader = cluster.leader().await;
    let (back, blind) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.get(back, "a").await;
    cluster.nodes[back].stop().await;
    let old = tempfile::tempdir().expect("a temporary directory");
    copy(cluster.nodes[back].dir.path(), old.path());
    cluster.nodes[back].start().await;
    cluster.set("b", "1").await;
    assert!(cluster.get(back, "b").await.is_some() && cluster.get(blind, "b").await.is_some());
    cluster.nodes[blind].stop().await;
    cluster.nodes[leader].replica().transfer_leader(founder(back)).await.expect("it is handed over");
    let first = eventually("it leads", || {
        let status = cluster.nodes[back].replica().status();
        let follows =
            cluster.nodes[leader].replica().status().leader.map(|leads| leads.id) == Some(founder(back));
        (status.role == Role::Leader && follows).then_some(status.term)
    })
    .await;
    cluster.stop().await;
    fs::remove_dir_all(cluster.nodes[back].dir.path()).expect("it was there");
    copy(old.path(), cluster.nodes[back].dir.path());
    cluster.nodes[back].start().await;
    cluster.nodes[blind].start().await;
    let second = eventually("there is a second leader", || {
        let status = cluster.nodes[blind].replica().status();
        (status.role == Role::Leader).then_some(status.term)
    })
    .await;
    cluster.nodes[back].stop().await;
    cluster.nodes[blind].stop().await;
    if first != second {
        return false;
    }
    cluster.nodes[leader].start().await;
    let config = config(cluster.nodes[back].dir.path());
    match cluster.nodes[back].try_start(config).await {
        Err(open::Error::Damaged { what, .. }) => assert!(what.contains("it led in term"), "{what}"),
        Err(error) => panic!("{error}"),
        Ok(()) => panic!("it led in term {first}, voted for another one in it, and takes part"),
    }
    cluster.nodes[blind].start().await;
    cluster.set("after", "1").await;
    cluster.stop().await;
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_replica_waits_and_comes_back_under_a_new_number_only() {
    let mut cluster = Cluster::founded(3, 1_000_000).await;
    cluster.set("a", "1").await;
    let leader = cluster.leader().await;
    let wiped = (leader + 1) % 3;
    cluster.nodes[wiped].stop().await;
    fs::remove_dir_all(cluster.nodes[wiped].dir.path()).expect("it was there");
    cluster.nodes[wiped].start().await;
    cluster.set("a", "2").await;
    assert!(!cluster.nodes[wiped].replica().is_initialised(), "nobody gives it its old number back");
    // Founding anew with the same list comes to nothing: the others have long been founded.
    let members = cluster.nodes.iter().zip(1..).map(|(node, id)| node.member(id)).collect();
    let again = cluster.nodes[wiped].replica().found(cluster.id, founder(wiped), members).await;
    assert!(again.is_err(), "{again:?}");
    cluster.nodes[wiped].stop().await;
    fs::remove_dir_all(cluster.nodes[wiped].dir.path()).expect("it was there");
    cluster.nodes[wiped].start().await;
    let addr = cluster.nodes[wiped].addr.to_string();
    let mut fresh = std::mem::replace(&mut cluster.nodes[wiped], Node::new().await);
    cluster.nodes[wiped].stop().await;
    let member = cluster.led(async |leader| leader.add_learner(&addr, "client").await).await;
    let member = member.expect("it is invited");
    assert_ne!(member.id, founder(wiped));
    cluster.has_caught_up(member.id).await;
    let (joins, replaces) = (BTreeSet::from([member.id]), BTreeSet::from([founder(wiped)]));
    let changed = cluster.led(async |leader| leader.promote(&joins, &replaces).await).await;
    changed.expect("it takes the old one's place");
    std::mem::swap(&mut cluster.nodes[wiped], &mut fresh);
    assert_eq!(own(&cluster.nodes[wiped]), member.id);
    assert_eq!(cluster.get(wiped, "a").await.as_deref(), Some("2"));
    cluster.stop().await;
}
