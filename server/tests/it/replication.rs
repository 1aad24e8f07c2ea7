//! Replicas come and go; what was acknowledged stays, alike on all of them.

use proto::v1;

use crate::support::{Lab, alone, join, link, until};

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
