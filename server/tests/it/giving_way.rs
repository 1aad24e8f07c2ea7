//! Jobs that give way, and jobs over several nodes, through real replicas and scripted agents.

use proto::v1;
use proto::v1::assignment::Order;
use proto::v1::report::Event;
use tokio_stream::StreamExt as _;
use tonic::Response;

use crate::support::{Agent, Client, Lab, alone, join, link, submission, until};

/// Submits a job of some shape; no minimum runtime is the free tier.
async fn submit(client: &Client, budget: &str, nodes: u32, gpus: u32, min_runtime_ms: u64) -> u32 {
    let mut request = submission(client.mark().await, budget, gpus);
    let job = request.job.as_mut().unwrap();
    job.min_runtime_ms = Some(min_runtime_ms);
    job.shape.as_mut().unwrap().nodes = nodes;
    client.inner.clone().submit(client.ask(request)).await.unwrap().into_inner().job
}

/// Waits until a node's set has an order for a job, and returns it.
async fn ordered(agent: &mut Agent, job: u32, what: &str, is_it: fn(&Order) -> bool) -> v1::Assignment {
    let found = |set: &v1::Assignments| {
        let item = set.items.iter().find(|item| item.job == job && item.order.as_ref().is_some_and(is_it));
        item.cloned()
    };
    let set = agent.set(what, |set| found(set).is_some()).await;
    found(&set).unwrap()
}

async fn told(client: &Client, job: u32) -> Vec<v1::EventView> {
    let request = v1::EventsRequest { after: Some(0), job: Some(job), ..v1::EventsRequest::default() };
    let events = client.inner.clone().events(client.ask(request)).await.unwrap().into_inner();
    events.map(Result::unwrap).collect().await
}

async fn explain(client: &Client, subject: &str) -> v1::Explanation {
    let request = v1::ExplainRequest { read: None, subject: subject.into(), futures: Some(0) };
    client.inner.clone().explain(client.ask(request)).await.unwrap().into_inner()
}

fn exited(by: v1::EndedBy, saved_at: Option<u64>) -> Event {
    let exit = Some(v1::Exit { exit: Some(v1::exit::Exit::Code(0)) });
    Event::Exited(v1::Exited { exit, by: by.into(), saved_at })
}

#[test]
fn free_tier_job_gives_way_and_both_sides_can_read_why() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let joined = join(&lab, "node-1").await;
        let mut agent = link(&lab, &joined, 2).await;
        let (ana, ben) = (lab.client(0, "ana-token").await, lab.client(1, "ben-token").await);
        let free = submit(&ana, "science", 1, 2, 0).await;
        let item =
            ordered(&mut agent, free, "the free-tier job", |order| matches!(order, Order::Run(_))).await;
        let at = agent.beat().await;
        agent.report(&item, at, Event::Started(v1::Started {})).await;
        ana.job_in(free, "running").await;

        let sent = submission(v1::RequestMark::default(), "robotics", 2);
        let request = v1::PlanJobRequest { read: None, job: sent.job, launch: sent.launch, futures: Some(0) };
        let would = ben.inner.clone().plan_job(ben.ask(request)).await.unwrap().into_inner();
        assert!(would.starts && would.sentence.contains("give way"), "{would:?}");
        let victim = format!("{free}.1");
        assert_eq!((would.victims.len(), would.victims[0].attempt.as_str()), (1, victim.as_str()));
        assert_eq!((would.victims[0].right.as_str(), would.victims[0].gpus), ("free-tier", 2));

        let taker = ben.submit("robotics", 2).await.unwrap().job;
        let stop = ordered(&mut agent, free, "the notice", |order| matches!(order, Order::Stop(_))).await;
        let Some(Order::Stop(stop)) = stop.order else { panic!("a stop") };
        assert!(stop.notice && stop.grace_ms == 15_000, "{stop:?}");
        let seen = ana.job(free).await;
        assert_eq!((seen.state.as_str(), seen.reason.as_str()), ("stopping", "preempted.free"));
        let for_whom = format!("{taker}.1");
        assert_eq!(seen.attempts[0].taken_for.as_deref(), Some(for_whom.as_str()));
        let request = v1::ShowNodeRequest { read: None, name: "node-1".into() };
        let node = ana.inner.clone().show_node(ana.ask(request)).await.unwrap().into_inner();
        assert!(node.gpu_list.iter().all(|gpu| gpu.next.as_deref() == Some(for_whom.as_str())), "{node:?}");

        let at = agent.beat().await;
        agent.report(&item, at, exited(v1::EndedBy::Notice, None)).await;
        agent.report(&item, at, Event::Freed(v1::Freed {})).await;
        let item = ordered(&mut agent, taker, "the go", |order| matches!(order, Order::Run(_))).await;
        let at = agent.beat().await;
        agent.report(&item, at, Event::Started(v1::Started {})).await;
        check_sides(&ana, free, &ben, taker).await;
    });
}

