//! What left state is still shown, listed, explained, billed and told, alike by each replica.

use proto::v1;
use proto::v1::assignment::Order;
use proto::v1::report::Event;
use tokio_stream::StreamExt as _;

use crate::support::{ADMIN, Agent, Client, Lab, alone, join, link, refusal, submission, until};

/// What happened before it left.
struct Story {
    /// A free-tier job of ana that gave way, and was cancelled.
    free: u32,
    /// The job of ben that took its GPUs, and completed.
    taker: u32,
    /// The decision that did it.
    decision: String,
    /// A moment before all of it.
    since: u64,
}

async fn submit(client: &Client, budget: &str, min_runtime_ms: u64) -> u32 {
    let mut request = submission(client.mark().await, budget, 2);
    request.job.as_mut().unwrap().min_runtime_ms = Some(min_runtime_ms);
    client.inner.clone().submit(client.ask(request)).await.unwrap().into_inner().job
}

async fn ordered(agent: &mut Agent, job: u32, is_it: fn(&Order) -> bool) -> v1::Assignment {
    let found = |set: &v1::Assignments| {
        let item = set.items.iter().find(|item| item.job == job && item.order.as_ref().is_some_and(is_it));
        item.cloned()
    };
    let set = agent.set("an order", |set| found(set).is_some()).await;
    found(&set).unwrap()
}

fn exited(by: v1::EndedBy) -> Event {
    let exit = Some(v1::Exit { exit: Some(v1::exit::Exit::Code(0)) });
    Event::Exited(v1::Exited { exit, by: by.into(), saved_at: None })
}

/// Lets a free-tier job give way to another one, and both end.
async fn live(lab: &Lab) -> Story {
    let joined = join(lab, "node-1").await;
    let mut agent = link(lab, &joined, 2).await;
    let (ana, ben) = (lab.client(0, "ana-token").await, lab.client(1, "ben-token").await);
    let since = agent.beat().await;
    let free = submit(&ana, "science", 0).await;
    let item = ordered(&mut agent, free, |order| matches!(order, Order::Run(_))).await;
    let at = agent.beat().await;
    agent.report(&item, at, Event::Started(v1::Started {})).await;
    ana.job_in(free, "running").await;
    let taker = submit(&ben, "robotics", 1_000).await;
    ordered(&mut agent, free, |order| matches!(order, Order::Stop(_))).await;
    let at = agent.beat().await;
    agent.report(&item, at, exited(v1::EndedBy::Notice)).await;
    agent.report(&item, at, Event::Freed(v1::Freed {})).await;
    let item = ordered(&mut agent, taker, |order| matches!(order, Order::Run(_))).await;
    let at = agent.beat().await;
    agent.report(&item, at, Event::Started(v1::Started {})).await;
    let decision = ben.job_in(taker, "running").await.attempts[0].decision.clone();

    let cancel = |reason: &str, mark| v1::CancelRequest {
        mark: Some(mark),
        job: free,
        now: false,
        reason: reason.into(),
    };
    let not_his = ben.ask(cancel("", ben.mark().await));
    assert!(ben.inner.clone().cancel(not_his).await.is_err(), "it is somebody else's");
    ana.inner.clone().cancel(ana.ask(cancel("wrong data", ana.mark().await))).await.unwrap();
    let at = agent.beat().await;
    agent.report(&item, at, exited(v1::EndedBy::Itself)).await;
    ordered(&mut agent, taker, |order| matches!(order, Order::Clear(_))).await;
    agent.report(&item, at, Event::Freed(v1::Freed {})).await;
    Story { free, taker, decision, since }
}

/// Writes a small entry: time goes on with entries.
async fn nudge(lab: &Lab, n: usize) {
    let at = lab.leader().await;
    let admin = lab.client(at, ADMIN).await;
    let word = v1::NodeWordRequest {
        mark: Some(admin.mark().await),
        name: "node-1".into(),
        reason: format!("a look at it, the {n}th"),
    };
    let mut control = admin.inner.clone();
    if n.is_multiple_of(2) {
        control.cordon_node(admin.ask(word)).await.unwrap();
    } else {
        control.uncordon_node(admin.ask(word)).await.unwrap();
    }
}

