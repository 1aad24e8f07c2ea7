//! Attempts with several ranks: they go together, and end together.

use scheduler_core::agent::{EndedBy, Fault, Order, RankEvent, assignments};
use scheduler_core::command::Command;
use scheduler_core::id::{AttemptId, Generation, JobId, NodeId, Rank};
use scheduler_core::job::{AttemptEnd, End, Exit, Phase, StopCause};
use scheduler_core::ledger::Class;
use scheduler_core::node::{PORT_FIRST, PORT_LAST};
use scheduler_core::principal::Actor;
use scheduler_core::spec::Request;
use scheduler_core::unit::{ChargeMillis, MilliGpus, Span};

use super::taking::share;
use crate::world::{World, ended, facts, launch_failed, name, person, request};

fn count(world: &World, class: Class) -> u32 {
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    pool.in_class(class, world.now).count.get()
}

fn occupied(world: &World, job: JobId) -> u32 {
    let job = world.job(job);
    count(world, Class::Occupied { budget: job.budget, tier: job.terms.tier })
}

pub fn gang(nodes: u32, gpus: u32) -> Request {
    let mut asked = request(gpus);
    asked.shape.nodes = nodes;
    asked
}

/// A gang of three ranks, each with both GPUs of its node; every rank is ready.
fn gang_of_three() -> (World, [NodeId; 3], AttemptId) {
    let mut world = World::new();
    let nodes = [world.node("n1", 2), world.node("n2", 2), world.node("n3", 2)];
    let job = world.submit("bob", gang(3, 2));
    let on = nodes.map(|node| (node, &[0, 1][..]));
    let attempt = world.start(job, &on, &[]);
    (world, nodes, attempt)
}

fn each(world: &mut World, nodes: [NodeId; 3], attempt: AttemptId, event: &RankEvent) {
    for (rank, node) in (0..).zip(nodes) {
        world.rank(node, attempt, rank, event.clone());
    }
}

fn running() -> (World, [NodeId; 3], AttemptId) {
    let (mut world, nodes, attempt) = gang_of_three();
    each(&mut world, nodes, attempt, &RankEvent::Ready);
    world.wait(Span::from_secs(1));
    each(&mut world, nodes, attempt, &RankEvent::Started);
    (world, nodes, attempt)
}

#[test]
fn a_gang_goes_when_every_rank_is_ready_and_is_charged_from_there() {
    let (mut world, nodes, attempt) = gang_of_three();
    assert_eq!(count(&world, Class::Handover), 6);
    for (rank, node) in (0..).zip(nodes) {
        let items = assignments(&world.state, node);
        assert_eq!((&items[0].order, items[0].rank), (&Order::Prepare, Rank::new(rank)));
        assert_eq!(items[0].nodes, ["n1", "n2", "n3"].map(name));
        assert_eq!(items[0].port, Some(PORT_FIRST));
    }
    world.wait(Span::from_secs(2));
    world.rank(nodes[0], attempt, 0, RankEvent::Ready);
    world.rank(nodes[2], attempt, 2, RankEvent::Ready);
    world.rank(nodes[2], attempt, 2, RankEvent::Ready);
    assert_eq!(world.attempt(attempt).go_at, None);
    world.wait(Span::from_secs(2)).rank(nodes[1], attempt, 1, RankEvent::Ready);
    let went = world.now;
    assert_eq!((world.attempt(attempt).go_at, occupied(&world, attempt.job)), (Some(went), 6));
    let items = assignments(&world.state, nodes[1]);
    assert_eq!((&items[0].order, items[0].generation), (&Order::Run, Generation::new(2)));
    // Protection runs from the last rank's start.
    world.wait(Span::from_secs(1)).rank(nodes[0], attempt, 0, RankEvent::Started);
    world.wait(Span::from_secs(5)).rank(nodes[1], attempt, 1, RankEvent::Started);
    world.rank(nodes[2], attempt, 2, RankEvent::Started);
    assert_eq!(world.attempt(attempt).started_at, Some(world.now));
    world.wait(Span::from_secs(54));
    each(&mut world, nodes, attempt, &ended(Exit::Code(0), EndedBy::Itself));
    assert!(matches!(world.phase(attempt.job), Phase::Ended { end: End::Completed, .. }));
    let charged = ChargeMillis::of(MilliGpus::new(6_000), Span::from_secs(60));
    assert_eq!(world.job(attempt.job).charged, charged);
}