async fn check_sides(ana: &Client, free: u32, ben: &Client, taker: u32) {
    let seen = ana.job(free).await;
    assert_eq!((seen.state.as_str(), seen.reason.as_str()), ("held", "held.backoff"));
    let past = &seen.attempts[0];
    assert_eq!((past.end.as_deref(), past.state.as_str()), (Some("preempted"), "past"));
    let cost = past.cost.as_ref().expect("it is on the bill");
    assert_eq!((cost.cause.as_str(), cost.gpus, cost.basis.as_str()), ("free-tier", 2, "unknown"));
    assert_eq!((cost.taken_for.as_deref(), cost.wasted), (Some(format!("{taker}.1").as_str()), Some(false)));

    let why = explain(ana, &format!("{free}.1")).await;
    let taken = why.taken.expect("to whom it gave way");
    assert_eq!((taken.attempt, taken.right.as_str()), (format!("{free}.1"), "free-tier"));
    assert_eq!(why.cost.as_ref(), Some(cost));
    let why = explain(ben, &taker.to_string()).await;
    assert_eq!((why.victims.len(), why.victims[0].name.as_str()), (1, "train"));
    let decision = explain(ben, &why.decision.unwrap()).await;
    assert_eq!(decision.victims, why.victims, "the decision names the same");
    let bill = v1::BillRequest { read: None, since_at: None, by: "cause".into() };
    let bill = ben.inner.clone().bill(ben.ask(bill)).await.map(Response::into_inner).unwrap();
    assert_eq!((bill.rows.len(), bill.rows[0].key.as_str(), bill.wasted), (1, "free-tier", 0));

    let events = until("all that was told", || async {
        Some(told(ana, free).await).filter(|events| events.iter().any(|event| event.kind == "job.held"))
    })
    .await;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.as_str()).collect();
    let expected = [
        "job.submitted",
        "job.placed",
        "job.started",
        "job.preempting",
        "job.preempted",
        "job.requeued",
        "job.held",
    ];
    assert_eq!(kinds, expected);
    let notice = &events[3].sentence;
    assert!(notice.contains(&format!("gives way to {taker}.1 train of robotics (free-tier)")), "{notice}");
    assert!(events[4].sentence.contains("GPU-h are lost"), "{}", events[4].sentence);
}

