//! The lessons of PEERS 3 about agents and drains: what is reported, and when the next run of a job may begin.

use scheduler_core::agent::{
    Action, Agent, EndedBy, Event, Fault, Order, RankEvent, RankId, RankNews, Report, Token, assignments,
    full_set,
};
use scheduler_core::command::{Command, DrainNode, JobWord, NodeWord};
use scheduler_core::id::{AttemptId, ClusterId, JobId, NodeId, Rank};
use scheduler_core::job::{End, Exit, Phase};
use scheduler_core::node::Urgency;
use scheduler_core::principal::Actor;
use scheduler_core::spec::Request;
use scheduler_core::unit::Span;

use crate::rounds::round;
use crate::world::{World, attempt, ended, launch_failed, person, request};

fn rank_of(attempt: AttemptId) -> RankId {
    RankId { attempt, rank: Rank::new(0) }
}

/// What an agent wants sent.
fn sent(actions: Vec<Action>) -> Vec<(u64, Vec<Report>)> {
    let send = |action| match action {
        Action::Send { seq, reports } => Some((seq, reports)),
        _ => None,
    };
    actions.into_iter().filter_map(send).collect()
}

/// What a node is told to do about each run of a job.
fn orders(world: &World, node: NodeId, job: JobId) -> Vec<(u16, Order)> {
    let of_job = assignments(&world.state, node).into_iter().filter(|item| item.attempt.job == job);
    of_job.map(|item| (item.attempt.no.get(), item.order)).collect()
}

#[test]
fn lesson_20_an_end_is_reported_until_it_is_committed_and_counts_once() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let asked = request(2);
    let job = world.submit("bob", asked);
    let run = world.place(job, node, &[0, 1]);
    world.report(node, run, RankEvent::Started);

    // The agent starts anew and finds the run; its shim has written down that it ended meanwhile.
    let gpus = world.state.nodes.get(&node).expect("it joined").gpus.iter().map(|gpu| gpu.uuid.clone());
    let found = vec![(rank_of(run), gpus.collect())];
    let mut agent = Agent::start(ClusterId::new([7; 16]), Token::default(), found);
    world.wait(Span::from_mins(10));
    let at = world.now;
    let news = RankNews::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None };
    assert_eq!(sent(agent.handle(Event::Rank { id: rank_of(run), at, news }, at)), vec![]);
    let first = sent(agent.handle(Event::LinkUp, at));
    let (_, reports) = first[0].clone();

    // The link breaks after the leader had it committed, before anybody said so: all of it comes again.
    world.must(Actor::Agent(node), Command::Reports { node, reports: reports.clone() });
    let charged = world.job(job).charged;
    agent.handle(Event::LinkDown, at);
    world.wait(Span::from_mins(5));
    let again = sent(agent.handle(Event::LinkUp, world.now));
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1, reports);
    world.must(Actor::Agent(node), Command::Reports { node, reports });
    assert!(matches!(world.phase(job), Phase::Ended { at: ended, end: End::Completed, .. } if *ended == at));
    assert_eq!(world.job(job).charged, charged);

    // Once that is said, it comes no more; the set that names the run only wants its GPUs proven empty.
    agent.handle(Event::Acked { seq: again[0].0 }, world.now);
    let set = full_set(&world.state, node).expect("it is founded");
    assert!(set.items.iter().all(|item| item.order == Order::Clear));
    assert_eq!(sent(agent.handle(Event::Set(set), world.now)), vec![]);
}

