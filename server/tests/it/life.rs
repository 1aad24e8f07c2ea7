//! One job's whole way, through three replicas and a scripted agent.

use proto::v1;
use proto::v1::agent_link_client::AgentLinkClient;
use proto::v1::agent_message::Message as FromAgent;
use proto::v1::server_message::Message as ToAgent;
use tokio_stream::StreamExt as _;

use crate::support::{ADMIN, Agent, Client, Joined, Lab, alone, channel, join, link, submission, with_token};

#[test]
fn job_goes_its_whole_way_and_is_charged_to_the_millisecond() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let node = join(&lab, "node-1").await;
        let mut agent = link(&lab, &node, 4).await;
        let ana = lab.client(lab.follower().await, "ana-token").await;
        let reply = ana.submit("science", 2).await.unwrap();
        check_receipt(&reply);

        let set = agent.set("the job's placement", |set| set.items.len() == 1).await;
        let item = set.items[0].clone();
        assert!(matches!(item.order, Some(v1::assignment::Order::Run(_))), "{item:?}");
        assert_eq!((item.job, item.attempt, item.gpus.len()), (reply.job, 1, 2));
        check_launch(&lab, &node, &item).await;
        let other = join(&lab, "node-2").await;
        let mut client = AgentLinkClient::new(channel(lab.configs[0].listen).await);
        let request = v1::FetchLaunchRequest { hash: item.launch.clone() };
        let refused = client.fetch_launch(with_token(request, &other.credential)).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::NotFound, "another node's jobs are none of its business");

        let placed = ana.job_in(reply.job, "starting").await;
        let go = placed.attempts[0].go_at.expect("on one node with idle GPUs the placing is the go");
        agent.time_is(go + 300).await;
        agent.report(&item, go + 100, v1::report::Event::Started(v1::Started {})).await;
        let running = ana.job_in(reply.job, "running").await;
        assert_eq!(running.reason, "running.protected");
        assert_eq!(running.attempts[0].protected_until_at, Some(go + 100 + 3_600_000));
        check_privacy(&lab, &running).await;
        check_log(&ana, &mut agent, reply.job).await;

        let exit = v1::Exit { exit: Some(v1::exit::Exit::Code(0)) };
        let exited = v1::Exited { exit: Some(exit), by: v1::EndedBy::Itself.into(), saved_at: None };
        agent.report(&item, go + 250, v1::report::Event::Exited(exited)).await;
        let ended = ana.job_in(reply.job, "ended").await;
        assert_eq!(ended.end.as_deref(), Some("completed"));
        assert_eq!(ended.charged_milli_gpu_ms, (2_000 * 250).to_string(), "rate x (ended - go)");
        let set = agent.set("the order to clear", |set| !set.items.is_empty()).await;
        assert!(matches!(set.items[0].order, Some(v1::assignment::Order::Clear(_))));
        agent.report(&item, go + 260, v1::report::Event::Freed(v1::Freed {})).await;
        agent.set("an empty set", |set| set.items.is_empty()).await;
        check_books(&ana).await;
        check_story(&ana, reply.job).await;
    });
}

fn check_receipt(reply: &v1::SubmitReply) {
    let receipt = reply.receipt.clone().unwrap();
    assert_eq!((receipt.tier.as_str(), receipt.tier_source.as_str()), ("funded", "submission"));
    assert_eq!((receipt.budget.as_str(), receipt.gpus), ("science", 2));
    assert_eq!(receipt.set_aside_milli_gpu_ms, (2_000_u64 * 3_600_000).to_string());
}

/// Any replica has what a job starts with, under its hash.
async fn check_launch(lab: &Lab, node: &Joined, item: &v1::Assignment) {
    for at in 0..3 {
        let mut client = AgentLinkClient::new(channel(lab.configs[at].listen).await);
        let request = v1::FetchLaunchRequest { hash: item.launch.clone() };
        let launch = client.fetch_launch(with_token(request.clone(), &node.credential)).await.unwrap();
        let launch = launch.into_inner().launch;
        assert_eq!(blake3::hash(&launch).as_bytes().to_vec(), item.launch);
        assert!(proto::decode_launch(&launch).is_ok());
        let refused = client.fetch_launch(with_token(request, "ana-token")).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated, "launches are for agents");
    }
}