#[test]
fn the_ports_of_a_node_go_round() {
    let mut world = World::new();
    let nodes = [world.node("n1", 1), world.node("n2", 1)];
    let on = nodes.map(|node| (node, &[0][..]));
    for port in [PORT_FIRST, PORT_FIRST + 1] {
        let job = world.submit("bob", gang(2, 1));
        let attempt = world.start(job, &on, &[]);
        assert_eq!(world.attempt(attempt).port, Some(port));
        world.cancel("bob", job, "").expect("it is bob's");
    }
    world.state.nodes.get_mut(&nodes[0]).expect("known").next_port = PORT_LAST;
    for port in [PORT_LAST, PORT_FIRST] {
        let job = world.submit("bob", gang(2, 1));
        let attempt = world.start(job, &on, &[]);
        assert_eq!(world.attempt(attempt).port, Some(port));
        world.cancel("bob", job, "").expect("it is bob's");
    }
    let single = world.submit("bob", request(1));
    let attempt = world.place(single, nodes[0], &[0]);
    assert_eq!(world.attempt(attempt).port, None);
}

#[test]
fn a_rank_that_ends_well_early_keeps_its_gpus_until_the_others_have_ended() {
    let (mut world, nodes, attempt) = running();
    world.wait(Span::from_secs(10)).rank(nodes[1], attempt, 1, ended(Exit::Code(0), EndedBy::Itself));
    world.wait(Span::from_secs(1)).rank(nodes[1], attempt, 1, RankEvent::Freed);
    assert!(world.attempt(attempt).stop.is_none());
    assert_eq!(occupied(&world, attempt.job), 6, "a gang has its GPUs whole");
    assert!(assignments(&world.state, nodes[1]).is_empty(), "its agent has nothing to do any more");
    world.wait(Span::from_secs(10)).rank(nodes[0], attempt, 0, ended(Exit::Code(0), EndedBy::Itself));
    world.rank(nodes[2], attempt, 2, ended(Exit::Code(0), EndedBy::Itself));
    assert!(matches!(world.phase(attempt.job), Phase::Ended { end: End::Completed, .. }));
    assert_eq!((count(&world, Class::Idle), count(&world, Class::Overhead)), (2, 4), "free at once");
    world.rank(nodes[0], attempt, 0, RankEvent::Freed);
    world.rank(nodes[2], attempt, 2, RankEvent::Freed);
    assert_eq!(count(&world, Class::Idle), 6);
    assert!(world.state.attempts.is_empty());
}

#[test]
fn one_rank_that_ends_wrongly_ends_the_others_and_gives_the_cause() {
    let (mut world, nodes, attempt) = running();
    world.wait(Span::from_secs(10)).rank(nodes[1], attempt, 1, ended(Exit::Code(7), EndedBy::Itself));
    let stop = world.attempt(attempt).stop.clone().expect("the others are told to stop");
    assert_eq!((stop.cause, stop.grace), (StopCause::Rank { rank: Rank::new(1) }, Span::from_secs(10)));
    let order = assignments(&world.state, nodes[0])[0].order.clone();
    assert!(matches!(order, Order::Stop { has_notice: false, .. }), "{order:?}");
    assert!(matches!(world.phase(attempt.job), Phase::Live(_)));
    world.wait(Span::from_secs(3)).rank(nodes[0], attempt, 0, ended(Exit::Signal(15), EndedBy::Stop));
    world.wait(Span::from_secs(7)).rank(nodes[2], attempt, 2, ended(Exit::Signal(9), EndedBy::Stop));
    let end = world.attempt(attempt).ended.clone().expect("all ranks have ended");
    assert_eq!((end.at, end.cause, end.exit), (world.now, AttemptEnd::Exited, Some(Exit::Code(7))));
    assert!(matches!(world.phase(attempt.job), Phase::Ended { end: End::Failed, .. }));
}