#[test]
fn lesson_20_what_an_earlier_run_says_late_does_nothing_to_the_next() {
    let mut world = World::new();
    let (old, new) = (world.node("n1", 2), world.node("n2", 2));
    let job = world.submit("bob", request(1));
    let first = world.place(job, old, &[0]);
    world.report(old, first, RankEvent::Started);
    world.wait(Span::from_mins(1));
    world.must(person("bob"), Command::Requeue(JobWord { job, reason: String::new() }));
    world.report(old, first, ended(Exit::Code(0), EndedBy::Notice));
    world.report(old, first, RankEvent::Freed);
    let second = world.place(job, new, &[0]);
    world.report(new, second, RankEvent::Started);

    let before = (world.attempt(second).clone(), world.job(job).clone());
    world.wait(Span::from_secs(7));
    let late = [
        RankEvent::Ready,
        RankEvent::Started,
        ended(Exit::Signal(9), EndedBy::Stop),
        ended(Exit::Code(0), EndedBy::Itself),
        launch_failed(Fault::Node),
        RankEvent::Unkillable { what: String::from("it hangs") },
        RankEvent::Freed,
    ];
    for event in late {
        world.report(old, first, event.clone());
        // Nor does the node of the earlier run have a say over the later one.
        world.report(old, second, event);
    }
    assert_eq!((world.attempt(second).clone(), world.job(job).clone()), before);
    assert!(world.state.nodes.values().all(|node| node.cordon.is_none() && node.failed_launches == 0));
}

#[test]
fn lesson_20_a_stop_of_the_old_run_does_not_reach_the_new_one_on_the_same_node() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let job = world.submit("bob", request(1));
    let first = world.place(job, node, &[0]);
    world.report(node, first, RankEvent::Started);
    world.must(person("bob"), Command::Requeue(JobWord { job, reason: String::new() }));
    world.report(node, first, ended(Exit::Code(0), EndedBy::Notice));
    // Its processes are not proven gone; the next run has another GPU.
    let second = world.place(job, node, &[1]);
    assert_eq!(orders(&world, node, job), vec![(1, Order::Clear), (2, Order::Run)]);

    let gpu = |at: usize| world.state.nodes.get(&node).expect("it joined").gpus[at].uuid.clone();
    let found = vec![(rank_of(first), vec![gpu(0)]), (rank_of(second), vec![gpu(1)])];
    let mut agent = Agent::start(ClusterId::new([7; 16]), Token::default(), found);
    let set = full_set(&world.state, node).expect("it is founded");
    let stopped: Vec<RankId> = agent
        .handle(Event::Set(set), world.now)
        .into_iter()
        .filter_map(|action| if let Action::Stop { id, .. } = action { Some(id) } else { None })
        .collect();
    assert_eq!(stopped, vec![rank_of(first)]);
}

#[test]
fn lesson_23_who_is_drained_waits_and_its_next_run_waits_for_proof_that_the_old_one_is_gone() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let job = world.submit("bob", request(2));
    let first = world.place(job, node, &[0, 1]);
    world.report(node, first, RankEvent::Started);
    world.wait(Span::from_mins(61));
    let reason = String::from("a new driver");
    let drain = DrainNode { node, urgency: Urgency::Normal, begins_at: None, reason: reason.clone() };
    world.must(person("ada"), Command::Drain(drain));
    assert!(matches!(orders(&world, node, job)[..], [(1, Order::Stop { has_notice: true, .. })]));

    // It leaves; no other node could hold it, and it is not lost for that.
    world.wait(Span::from_secs(20));
    world.report(node, first, ended(Exit::Code(143), EndedBy::Notice));
    assert!(world.phase(job).is_waiting());
    assert_eq!(round(&mut world).decisions.len(), 0);

    // The node is back before the old run is proven gone: the next one is promised its GPUs, and nothing starts.
    world.must(person("ada"), Command::Undrain(NodeWord { node, reason }));
    assert_eq!(round(&mut world).decisions.len(), 1);
    assert_eq!(*world.phase(job), Phase::Live(attempt(job, 2).no));
    assert_eq!(orders(&world, node, job), vec![(1, Order::Clear), (2, Order::Prepare)]);
    assert_eq!(world.attempt(attempt(job, 2)).go_at, None);
    assert_eq!(round(&mut world).decisions.len(), 0);

    // With the proof it goes, once.
    world.wait(Span::from_secs(2));
    world.report(node, first, RankEvent::Freed);
    assert_eq!(orders(&world, node, job), vec![(2, Order::Run)]);
    assert_eq!(world.attempt(attempt(job, 2)).go_at, Some(world.now));
    world.report(node, first, RankEvent::Freed);
    world.report(node, attempt(job, 2), RankEvent::Started);
    let free = world.submit("bob", Request { min_runtime: Some(Span::ZERO), ..request(1) });
    assert_eq!(round(&mut world).decisions.len(), 0, "nothing is free for {free}");
    assert_eq!(world.state.attempts.len(), 1);
}