/// Arguments and environment's names are for the job's user, its values for nobody.
async fn check_privacy(lab: &Lab, own: &v1::JobView) {
    let launch = own.launch.as_ref().unwrap();
    assert_eq!(launch.command, ["/bin/train", "--secret-plan"]);
    assert_eq!(launch.env_names, ["HIDDEN"]);
    for token in ["ben-token", ADMIN] {
        let seen = lab.client(0, token).await.job(own.job).await;
        assert_eq!((seen.name.as_str(), seen.launch), ("train", None));
    }
    assert!(!format!("{own:?}").contains("never shown"));
}

/// A log is read through whichever replica has the link, and ends at its present end unless followed.
async fn check_log(ana: &Client, agent: &mut Agent, job: u32) {
    let request = v1::LogsRequest { job, stream: "stdout".into(), ..v1::LogsRequest::default() };
    let call = ana.ask(request);
    let mut client = ana.inner.clone();
    let reading = tokio::spawn(async move { client.logs(call).await.unwrap().into_inner() });
    for bytes in [b"hello".to_vec(), Vec::new()] {
        let ask = agent
            .next("a log request", |message| match message {
                ToAgent::Log(ask) => Some(ask),
                _ => None,
            })
            .await;
        assert_eq!((ask.job, ask.attempt, ask.account.as_str()), (job, 1, "nobody"));
        let chunk = v1::LogChunk { id: ask.id, offset: ask.offset, bytes, ended: false, error: None };
        agent.send(FromAgent::Log(chunk)).await;
    }
    let parts: Vec<_> = reading.await.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(parts.len(), 1);
    assert_eq!((parts[0].offset, parts[0].bytes.as_slice()), (0, b"hello".as_slice()));
}

async fn check_books(ana: &Client) {
    let tree = ana.inner.clone().budget_tree(ana.ask(v1::BudgetTreeRequest { read: None })).await.unwrap();
    let tree = tree.into_inner();
    let row = |path: &str| tree.pools[0].rows.iter().find(|row| row.path == path).unwrap().clone();
    let used = |path: &str| row(path).r#use.unwrap();
    assert_eq!(used("science").charged_milli_gpu_ms, "500000");
    assert_eq!(used("lab").charged_milli_gpu_ms, "500000", "a parent is the sum of its children");
    assert_eq!(used("science").set_aside_milli_gpu_ms, "0", "what was not used left with the end");
    assert_eq!((row("robotics").goes, row("science").goes), (1, 2), "lower use goes first");
    let nodes = ana.inner.clone().list_nodes(ana.ask(v1::ListNodesRequest { read: None })).await.unwrap();
    let node = nodes.into_inner().nodes.into_iter().find(|node| node.name == "node-1").unwrap();
    assert_eq!((node.gpus, node.idle, node.changing), (4, 4, 0));
}

/// The decision that placed it can be explained afterwards, and its events can be read from any replica.
async fn check_story(ana: &Client, job: u32) {
    let ask = |subject: String| ana.ask(v1::ExplainRequest { read: None, subject, futures: Some(0) });
    let why = ana.inner.clone().explain(ask(job.to_string())).await.unwrap().into_inner();
    assert_eq!((why.state.as_str(), why.reason.as_str()), ("ended", "ended.completed"));
    let decision = why.decision.expect("its decision is kept");
    let why = ana.inner.clone().explain(ask(decision.clone())).await.unwrap().into_inner();
    assert_eq!((why.job, why.decision), (Some(job), Some(decision)));
    let events = v1::EventsRequest { after: Some(0), job: Some(job), ..v1::EventsRequest::default() };
    let events = ana.inner.clone().events(ana.ask(events)).await.unwrap().into_inner();
    let kinds: Vec<String> = events.map(|event| event.unwrap().kind).collect().await;
    assert_eq!(kinds, ["job.submitted", "job.placed", "job.started", "job.ended"]);
}

