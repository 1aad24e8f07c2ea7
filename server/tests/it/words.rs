//! What people say about jobs and nodes, through real replicas and a scripted agent.

use proto::v1;
use proto::v1::report::Event;
use tokio_stream::StreamExt as _;
use tonic::{Code, Response, Status};

use crate::support::{ADMIN, Agent, Client, Lab, alone, join, link, submission, until};

async fn word(client: &Client, job: u32, reason: &str) -> v1::JobWordRequest {
    v1::JobWordRequest { mark: Some(client.mark().await), job, reason: reason.into() }
}

async fn hold(client: &Client, word: v1::JobWordRequest) -> Result<v1::JobWordReply, Status> {
    client.inner.clone().hold_job(client.ask(word)).await.map(Response::into_inner)
}

async fn release(client: &Client, word: v1::JobWordRequest) -> Result<v1::JobWordReply, Status> {
    client.inner.clone().release_job(client.ask(word)).await.map(Response::into_inner)
}

async fn requeue(client: &Client, word: v1::JobWordRequest) -> Result<v1::JobWordReply, Status> {
    client.inner.clone().requeue_job(client.ask(word)).await.map(Response::into_inner)
}

async fn node_word(client: &Client, name: &str, reason: &str) -> v1::NodeWordRequest {
    v1::NodeWordRequest { mark: Some(client.mark().await), name: name.into(), reason: reason.into() }
}

async fn drain(client: &Client, request: v1::DrainNodeRequest) -> Result<v1::DrainView, Status> {
    let request = v1::DrainNodeRequest { mark: Some(client.mark().await), ..request };
    client.inner.clone().drain_node(client.ask(request)).await.map(Response::into_inner)
}

async fn node(client: &Client, name: &str) -> v1::NodeView {
    let request = v1::ShowNodeRequest { read: None, name: name.into() };
    client.inner.clone().show_node(client.ask(request)).await.unwrap().into_inner()
}

async fn kinds(client: &Client, job: Option<u32>, node: Option<&str>) -> Vec<String> {
    let node = node.map(str::to_owned);
    let request = v1::EventsRequest { after: Some(0), job, node, ..v1::EventsRequest::default() };
    let events = client.inner.clone().events(client.ask(request)).await.unwrap().into_inner();
    events.map(|event| event.unwrap().kind).collect().await
}

/// Has the only job of a node's set leave after its notice, and returns how long it was given.
async fn leave(agent: &mut Agent, item: &v1::Assignment) -> u64 {
    let stop = |set: &v1::Assignments| match set.items.first().and_then(|item| item.order.clone()) {
        Some(v1::assignment::Order::Stop(stop)) => Some(stop),
        _ => None,
    };
    let set = agent.set("the stop", |set| stop(set).is_some()).await;
    let stop = stop(&set).unwrap();
    assert!(stop.notice, "it is told first: {stop:?}");
    let at = agent.beat().await;
    let exit = Some(v1::Exit { exit: Some(v1::exit::Exit::Code(0)) });
    let exited = v1::Exited { exit, by: v1::EndedBy::Notice.into(), saved_at: Some(at) };
    agent.report(item, at, Event::Exited(exited)).await;
    agent.report(item, at, Event::Freed(v1::Freed {})).await;
    stop.grace_ms
}

#[test]
fn waiting_job_is_held_and_released_by_those_who_may() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let ana = lab.client(lab.follower().await, "ana-token").await;
        let (ben, admin) = (lab.client(1, "ben-token").await, lab.client(2, ADMIN).await);
        let job = ana.submit("science", 1).await.unwrap().job;
        let refused = hold(&ben, word(&ben, job, "mine goes first").await).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        let refused = hold(&admin, word(&admin, job, "").await).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "somebody else's job needs a reason: {refused:?}");
        let refused = requeue(&ana, word(&ana, job, "").await).await.unwrap_err();
        assert_eq!(refused.code(), Code::Aborted, "it does not run: {refused:?}");

        let request = word(&ana, job, "").await;
        let held = hold(&ana, request.clone()).await.unwrap();
        assert_eq!(held.state, "held");
        assert!(held.sentence.contains("ana"), "{held:?}");
        let elsewhere = lab.client(lab.leader().await, "ana-token").await;
        assert_eq!(hold(&elsewhere, request).await.unwrap(), held, "a repetition is the same call");
        let shown = ana.job(job).await;
        assert_eq!((shown.state.as_str(), shown.reason.as_str()), ("held", "held.user"));
        assert_eq!(release(&ana, word(&ana, job, "").await).await.unwrap().state, "waiting");

        assert_eq!(hold(&admin, word(&admin, job, "not today").await).await.unwrap().state, "held");
        let refused = release(&ana, word(&ana, job, "").await).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "an operator held it: {refused:?}");
        assert_eq!(release(&admin, word(&admin, job, "now").await).await.unwrap().state, "waiting");
        let told = ["job.submitted", "job.held", "job.released", "job.held", "job.released"];
        let told_after = until("all that was told", || async {
            Some(kinds(&ben, Some(job), None).await).filter(|kinds| kinds.len() >= told.len())
        });
        assert_eq!(told_after.await, told);
    });
}