/// Waits until neither the jobs nor the bills are in state any more.
async fn forgotten(lab: &Lab) {
    let mut n = 0;
    until("a state that has forgotten", || {
        n += 1;
        async move {
            nudge(lab, n).await;
            let leader = lab.leader().await;
            let view = lab.replicas[leader].as_ref()?.shared().views.now();
            (view.state.jobs.is_empty() && view.state.bills.is_empty()).then_some(())
        }
    })
    .await;
}

async fn explain(client: &Client, subject: &str) -> v1::Explanation {
    let request = v1::ExplainRequest { read: None, subject: subject.into(), futures: Some(0) };
    client.inner.clone().explain(client.ask(request)).await.unwrap().into_inner()
}

async fn told(client: &Client, request: v1::EventsRequest) -> Vec<v1::EventView> {
    let events = client.inner.clone().events(client.ask(request)).await.unwrap().into_inner();
    events.map(Result::unwrap).collect().await
}

async fn listed(client: &Client, request: v1::ListJobsRequest) -> v1::JobList {
    client.inner.clone().list_jobs(client.ask(request)).await.unwrap().into_inner()
}

async fn asked(client: &Client, request: v1::AuditRequest) -> v1::AuditList {
    client.inner.clone().audit(client.ask(request)).await.unwrap().into_inner()
}

async fn check(lab: &Lab, at: usize, story: &Story) {
    let (ana, ben) = (lab.client(at, "ana-token").await, lab.client(at, "ben-token").await);
    check_job(&ana, &ben, story).await;
    check_list(&ben, story).await;
    check_audit(&ana, story).await;
    check_events(&ana, story).await;
    let request = v1::BillRequest { read: None, since_at: Some(1), by: "cause".into() };
    let bill = ben.inner.clone().bill(ben.ask(request)).await.unwrap().into_inner();
    assert_eq!((bill.rows.len(), bill.rows[0].key.as_str(), bill.rows[0].preemptions), (1, "free-tier", 1));
    let reach = bill.reach.expect("the history was asked");
    assert!(reach.missing.is_empty() && reach.kept_from_at.is_none(), "{reach:?}");
    assert_eq!(bill.total.unwrap().delivered_gpu_ms, None, "nobody knows what was delivered so long ago");
    let unknown = v1::ShowJobRequest { read: None, job: 9_999, task: None };
    let refused = ana.inner.clone().show_job(ana.ask(unknown)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);
    assert!(refusal(&refused).what.contains("never was a job 9999"), "{}", refusal(&refused).what);
}

async fn check_job(ana: &Client, ben: &Client, story: &Story) {
    let (free, taker) = (story.free, story.taker);
    let seen = ana.job(free).await;
    assert!(seen.left_at.is_some_and(|at| at >= seen.ended_at.unwrap()), "{seen:?}");
    assert_eq!((seen.state.as_str(), seen.end.as_deref()), ("ended", Some("cancelled")));
    assert!(seen.launch.is_some(), "it is hers");
    let cost = seen.attempts[0].cost.as_ref().expect("what giving way cost");
    assert_eq!(cost.taken_for.as_deref(), Some(format!("{taker}.1").as_str()));
    assert!(ben.job(free).await.launch.is_none(), "what runs is its user's own business");
    let why = explain(ben, &format!("{free}.1")).await;
    assert!(why.left_at.is_some() && why.cost.is_some(), "{why:?}");
    assert_eq!(why.taken.expect("to whom").right, "free-tier");
    let why = explain(ana, &taker.to_string()).await;
    assert_eq!((why.state.as_str(), why.reason.as_str()), ("ended", "ended.completed"));
    assert_eq!((why.victims.len(), why.victims[0].name.as_str()), (1, "train"));
    let decision = explain(ana, &story.decision).await;
    assert_eq!(decision.victims[0].attempt, format!("{free}.1"));
}