#[test]
fn the_requeue_code_of_one_rank_is_that_of_the_gang() {
    let mut world = World::new();
    let nodes = [world.node("n1", 1), world.node("n2", 1)];
    let mut asked = gang(2, 1);
    asked.requeue_code = Some(75);
    let job = world.submit("bob", asked);
    let attempt = world.start(job, &nodes.map(|node| (node, &[0][..])), &[]);
    for (rank, node) in (0..).zip(nodes) {
        world.rank(node, attempt, rank, RankEvent::Ready);
    }
    for (rank, node) in (0..).zip(nodes) {
        world.rank(node, attempt, rank, RankEvent::Started);
        world.rank(node, attempt, rank, ended(Exit::Code(75), EndedBy::Itself));
    }
    assert!(world.phase(job).is_waiting());
}

#[test]
fn a_node_that_restarts_ends_its_rank_and_with_it_the_gang() {
    let (mut world, nodes, attempt) = running();
    let restarted = facts("n2", "boot-2", 2);
    world.wait(Span::from_secs(5));
    world.must(Actor::Agent(nodes[1]), Command::NodeFacts { node: nodes[1], facts: restarted });
    assert!(matches!(world.attempt(attempt).stop.as_ref().map(|s| &s.cause), Some(StopCause::Rank { .. })));
    assert_eq!(occupied(&world, attempt.job), 6);
    world.wait(Span::from_secs(4)).rank(nodes[0], attempt, 0, ended(Exit::Signal(9), EndedBy::Stop));
    world.rank(nodes[2], attempt, 2, ended(Exit::Signal(9), EndedBy::Stop));
    assert!(world.phase(attempt.job).is_waiting(), "it resumes");
    assert_eq!(world.attempt(attempt).ended.as_ref().map(|e| &e.cause), Some(&AttemptEnd::NodeLost));
    assert_eq!(count(&world, Class::Idle), 2);
}

#[test]
fn a_restart_before_the_go_asks_for_readiness_once_more() {
    let (mut world, nodes, attempt) = gang_of_three();
    world.rank(nodes[1], attempt, 1, RankEvent::Ready);
    let restarted = facts("n2", "boot-2", 2);
    world.must(Actor::Agent(nodes[1]), Command::NodeFacts { node: nodes[1], facts: restarted });
    world.rank(nodes[0], attempt, 0, RankEvent::Ready);
    world.rank(nodes[2], attempt, 2, RankEvent::Ready);
    assert_eq!(world.attempt(attempt).go_at, None);
    world.rank(nodes[1], attempt, 1, RankEvent::Ready);
    assert_eq!(world.attempt(attempt).go_at, Some(world.now));
}

#[test]
fn a_launch_that_one_node_fails_ends_the_gang_and_only_that_node_is_to_blame() {
    let (mut world, nodes, attempt) = gang_of_three();
    each(&mut world, nodes, attempt, &RankEvent::Ready);
    world.wait(Span::from_secs(1)).rank(nodes[0], attempt, 0, RankEvent::Started);
    world.rank(nodes[2], attempt, 2, launch_failed(Fault::Node));
    world.wait(Span::from_secs(5));
    world.rank(nodes[0], attempt, 0, ended(Exit::Signal(9), EndedBy::Stop));
    world.rank(nodes[1], attempt, 1, ended(Exit::Unknown, EndedBy::Stop));
    assert!(world.phase(attempt.job).is_waiting());
    assert_eq!(world.job(attempt.job).failed_on, [nodes[2]].into());
    assert_eq!(world.job(attempt.job).charged, ChargeMillis::ZERO);
    let backed_off = nodes.map(|node| world.state.nodes.get(&node).expect("known").backoff_until.is_some());
    assert_eq!(backed_off, [false, false, true]);
}

