//! Replicas come and go; what was acknowledged stays, alike on all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proto::v1;
use scheduler_core::unit::Timestamp;

use crate::support::{ADMIN, Lab, PATIENCE, alone, join, link, until};

/// A leader once stood still for good when a round of planning ended in the middle of an answer to `cluster status`.
#[test]
fn status_is_answered_however_many_rounds_of_planning_end_meanwhile() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let leader = lab.leader().await;
        let ana = lab.client(leader, "ana-token").await;
        let shared = Arc::clone(lab.replicas[leader].as_ref().unwrap().shared());
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let rounds = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                shared.last_plan.send_replace(Some((Timestamp::ZERO, "0 starts".to_owned())));
            }
        });
        for _ in 0..300 {
            let mut control = ana.inner.clone();
            let asked = control.cluster_status(ana.ask(v1::ClusterStatusRequest::default()));
            tokio::time::timeout(PATIENCE, asked).await.expect("an answer").unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        rounds.join().unwrap();
    });
}

#[test]
fn death_of_the_leader_costs_no_call_and_its_work_goes_on_under_the_next() {
    alone(|lock| async {
        let mut lab = Lab::founded(lock).await;
        let node = join(&lab, "node-1").await;
        let mut agent = link(&lab, &node, 4).await;
        let leader = lab.leader().await;
        let ana = lab.client((leader + 1) % 3, "ana-token").await;
        let job = ana.submit("science", 2).await.unwrap().job;
        let before = agent.set("the placement", |set| set.items.len() == 1).await;
        let item = before.items[0].clone();
        let go = before.cluster_time_at;
        agent.report(&item, go, v1::report::Event::Started(v1::Started {})).await;

        lab.replicas[leader].take().unwrap().drop_dead().await;
        let second = ana.submit("science", 1).await.expect("the call waits for the next leader").job;
        assert_eq!(second, job + 1);
        drop(agent);
        let mut agent = link(&lab, &node, 4).await;
        let after = agent.set("both jobs, from the next leader", |set| set.items.len() == 2).await;
        assert!(after.token.unwrap().term > before.token.unwrap().term);
        let kept = after.items.iter().find(|other| other.job == job).unwrap();
        assert_eq!((kept.attempt, &kept.gpus), (item.attempt, &item.gpus), "nothing was placed anew");
        assert_eq!(ana.job(job).await.state, "running");

        lab.restart(leader).await;
        let (_, digests) = lab.settled().await;
        assert!(digests.len() == 3 && digests.iter().all(|digest| *digest == digests[0]));
    });
}

#[test]
fn restart_of_all_replicas_keeps_everything_alike_and_time_goes_on() {
    alone(|lock| async {
        let mut lab = Lab::founded_with(lock, |config| config.snapshot_every = 8).await;
        let node = join(&lab, "node-1").await;
        let mut agent = link(&lab, &node, 2).await;
        let ana = lab.client(0, "ana-token").await;
        let mut jobs = Vec::new();
        for _ in 0..6 {
            jobs.push(ana.submit("science", 1).await.unwrap().job);
        }
        agent.set("two placements", |set| set.items.len() == 2).await;
        let time = agent.beat().await;
        drop(agent);
        let queue = |queue: v1::QueueView| {
            let rows = queue.rows.into_iter().map(|row| (row.job, row.place, row.submitted_at));
            rows.collect::<Vec<_>>()
        };
        let before =
            ana.inner.clone().queue(ana.ask(v1::QueueRequest::default())).await.unwrap().into_inner();
        for at in 0..3 {
            lab.replicas[at].take().unwrap().stop().await;
        }
        for at in 0..3 {
            lab.restart(at).await;
        }
        let ana = lab.client(1, "ana-token").await;
        let after = until("a queue after the restart", || async {
            ana.inner.clone().queue(ana.ask(v1::QueueRequest::default())).await.ok()
        })
        .await;
        assert_eq!(queue(after.into_inner()), queue(before));
        let mut agent = link(&lab, &node, 2).await;
        let set = agent.set("the same placements", |set| set.items.len() == 2).await;
        assert!(set.cluster_time_at >= time, "cluster time goes on");
        let (_, digests) = lab.settled().await;
        assert!(digests.len() == 3 && digests.iter().all(|digest| *digest == digests[0]));
        assert!(ana.job(jobs[5]).await.state == "waiting");
    });
}