async fn check_list(ben: &Client, story: &Story) {
    let all = v1::ListJobsRequest { since_at: Some(story.since), ..v1::ListJobsRequest::default() };
    let list = listed(ben, all.clone()).await;
    let numbers = |list: &v1::JobList| list.jobs.iter().map(|job| job.job).collect::<Vec<_>>();
    assert_eq!(numbers(&list), [story.taker, story.free], "the last one to end first, each once");
    assert!(list.jobs.iter().all(|job| job.left_at.is_some()) && list.next.is_none(), "{list:?}");
    assert!(list.reach.as_ref().is_some_and(|reach| reach.missing.is_empty()), "{list:?}");
    let mine = v1::ListJobsRequest { user: Some("ana".into()), ..all.clone() };
    assert_eq!(numbers(&listed(ben, mine).await), [story.free]);
    let none = v1::ListJobsRequest { until_at: Some(story.since), since_at: Some(1), ..all.clone() };
    assert!(listed(ben, none).await.jobs.is_empty());
    let first = listed(ben, v1::ListJobsRequest { limit: 1, ..all.clone() }).await;
    assert_eq!(numbers(&first), [story.taker]);
    let rest = listed(ben, v1::ListJobsRequest { from: first.next.clone(), ..all }).await;
    assert_eq!((numbers(&rest), rest.next), (vec![story.free], None));
}

async fn check_audit(ana: &Client, story: &Story) {
    let about = v1::AuditRequest { job: Some(story.free), ..v1::AuditRequest::default() };
    let list = asked(ana, about.clone()).await;
    let said: Vec<_> = list.rows.iter().map(|row| (row.actor.as_str(), row.action.as_str())).collect();
    assert_eq!(said, [("ana", "job.cancel"), ("ben", "job.cancel"), ("ana", "job.submit")]);
    assert_eq!(list.rows[0].reason, "wrong data");
    assert!(list.rows[0].refused.is_none() && list.rows[1].refused.is_some(), "{list:?}");
    assert!(list.rows.iter().all(|row| row.via.is_some() && row.actor_kind == "user"), "{list:?}");
    let text = format!("{list:?}");
    assert!(
        !text.contains("secret-plan") && !text.contains("HIDDEN"),
        "arguments and environment are private"
    );
    let refused = asked(ana, v1::AuditRequest { refused: true, ..about.clone() }).await;
    assert_eq!(refused.rows.len(), 1);
    let first = asked(ana, v1::AuditRequest { limit: 2, ..about.clone() }).await;
    let rest = asked(ana, v1::AuditRequest { from: first.next.clone(), ..about }).await;
    assert_eq!([first.rows, rest.rows].concat(), list.rows);
    let request = v1::AuditRequest {
        actor: Some("root-admin".into()),
        action: Some("node".into()),
        node: Some("node-1".into()),
        ..v1::AuditRequest::default()
    };
    let words = asked(ana, request).await;
    assert!(words.rows.len() > 1 && words.rows.iter().all(|row| row.actor_kind == "operator"), "{words:?}");
    assert!(words.rows.windows(2).all(|pair| pair[0].index > pair[1].index), "newest first");
}

async fn check_events(ana: &Client, story: &Story) {
    let request = v1::EventsRequest {
        since_at: Some(story.since),
        job: Some(story.free),
        ..v1::EventsRequest::default()
    };
    let kinds: Vec<_> = told(ana, request).await.into_iter().map(|event| event.kind).collect();
    let expected = [
        "job.submitted",
        "job.placed",
        "job.started",
        "job.preempting",
        "job.preempted",
        "job.requeued",
        "job.held",
        "job.cancel",
        "job.ended",
    ];
    assert_eq!(kinds, expected);
    let all = told(ana, v1::EventsRequest { after: Some(0), ..v1::EventsRequest::default() }).await;
    let places: Vec<_> = all.iter().map(|event| (event.index, event.n)).collect();
    assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
    assert_eq!(all[0].kind, "cluster.founded");
    assert!(all.iter().all(|event| event.kind != "resync"));
}