#[test]
fn before_its_go_a_failed_launch_ends_the_gang_at_once_and_frees_all_its_gpus() {
    let (mut world, nodes, attempt) = gang_of_three();
    world.rank(nodes[0], attempt, 0, RankEvent::Ready);
    world.rank(nodes[1], attempt, 1, launch_failed(Fault::Node));
    assert!(world.phase(attempt.job).is_waiting());
    assert!(world.state.attempts.is_empty());
    assert_eq!(count(&world, Class::Idle), 6, "the node that failed is backed off, not out of service");
    assert_eq!(world.job(attempt.job).failed_on, [nodes[1]].into());
}

#[test]
fn a_gang_that_is_never_ready_blames_who_was_not() {
    let (mut world, nodes, attempt) = gang_of_three();
    world.rank(nodes[0], attempt, 0, RankEvent::Ready);
    world.now = world.attempt(attempt).start_by;
    world.submit("bob", request(1));
    assert_eq!(world.job(attempt.job).failed_on, [nodes[1], nodes[2]].into());
    let past = &world.job(attempt.job).past[0];
    let what = AttemptEnd::LaunchFailedNode(String::from("not ready in time: n2, n3"));
    assert_eq!((past.go_at, &past.ended.cause), (None, &what));
}

#[test]
fn a_gang_that_lost_many_nodes_at_once_has_failed_once() {
    let (mut world, nodes, mut attempt) = gang_of_three();
    for failed in 1..=3 {
        world.now = world.attempt(attempt).start_by;
        world.submit("bob", request(1));
        let is_held = matches!(world.phase(attempt.job), Phase::Held { .. });
        assert_eq!(is_held, failed == 3, "after {failed} launches without a ready rank");
        if failed < 3 {
            world.wait(Span::from_mins(10));
            let on = nodes.map(|node| (node, &[0, 1][..]));
            attempt = world.start(attempt.job, &on, &[]);
        }
    }
}

#[test]
fn a_gang_that_gives_way_is_preempted_though_a_rank_fell_when_another_had_left() {
    let (mut world, nodes, attempt) = running();
    world.wait(Span::from_hours(2));
    let mut asked = request(1);
    asked.budget = String::from("lang/pre");
    let taker = world.submit("bob", asked);
    let placed = world.start(taker, &[(nodes[0], &[0])], &[(attempt, share())]);
    world.wait(Span::from_secs(1)).rank(nodes[1], attempt, 1, ended(Exit::Code(1), EndedBy::Itself));
    world.rank(nodes[0], attempt, 0, ended(Exit::Code(0), EndedBy::Notice));
    world.wait(Span::from_secs(1)).rank(nodes[2], attempt, 2, ended(Exit::Code(0), EndedBy::Notice));
    assert_eq!(world.attempt(attempt).ended.as_ref().map(|e| &e.cause), Some(&AttemptEnd::Preempted));
    assert!(world.phase(attempt.job).is_waiting());
    world.rank(nodes[0], attempt, 0, RankEvent::Freed);
    assert_eq!(world.attempt(placed).go_at, Some(world.now));
    assert_eq!(world.state.bills.values().map(|bill| bill.gpus).collect::<Vec<_>>(), [6]);
}

#[test]
fn a_cancel_before_the_go_ends_the_gang_at_once() {
    let (mut world, _, attempt) = gang_of_three();
    world.must(
        person("bob"),
        Command::Cancel(scheduler_core::command::Cancel {
            job: attempt.job,
            is_now: false,
            reason: String::new(),
        }),
    );
    assert!(matches!(world.phase(attempt.job), Phase::Ended { end: End::Cancelled, exit: None, .. }));
    assert_eq!((count(&world, Class::Idle), count(&world, Class::Handover)), (6, 0));
}