#[test]
fn running_job_that_is_requeued_saves_leaves_and_starts_again() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let joined = join(&lab, "node-1").await;
        let mut agent = link(&lab, &joined, 4).await;
        let ana = lab.client(lab.follower().await, "ana-token").await;
        let job = ana.submit("science", 2).await.unwrap().job;
        let item = agent.start().await;
        ana.job_in(job, "running").await;
        let said = requeue(&ana, word(&ana, job, "new data").await).await.unwrap();
        assert_eq!(said.state, "stopping");
        leave(&mut agent, &item).await;
        let set = agent.set("the next attempt", |set| set.items.iter().any(|item| item.attempt == 2)).await;
        assert_eq!(set.items.len(), 1);
        let view = ana.job(job).await;
        let first = &view.attempts[0];
        assert_eq!((first.state.as_str(), first.end.as_deref()), ("past", Some("preempted")));
        assert_eq!(first.nodes, ["node-1"]);
        assert!(first.stop.as_deref().unwrap().contains("requeued by ana: new data"), "{first:?}");
        assert!(first.saved_at.is_some() && first.stop_at.is_some() && first.stop_grace_ms.is_some());
        assert_eq!(
            (first.taken_for.as_ref(), first.cost.as_ref()),
            (None, None),
            "its user's own word costs no bill"
        );
        assert_eq!(view.attempts[1].attempt, 2);
        assert_eq!(view.retries_used, 0, "a person's word uses no retry");
        let told = [
            "job.submitted",
            "job.placed",
            "job.started",
            "job.preempting",
            "job.checkpoint",
            "job.preempted",
            "job.requeued",
            "job.placed",
        ];
        let told_after = until("all that was told", || async {
            Some(kinds(&ana, Some(job), None).await).filter(|kinds| kinds.len() >= told.len())
        });
        assert_eq!(told_after.await, told);

        // The log of the attempt that left is read from where it was.
        let request = v1::LogsRequest { job, attempt: Some(1), rank: 1, ..v1::LogsRequest::default() };
        let refused = ana.inner.clone().logs(ana.ask(request)).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "it had one rank: {refused:?}");
        let request = v1::LogsRequest { job, attempt: Some(1), ..v1::LogsRequest::default() };
        let call = ana.ask(request);
        let mut client = ana.inner.clone();
        let reading = tokio::spawn(async move { client.logs(call).await });
        let asked = agent
            .next("a request for the past log", |message| match message {
                v1::server_message::Message::Log(ask) => Some(ask),
                _ => None,
            })
            .await;
        assert_eq!((asked.job, asked.attempt, asked.rank), (job, 1, 0));
        drop(reading);
    });
}

async fn dry_run(client: &Client, budget: &str, gpus: u32) -> Result<v1::PlanJobReply, Status> {
    let sent = submission(v1::RequestMark::default(), budget, gpus);
    let request = v1::PlanJobRequest { read: None, job: sent.job, launch: sent.launch, futures: None };
    client.inner.clone().plan_job(client.ask(request)).await.map(Response::into_inner)
}

#[test]
fn dry_run_says_what_a_submission_would_meet_and_submits_nothing() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let (ana, ben) = (lab.client(0, "ana-token").await, lab.client(2, "ben-token").await);
        let refused = dry_run(&ben, "science", 1).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "as a submission would be: {refused:?}");
        let would = dry_run(&ana, "science", 1).await.unwrap();
        assert!(!would.starts && would.sentence.starts_with("it would be waiting"), "{would:?}");
        assert!(!would.reasons.is_empty() && would.on.is_empty());
        assert!(would.receipt.unwrap().first_to_start_ms.is_some());
        assert!(would.likely.is_none(), "it stands in no line: there is no node");
        let joined = join(&lab, "node-1").await;
        let mut agent = link(&lab, &joined, 2).await;
        let would = until("room on the node", || async {
            Some(dry_run(&ana, "science", 2).await.unwrap()).filter(|would| would.starts)
        })
        .await;
        assert_eq!(would.on, [v1::PlacedOn { node: "node-1".into(), slots: vec![0, 1] }]);
        assert!(would.victims.is_empty() && would.reasons.is_empty());
        let receipt = would.receipt.unwrap();
        assert_eq!((receipt.budget.as_str(), receipt.gpus, receipt.tier.as_str()), ("science", 2, "funded"));
        assert!(receipt.warnings.iter().any(|warning| warning.contains("checkpoint")), "{receipt:?}");
        let job = ana.submit("science", 2).await.unwrap().job;
        assert_eq!(job, receipt.job, "no number was taken before");
        agent.start().await;
        let would = dry_run(&ben, "robotics", 1).await.unwrap();
        assert!(!would.starts, "its GPUs are protected: {would:?}");
        assert_eq!(would.place, Some(1));
        assert!(would.earliest_at.is_some(), "when the protection ends: {would:?}");
    });
}