#[test]
fn what_left_state_is_answered_by_each_replica_also_after_a_restart_and_a_snapshot() {
    alone(|lock| async {
        let settings = [("keep_ended", 100), ("window", 2_000)];
        let mut lab = Lab::founded_as(lock, &settings, |config| config.snapshot_every = 32).await;
        let story = live(&lab).await;
        let away = lab.follower().await;
        lab.replicas[away].take().unwrap().stop().await;
        forgotten(&lab).await;
        // More than the log keeps: the replica that was away gets a snapshot.
        for n in 0..100 {
            nudge(&lab, n).await;
        }
        for at in (0..3).filter(|at| *at != away) {
            check(&lab, at, &story).await;
        }
        lab.restart(away).await;
        lab.settled().await;
        check(&lab, away, &story).await;
        for at in 0..3 {
            lab.replicas[at].take().unwrap().stop().await;
        }
        for at in 0..3 {
            lab.restart(at).await;
        }
        lab.settled().await;
        for at in 0..3 {
            check(&lab, at, &story).await;
        }
    });
}

/// Removes the sealed files of a stopped replica's history.
fn lose_history(lab: &Lab, at: usize) {
    let mut lost = 0;
    for file in std::fs::read_dir(lab.configs[at].data.join("history")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "seg") {
            std::fs::remove_file(path).unwrap();
            lost += 1;
        }
    }
    assert!(lost > 0, "something was sealed");
}

#[test]
fn what_one_replica_lost_others_answer_and_what_all_lost_is_called_missing() {
    alone(|lock| async {
        let settings = [("keep_ended", 100), ("window", 2_000)];
        let change = |config: &mut server::Config| (config.snapshot_every, config.history_window) = (32, 16);
        let mut lab = Lab::founded_as(lock, &settings, change).await;
        let story = live(&lab).await;
        forgotten(&lab).await;
        for n in 0..100 {
            nudge(&lab, n).await;
        }
        let one = lab.follower().await;
        lab.replicas[one].take().unwrap().stop().await;
        lose_history(&lab, one);
        lab.restart(one).await;
        lab.settled().await;
        check(&lab, one, &story).await;

        for at in 0..3 {
            lab.replicas[at].take().unwrap().stop().await;
            lose_history(&lab, at);
        }
        for at in 0..3 {
            lab.restart(at).await;
        }
        lab.settled().await;
        for at in 0..3 {
            check_missing(&lab, at, &story).await;
        }
    });
}

async fn check_missing(lab: &Lab, at: usize, story: &Story) {
    let ana = lab.client(at, "ana-token").await;
    let request = v1::ShowJobRequest { read: None, job: story.free, task: None };
    let refused = ana.inner.clone().show_job(ana.ask(request)).await.unwrap_err();
    let said = refusal(&refused);
    assert!(said.what.contains("its part of the history is missing"), "{said:?}");
    let is_told = |reach: Option<v1::Reach>| {
        let missing = reach.expect("the history was asked").missing;
        assert!(missing.len() == 1 && missing[0].first_index < missing[0].last_index, "{missing:?}");
        assert!(missing[0].to_at.is_some() || missing[0].from_at.is_some(), "{missing:?}");
    };
    let all = v1::ListJobsRequest { since_at: Some(story.since), ..v1::ListJobsRequest::default() };
    let list = listed(&ana, all).await;
    assert!(list.jobs.is_empty());
    is_told(list.reach);
    is_told(asked(&ana, v1::AuditRequest::default()).await.reach);
    let request = v1::BillRequest { read: None, since_at: Some(1), by: "cause".into() };
    is_told(ana.inner.clone().bill(ana.ask(request)).await.unwrap().into_inner().reach);
    let all = told(&ana, v1::EventsRequest { after: Some(0), ..v1::EventsRequest::default() }).await;
    assert_eq!(all.iter().filter(|event| event.kind == "resync").count(), 1);
    assert!(
        all[0].sentence.contains("is missing") && all[0].sentence.contains("complete again"),
        "{:?}",
        all[0]
    );
    assert!(all.len() > 1, "what came later is there");
}