/// Makes a replica's anchor one of another boot, as a restart of the machine does.
fn forget_boot(lab: &Lab, at: usize) {
    let file = lab.configs[at].data.join("clock");
    let text = std::fs::read_to_string(&file).unwrap();
    let boot = text.split_whitespace().nth(1).unwrap().to_owned();
    std::fs::write(file, text.replace(&boot, "another-boot")).unwrap();
}

#[test]
fn replica_of_a_restarted_machine_goes_by_its_peers_and_all_of_them_by_a_credible_wall_clock() {
    alone(|lock| async {
        let mut lab = Lab::founded(lock).await;
        let ana = lab.client(lab.follower().await, "ana-token").await;
        ana.submit("science", 1).await.unwrap();
        let time_of = |lab: &Lab, at: usize| {
            let clock = &lab.replicas[at].as_ref().unwrap().shared().clock;
            clock.now().map(|now| (now, clock.trouble()))
        };
        let leader = lab.leader().await;
        lab.replicas[leader].take().unwrap().stop().await;
        forget_boot(&lab, leader);
        lab.restart(leader).await;
        let (time, alarm) = until("time from its peers", || async { time_of(&lab, leader) }).await;
        let (theirs, _) = time_of(&lab, (leader + 1) % 3).expect("who is founded knows the time");
        assert!(theirs.since(time).as_millis() < 5_000 && alarm.is_none());

        for at in 0..3 {
            lab.replicas[at].take().unwrap().stop().await;
            forget_boot(&lab, at);
        }
        for at in 0..3 {
            lab.restart(at).await;
        }
        let ana = lab.client(0, "ana-token").await;
        until("a write after all machines restarted", || async { ana.submit("science", 1).await.ok() }).await;
        for at in 0..3 {
            let (time, alarm) = until("time at each replica", || async { time_of(&lab, at) }).await;
            assert!(time >= theirs && alarm.is_none());
        }
    });
}

#[test]
fn control_plane_whose_leader_is_gone_right_after_the_founding_goes_on() {
    alone(|lock| async {
        let mut lab = Lab::waiting(lock, 3).await;
        lab.found(&lab.setup_secret(0)).await.unwrap();
        let leader = lab.leader().await;
        lab.replicas[leader].take().unwrap().drop_dead().await;
        lab.client((leader + 1) % 3, ADMIN).await.add_principal("ana").await;
    });
}

#[test]
fn leader_hands_over_once_replicas_of_restarted_machines_know_the_time() {
    alone(|lock| async {
        let mut lab = Lab::founded(lock).await;
        let leader = lab.leader().await;
        let others = [(leader + 1) % 3, (leader + 2) % 3];
        for at in others {
            lab.replicas[at].take().unwrap().stop().await;
            forget_boot(&lab, at);
        }
        for at in others {
            lab.restart(at).await;
        }
        // Before they heard of it there is nobody to hand over to; if they elected another one meanwhile, that asks this one.
        let id = lab.replicas[leader].as_ref().unwrap().shared().replica().get();
        until("a follower that hears the leader, or knows the time", || async {
            let follower = lab.replicas[others[0]].as_ref().unwrap().shared();
            let hears = follower.log.status().leader.is_some_and(|leader| leader.id.get() == id);
            (hears || follower.clock.now().is_some()).then_some(())
        })
        .await;
        lab.replicas[leader].take().unwrap().stop().await;
        lab.client(others[0], "ana-token").await.submit("science", 1).await.expect("no call fails");
    });
}

#[test]
fn leader_that_is_told_to_stop_hands_over_first() {
    alone(|lock| async {
        let mut lab = Lab::founded(lock).await;
        let leader = lab.leader().await;
        let ana = lab.client((leader + 1) % 3, "ana-token").await;
        let stopping = lab.replicas[leader].take().unwrap();
        let submitting = async {
            let mut jobs = Vec::new();
            for _ in 0..10 {
                jobs.push(ana.submit("science", 1).await.expect("no call fails").job);
            }
            jobs
        };
        let ((), jobs) = tokio::join!(stopping.stop(), submitting);
        assert_eq!(jobs, (jobs[0]..jobs[0] + 10).collect::<Vec<_>>(), "each once, in order");
        assert_ne!(lab.leader().await, leader);
    });
}