#[test]
fn cordoned_node_gets_no_work_until_an_operator_says_so() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let joined = join(&lab, "node-1").await;
        let mut agent = link(&lab, &joined, 2).await;
        let (ana, admin) = (lab.client(0, "ana-token").await, lab.client(1, ADMIN).await);
        until("a node with its GPUs", || async {
            Some(node(&ana, "node-1").await).filter(|node| node.gpus == 2)
        })
        .await;
        let cordon = |client: Client, request: v1::NodeWordRequest| async move {
            client.inner.clone().cordon_node(client.ask(request)).await.map(Response::into_inner)
        };
        let refused = cordon(ana.clone(), node_word(&ana, "node-1", "loud").await).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied);
        let refused = cordon(admin.clone(), node_word(&admin, "node-1", "").await).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "a reason is needed: {refused:?}");
        let refused = cordon(admin.clone(), node_word(&admin, "node-9", "loud").await).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);

        let view = cordon(admin.clone(), node_word(&admin, "node-1", "fan is loud").await).await.unwrap();
        assert_eq!((view.state.as_str(), view.idle, view.unavailable), ("cordoned", 0, 2));
        assert_eq!(view.cordon_reason.as_deref(), Some("fan is loud"));
        assert_eq!(view.cordoned_by.as_deref(), Some("root-admin"));
        assert!(view.cordoned_since_at.is_some());
        let job = ana.submit("science", 1).await.unwrap().job;
        assert_eq!(ana.job(job).await.state, "waiting");
        let capacity = ana.inner.clone().capacity(ana.ask(v1::CapacityRequest { read: None })).await.unwrap();
        let capacity = capacity.into_inner();
        assert_eq!((capacity.pools.len(), capacity.pools[0].largest_idle), (1, 0), "{capacity:?}");

        let request = node_word(&admin, "node-1", "").await;
        let view = admin.inner.clone().uncordon_node(admin.ask(request)).await.unwrap().into_inner();
        assert_eq!((view.state.as_str(), view.cordon_reason), ("ready", None));
        agent.start().await;
        let capacity = ana.inner.clone().capacity(ana.ask(v1::CapacityRequest { read: None })).await.unwrap();
        let pool = capacity.into_inner().pools.remove(0);
        assert_eq!((pool.largest_idle, pool.largest_now, pool.largest_in_8h), (1, 1, 2));
        assert_eq!(pool.nodes, [v1::NodeShape { idle: 1, gpus: 2, nodes: 1 }]);
        assert_eq!((pool.next_ends.len(), pool.next_ends[0].gpus), (1, 1));
        let told = kinds(&ana, None, Some("node-1")).await;
        let about: Vec<_> = told.iter().filter(|kind| kind.contains("cordon")).collect();
        assert_eq!(about, ["node.cordoned", "node.uncordoned"]);
    });
}