#[test]
fn same_request_at_two_replicas_is_one_job_and_another_body_a_conflict() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let (one, other) = (lab.client(0, "ana-token").await, lab.client(1, "ana-token").await);
        let mark = one.mark().await;
        let call = |client: &Client, gpus| {
            let (request, mut inner) = (submission(mark.clone(), "science", gpus), client.inner.clone());
            let request = client.ask(request);
            async move { inner.submit(request).await }
        };
        let (first, second) = tokio::join!(call(&one, 2), call(&other, 2));
        let (first, second) = (first.unwrap().into_inner(), second.unwrap().into_inner());
        assert_eq!(first.job, second.job);
        let conflict = call(&other, 3).await.unwrap_err();
        assert_eq!(conflict.code(), tonic::Code::Aborted);
        assert_eq!(crate::support::refusal(&conflict).code, 1501);
        let list = v1::ListJobsRequest::default();
        let jobs = one.inner.clone().list_jobs(one.ask(list)).await.unwrap().into_inner().jobs;
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].state, "waiting");
        assert!(!jobs[0].reason.is_empty());
    });
}

#[test]
fn queue_is_in_the_order_of_use_and_a_waiting_job_is_cancelled_at_once() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let node = join(&lab, "node-1").await;
        let mut agent = link(&lab, &node, 4).await;
        let (ana, ben) = (lab.client(0, "ana-token").await, lab.client(1, "ben-token").await);
        let running = ana.submit("science", 4).await.unwrap().job;
        agent.set("the first job", |set| set.items.len() == 1).await;
        let waits = ana.submit("science", 4).await.unwrap().job;
        let goes_first = ben.submit("robotics", 4).await.unwrap().job;
        let queue = ben.inner.clone().queue(ben.ask(v1::QueueRequest::default())).await.unwrap().into_inner();
        let waiting: Vec<_> = queue.rows.iter().filter(|row| row.place > 0).map(|row| row.job).collect();
        assert_eq!(waiting, [goes_first, waits], "science has set aside four GPUs already: {queue:?}");
        assert!(queue.rows.iter().any(|row| row.job == running && row.reason.starts_with("starting.")));

        let foreign = v1::CancelRequest { mark: Some(ben.mark().await), job: waits, ..Default::default() };
        let refused = ben.inner.clone().cancel(ben.ask(foreign)).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        let own = v1::CancelRequest { mark: Some(ana.mark().await), job: waits, ..Default::default() };
        let done = ana.inner.clone().cancel(ana.ask(own)).await.unwrap().into_inner();
        assert_eq!(done.state, "ended");
        let own = v1::CancelRequest { mark: Some(ana.mark().await), job: running, ..Default::default() };
        let done = ana.inner.clone().cancel(ana.ask(own)).await.unwrap().into_inner();
        assert_eq!(done.state, "stopping");
        let set = agent.set("the stop", |set| !set.items.is_empty()).await;
        assert!(matches!(set.items[0].order, Some(v1::assignment::Order::Stop(_))), "{set:?}");
    });
}

#[test]
fn live_jobs_are_listed_a_page_at_a_time_and_none_twice_or_never() {
    alone(|lock| async {
        let lab = Lab::founded(lock).await;
        let ana = lab.client(0, "ana-token").await;
        let mut jobs = Vec::new();
        for _ in 0..5 {
            jobs.push(ana.submit("science", 1).await.unwrap().job);
        }
        jobs.reverse();
        let (mut seen, mut left) = (Vec::new(), Vec::new());
        let mut request = v1::ListJobsRequest { limit: 2, ..v1::ListJobsRequest::default() };
        for _ in &jobs {
            let page = ana.inner.clone().list_jobs(ana.ask(request.clone())).await.unwrap().into_inner();
            seen.extend(page.jobs.iter().map(|job| job.job));
            left.push(page.left_out);
            let Some(next) = page.next else { break };
            request.from = Some(next);
        }
        assert_eq!((seen, left), (jobs, vec![3, 1, 0]));
        request.from = Some("somewhere".into());
        let refused = ana.inner.clone().list_jobs(ana.ask(request)).await.unwrap_err();
        assert!(refused.message().contains("from"), "{refused:?}");
    });
}