#[test]
fn lesson_23_an_undrain_takes_no_notice_back_and_starts_nothing_twice() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    let first = world.place(job, node, &[0]);
    world.report(node, first, RankEvent::Started);
    let reason = String::from("it smells");
    let drain = DrainNode { node, urgency: Urgency::Now, begins_at: None, reason: reason.clone() };
    world.must(person("ada"), Command::Drain(drain));
    world.must(person("ada"), Command::Undrain(NodeWord { node, reason }));
    assert!(matches!(orders(&world, node, job)[..], [(1, Order::Stop { .. })]));
    for _ in 0..3 {
        world.wait(Span::from_secs(10));
        assert_eq!(round(&mut world).decisions.len(), 0);
        assert_eq!(*world.phase(job), Phase::Live(first.no));
    }
    world.report(node, first, ended(Exit::Code(0), EndedBy::Notice));
    world.report(node, first, RankEvent::Freed);
    assert_eq!(round(&mut world).decisions.len(), 1);
    assert_eq!(orders(&world, node, job), vec![(2, Order::Run)]);
}

#[test]
fn also_seen_old_members_of_a_gang_do_nothing_to_its_next_attempt() {
    let mut world = World::new();
    let nodes = ["n1", "n2", "n3"].map(|of| world.node(of, 1));
    let mut asked = request(1);
    asked.shape.nodes = 2;
    let job = world.submit("bob", asked);
    let place = |world: &mut World, on: [NodeId; 2]| {
        assert_eq!(world.try_start(job, &[(on[0], &[0]), (on[1], &[0])], &[]), None);
        let id = attempt(job, world.job(job).next_attempt.get() - 1);
        for event in [RankEvent::Ready, RankEvent::Started] {
            for (rank, node) in (0..).zip(on) {
                say(world, node, id, rank, event.clone());
            }
        }
        id
    };
    let first = place(&mut world, [nodes[0], nodes[1]]);
    // n2 restarts: its member is gone, and so the whole gang; that on n1 leaves.
    world.wait(Span::from_mins(1));
    let facts = crate::world::facts("n2", "boot-2", 1);
    world.must(Actor::Agent(nodes[1]), Command::NodeFacts { node: nodes[1], facts });
    say(&mut world, nodes[0], first, 0, ended(Exit::Signal(9), EndedBy::Stop));
    assert!(world.phase(job).is_waiting(), "a lost node is not its fault");
    // The next attempt is on n2 and n3; n1 and n2 still say things of the first.
    say(&mut world, nodes[0], first, 0, RankEvent::Freed);
    let second = place(&mut world, [nodes[1], nodes[2]]);
    let before = (world.attempt(second).clone(), world.job(job).clone());
    world.wait(Span::from_secs(7));
    for (node, rank) in [(nodes[0], 0), (nodes[1], 1), (nodes[1], 0)] {
        for event in [RankEvent::Ready, ended(Exit::Code(1), EndedBy::Itself), RankEvent::Freed] {
            say(&mut world, node, first, rank, event);
        }
    }
    assert_eq!((world.attempt(second).clone(), world.job(job).clone()), before);
}

fn say(world: &mut World, node: NodeId, attempt: AttemptId, rank: u16, event: RankEvent) {
    let reports = vec![Report { attempt, rank: Rank::new(rank), at: world.now, event }];
    world.must(Actor::Agent(node), Command::Reports { node, reports });
}