#[test]
fn drain_is_shown_before_it_is_ordered_and_empties_the_node() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let joined = join(&lab, "node-1").await;
        let mut agent = link(&lab, &joined, 2).await;
        let (ana, admin) = (lab.client(0, "ana-token").await, lab.client(1, ADMIN).await);
        let job = ana.submit("science", 1).await.unwrap().job;
        let item = agent.start().await;
        ana.job_in(job, "running").await;
        let request = v1::DrainNodeRequest { name: "node-1".into(), ..v1::DrainNodeRequest::default() };
        let preview = v1::DrainNodeRequest { preview: true, ..request.clone() };
        let would = drain(&ana, preview.clone()).await.unwrap();
        assert_eq!((would.jobs.len(), would.jobs[0].cuts_ms, would.jobs[0].gpus), (1, 0, 1), "{would:?}");
        assert!(would.empty_by_at >= would.jobs[0].protected_until_at, "{would:?}");
        let would = drain(&ana, v1::DrainNodeRequest { now: true, ..preview.clone() }).await.unwrap();
        assert!(would.jobs[0].cuts_ms > 3_000_000 && would.sentence.contains("cuts"), "{would:?}");
        let both = v1::DrainNodeRequest { now: true, deadline_at: Some(1), ..preview };
        assert_eq!(drain(&ana, both).await.unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(node(&ana, "node-1").await.state, "ready", "nothing was ordered yet");

        let order = v1::DrainNodeRequest { now: true, reason: "new firmware".into(), ..request };
        assert_eq!(drain(&ana, order.clone()).await.unwrap_err().code(), Code::PermissionDenied);
        let ordered = drain(&admin, order).await.unwrap();
        assert_eq!((ordered.node.as_str(), ordered.jobs.len()), ("node-1", 1));
        let view = node(&ana, "node-1").await;
        assert_eq!((view.state.as_str(), view.drained_by.as_deref()), ("draining", Some("root-admin")));
        assert_eq!(view.drain_reason.as_deref(), Some("new firmware"));
        assert!(view.empty_by_at.is_some() && view.drain_begins_at.is_some());
        let grace = leave(&mut agent, &item).await;
        assert_eq!(grace, ana.job(job).await.grace_ms);
        until("the word that it is empty", || async {
            kinds(&ana, None, Some("node-1")).await.contains(&"node.empty".to_owned()).then_some(())
        })
        .await;
        check_bill(&ana, job).await;

        let request = node_word(&admin, "node-1", "").await;
        let view = admin.inner.clone().undrain_node(admin.ask(request)).await.unwrap().into_inner();
        assert_eq!((view.state.as_str(), view.drain_reason), ("ready", None));
        agent.set("its next attempt", |set| set.items.iter().any(|item| item.attempt == 2)).await;
        let told = kinds(&ana, None, Some("node-1")).await;
        let about: Vec<_> =
            told.iter().filter(|kind| kind.contains("drain") || kind.contains("empty")).collect();
        assert_eq!(about, ["node.draining", "node.empty", "node.undrained"]);
    });
}

/// What an operator's cut cost is on the bill, and with the attempt.
async fn check_bill(ana: &Client, job: u32) {
    let bill = |by: &str| {
        let request = v1::BillRequest { read: None, since_at: None, by: by.into() };
        let call = ana.ask(request);
        let mut client = ana.inner.clone();
        async move { client.bill(call).await.map(Response::into_inner) }
    };
    let by_cause = bill("").await.unwrap();
    assert_eq!((by_cause.by.as_str(), by_cause.rows.len()), ("cause", 1), "{by_cause:?}");
    assert_eq!((by_cause.rows[0].key.as_str(), by_cause.rows[0].preemptions), ("operator", 1));
    let known: Vec<_> = by_cause.by_basis.iter().map(|line| (line.key.as_str(), line.preemptions)).collect();
    assert_eq!(known, [("reported", 1), ("declared", 0), ("unknown", 0)]);
    let total = by_cause.total.unwrap();
    let largest = by_cause.largest.unwrap();
    assert_eq!((total.preemptions, total.lost_gpu_ms), (1, largest.lost_gpu_ms));
    assert!(total.delivered_gpu_ms.is_some_and(|delivered| delivered > 0));
    assert_eq!((largest.attempt.as_str(), largest.basis.as_str()), (format!("{job}.1").as_str(), "reported"));
    let by_budget = bill("budget").await.unwrap();
    let science = by_budget.rows.iter().find(|row| row.key == "science").unwrap();
    assert_eq!((science.preemptions, science.lost_gpu_ms), (1, total.lost_gpu_ms));
    assert!(science.delivered_gpu_ms.is_some());
    assert_eq!(bill("moon").await.unwrap_err().code(), Code::InvalidArgument);
    let view = ana.job(job).await;
    assert_eq!(view.attempts[0].cost.as_ref(), Some(&largest), "the attempt shows the same cost");
}

#[test]
fn agent_that_reports_checkpoints_of_another_nodes_work_raises_an_alarm_and_changes_nothing() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let (one, two) = (join(&lab, "node-1").await, join(&lab, "node-2").await);
        let mut working = link(&lab, &one, 1).await;
        let ana = lab.client(lab.follower().await, "ana-token").await;
        let job = ana.submit("science", 1).await.unwrap().job;
        let item = working.start().await;
        let stranger = link(&lab, &two, 1).await;
        let at = working.beat().await;
        let saved =
            |job| v1::Saved { job, attempt: item.attempt, rank: 0, saved_at: Some(at), signed_at: Some(at) };
        let items = vec![saved(job), saved(job + 77)];
        stranger.send(v1::agent_message::Message::Saves(v1::Saves { items })).await;
        until("an alarm that everybody sees", || async { node(&ana, "node-2").await.alarm }).await;
        assert_eq!(ana.job(job).await.attempts[0].saved_at, None);
        let many = vec![saved(job); 4_097];
        let mut stranger = link(&lab, &two, 1).await;
        stranger.send(v1::agent_message::Message::Saves(v1::Saves { items: many })).await;
        stranger
            .next("a refusal", |message| match message {
                v1::server_message::Message::Refusal(refused) => Some(refused),
                _ => None,
            })
            .await;
        assert_eq!(ana.job(job).await.state, "running");
    });
}