#[test]
fn gang_goes_when_every_rank_is_ready_and_each_rank_has_its_log() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let (one, two) = (join(&lab, "node-1").await, join(&lab, "node-2").await);
        let mut agents = vec![link(&lab, &one, 2).await, link(&lab, &two, 2).await];
        let ana = lab.client(0, "ana-token").await;
        until("two nodes with their GPUs", || async {
            let nodes = ana.inner.clone().list_nodes(ana.ask(v1::ListNodesRequest { read: None })).await;
            let nodes = nodes.unwrap().into_inner().nodes;
            (nodes.iter().filter(|node| node.idle == 2).count() == 2).then_some(())
        })
        .await;
        let job = submit(&ana, "science", 2, 2, 3_600_000).await;
        let mut items = Vec::new();
        for agent in &mut agents {
            let item =
                ordered(agent, job, "what to prepare", |order| matches!(order, Order::Prepare(_))).await;
            assert!(item.port.is_some() && item.addresses.len() == 2 && item.nodes.len() == 2, "{item:?}");
            items.push(item);
        }
        assert_eq!(ana.job(job).await.attempts[0].go_at, None, "no rank is ready");
        for (agent, item) in agents.iter_mut().zip(&items) {
            let at = agent.beat().await;
            agent.report(item, at, Event::Ready(v1::Ready {})).await;
        }
        for (agent, item) in agents.iter_mut().zip(&items) {
            ordered(agent, job, "the go", |order| matches!(order, Order::Run(_))).await;
            let at = agent.beat().await;
            agent.report(item, at, Event::Started(v1::Started {})).await;
        }
        let running = ana.job_in(job, "running").await;
        let attempt = &running.attempts[0];
        let by_rank = items.iter().position(|item| item.rank == 0).unwrap();
        let names = ["node-1", "node-2"];
        assert_eq!(attempt.nodes, [names[by_rank], names[1 - by_rank]]);
        assert_eq!(attempt.port, items[0].port);

        for (agent, item) in agents.iter_mut().zip(&items) {
            let at = agent.beat().await;
            agent.report(item, at, exited(v1::EndedBy::Itself, None)).await;
            agent.report(item, at, Event::Freed(v1::Freed {})).await;
        }
        let ended = ana.job_in(job, "ended").await;
        assert_eq!(ended.end.as_deref(), Some("completed"));
        let kinds: Vec<String> = told(&ana, job).await.into_iter().map(|event| event.kind).collect();
        let expected = ["job.submitted", "job.placed", "gang.ready", "job.started", "job.ended"];
        assert_eq!(kinds, expected);
        check_past_log(&ana, &mut agents, &items, job).await;
    });
}

/// The log of a past attempt's rank is asked of the node that it was on.
async fn check_past_log(ana: &Client, agents: &mut [Agent], items: &[v1::Assignment], job: u32) {
    until("an attempt that is past", || async {
        Some(ana.job(job).await).filter(|view| view.attempts[0].state == "past")
    })
    .await;
    for (agent, item) in agents.iter_mut().zip(items) {
        let request = v1::LogsRequest { job, rank: item.rank, ..v1::LogsRequest::default() };
        let call = ana.ask(request);
        let mut client = ana.inner.clone();
        let reading = tokio::spawn(async move { client.logs(call).await });
        let asked = agent
            .next("a request for the log", |message| match message {
                v1::server_message::Message::Log(ask) => Some(ask),
                _ => None,
            })
            .await;
        assert_eq!((asked.job, asked.attempt, asked.rank), (job, 1, item.rank));
        reading.abort();
    }
}

#[test]
fn first_checkpoint_of_a_rank_is_seen_by_everybody_at_once() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let joined = join(&lab, "node-1").await;
        let mut agent = link(&lab, &joined, 1).await;
        let ana = lab.client(lab.follower().await, "ana-token").await;
        let job = submit(&ana, "science", 1, 1, 3_600_000).await;
        let item = ordered(&mut agent, job, "the job", |order| matches!(order, Order::Run(_))).await;
        let at = agent.beat().await;
        agent.report(&item, at, Event::Started(v1::Started {})).await;
        let at = agent.beat().await;
        let saved = v1::Saved { job, attempt: 1, rank: 0, saved_at: Some(at), signed_at: Some(at) };
        agent.send(v1::agent_message::Message::Saves(v1::Saves { items: vec![saved] })).await;
        let seen = until("the checkpoint", || async {
            Some(ana.job(job).await).filter(|view| view.attempts[0].saved_at == Some(at))
        })
        .await;
        assert_eq!(seen.attempts[0].signed_at, Some(at));
        let kinds: Vec<String> = told(&ana, job).await.into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, ["job.submitted", "job.placed", "job.started", "job.checkpoint"]);
    });
}
