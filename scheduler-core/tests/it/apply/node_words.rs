//! What operators say about nodes: cordon and drain, who leaves when, and what it costs.

use scheduler_core::agent::{EndedBy, Order, RankEvent, assignments};
use scheduler_core::apply::next_change;
use scheduler_core::bill::BillCause;
use scheduler_core::command::{Code, Command, DrainNode, NodeWord};
use scheduler_core::decision::Dropped;
use scheduler_core::id::{AttemptId, AttemptNo, JobId, NodeId};
use scheduler_core::job::{End, Exit, HeldBy, Phase, StopCause};
use scheduler_core::ledger::Class;
use scheduler_core::lifecycle::drain::concerns;
use scheduler_core::node::{Cordon, Urgency};
use scheduler_core::state::Timer;
use scheduler_core::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

use super::gangs::gang;
use super::taking::share;
use crate::world::{World, ended, name, person, request};

fn word(node: NodeId, reason: &str) -> NodeWord {
    NodeWord { node, reason: String::from(reason) }
}

fn order(node: NodeId, urgency: Urgency, begins_at: Option<Timestamp>) -> DrainNode {
    DrainNode { node, urgency, begins_at, reason: String::from("a retired page") }
}

fn drain(world: &mut World, node: NodeId, urgency: Urgency) {
    world.must(person("ada"), Command::Drain(order(node, urgency, None)));
}

fn count(world: &World, class: Class) -> u32 {
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    pool.in_class(class, world.now).count.get()
}

/// A protected job runs on one of two GPUs, since a minute.
fn running() -> (World, NodeId, AttemptId) {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_mins(1));
    (world, node, attempt)
}

fn drained(world: &World, attempt: AttemptId) -> Option<(Timestamp, Span, Span)> {
    let stop = world.attempt(attempt).stop.as_ref()?;
    match &stop.cause {
        StopCause::Drain { cuts, .. } => Some((stop.at, stop.grace, *cuts)),
        other => panic!("it is stopped for {other:?}"),
    }
}

#[test]
fn operators_alone_say_such_things_and_say_why() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    for command in [Command::Cordon, Command::Uncordon, Command::Undrain] {
        assert_eq!(world.refused(person("eve"), command(word(node, "so"))), Code::NotAllowed);
        assert_eq!(world.refused(person("ada"), command(word(NodeId::new(99), "so"))), Code::NotFound);
    }
    assert_eq!(world.refused(person("ada"), Command::Cordon(word(node, " "))), Code::BadSpec);
    assert_eq!(
        world.refused(person("eve"), Command::Drain(order(node, Urgency::Now, None))),
        Code::NotAllowed
    );
    let silent = DrainNode { reason: String::new(), ..order(node, Urgency::Normal, None) };
    assert_eq!(world.refused(person("ada"), Command::Drain(silent)), Code::BadSpec);
    let late = order(node, Urgency::Deadline(world.now), None);
    assert_eq!(world.refused(person("ada"), Command::Drain(late)), Code::BadSpec);
    let soon = world.now.plus(Span::from_hours(1));
    let begins_after = order(node, Urgency::Deadline(soon), Some(soon.plus(Span::from_secs(1))));
    assert_eq!(world.refused(person("ada"), Command::Drain(begins_after)), Code::BadSpec);
    let far = order(node, Urgency::Normal, Some(world.now.plus(Span::from_hours(9_000))));
    assert_eq!(world.refused(person("ada"), Command::Drain(far)), Code::BadSpec);
}

#[test]
fn a_cordoned_node_gets_no_work_and_keeps_what_it_has() {
    let (mut world, node, attempt) = running();
    world.must(person("ada"), Command::Cordon(word(node, "a fan")));
    let cordon = Cordon { who: Some(name("ada")), reason: String::from("a fan"), since: world.now };
    assert_eq!(world.state.nodes.get(&node).expect("known").cordon, Some(cordon));
    assert_eq!((count(&world, Class::Idle), count(&world, Class::Unavailable)), (0, 1));
    let job = world.submit("bob", request(1));
    let one = AttemptNo::new(1);
    assert_eq!(world.try_place(job, one, node, &[1]), Some(Dropped::NodeNotReady));
    world.wait(Span::from_hours(2)).exit(node, attempt, 0);
    world.report(node, attempt, RankEvent::Freed);
    assert_eq!(count(&world, Class::Unavailable), 2);
    world.must(person("ada"), Command::Uncordon(word(node, "")));
    assert_eq!(count(&world, Class::Idle), 2);
    assert_eq!(world.try_place(job, one, node, &[1]), None);
}

#[test]
fn an_uncordon_ends_the_back_off_after_failed_launches_too() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, crate::world::launch_failed(scheduler_core::agent::Fault::Node));
    world.report(node, attempt, RankEvent::Freed);
    world.must(person("ada"), Command::Uncordon(word(node, "the disk is new")));
    let record = world.state.nodes.get(&node).expect("known");
    assert_eq!((record.backoff_until, record.failed_launches), (None, 0));
    assert_eq!(world.try_place(job, AttemptNo::new(2), node, &[0]), None);
}

#[test]
fn what_cannot_be_ended_closes_its_node_until_an_operator_opens_it() {
    let (mut world, node, attempt) = running();
    world.cancel("bob", attempt.job, "").expect("it is bob's");
    world.wait(Span::from_secs(95));
    world.report(node, attempt, RankEvent::Unkillable { what: String::from("pid 7 in D state") });
    assert!(matches!(world.phase(attempt.job), Phase::Ended { end: End::Cancelled, .. }));
    assert_eq!(world.job(attempt.job).charged, ChargeMillis::of(MilliGpus::new(1_000), Span::from_secs(155)));
    assert_eq!((count(&world, Class::Overhead), count(&world, Class::Unavailable)), (1, 1));
    let record = world.state.nodes.get(&node).expect("known");
    let cordon = record.cordon.clone().expect("the control plane closed it");
    assert_eq!(cordon.who, None);
    assert!(cordon.reason.contains("pid 7 in D state"), "{}", cordon.reason);
    world.wait(Span::from_hours(1)).report(node, attempt, RankEvent::Freed);
    assert_eq!(count(&world, Class::Unavailable), 2, "the cordon stays");
    world.must(person("ada"), Command::Uncordon(word(node, "rebooted")));
    assert_eq!(count(&world, Class::Idle), 2);
}

#[test]
fn what_cannot_be_ended_after_its_notice_was_preempted() {
    let (mut world, node, attempt) = running();
    world.wait(Span::from_hours(1));
    let taker = world.submit("bob", {
        let mut asked = request(1);
        asked.budget = String::from("lang/pre");
        asked
    });
    let placed = world.start(taker, &[(node, &[0])], &[(attempt, share())]);
    world.wait(Span::from_secs(180));
    world.report(node, attempt, RankEvent::Unkillable { what: String::from("pid 7") });
    assert!(world.phase(attempt.job).is_waiting());
    assert_eq!(world.attempt(placed).go_at, None, "its GPU is not proven empty");
    world.now = world.attempt(placed).start_by;
    world.submit("bob", request(1));
    assert!(world.phase(taker).is_waiting());
    let bill = world.state.bills.values().next().expect("it was preempted");
    assert_eq!(bill.is_wasted, Some(true));
}

#[test]
fn on_a_drained_node_each_job_leaves_when_its_protection_ends() {
    let (mut world, node, attempt) = running();
    drain(&mut world, node, Urgency::Normal);
    assert_eq!(drained(&world, attempt), None);
    assert_eq!(count(&world, Class::Unavailable), 1);
    let until = world.attempt(attempt).protected_until().expect("it has started");
    assert_eq!(next_change(&world.state), Some(until));
    world.now = until.plus(Span::from_millis(1));
    world.submit("bob", request(1));
    assert_eq!(drained(&world, attempt), Some((until, Span::from_secs(120), Span::ZERO)));
    assert!(matches!(assignments(&world.state, node)[0].order, Order::Stop { has_notice: true, .. }));
    world.wait(Span::from_secs(9)).report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
    assert!(world.phase(attempt.job).is_waiting());
    world.report(node, attempt, RankEvent::Freed);
    assert_eq!(count(&world, Class::Unavailable), 2);
    let bill = world.state.bills.values().next().expect("it gave way");
    assert_eq!((bill.cause, bill.taken_for), (BillCause::Drain, None));
    world.must(person("ada"), Command::Undrain(word(node, "")));
    assert_eq!(count(&world, Class::Idle), 2);
}

#[test]
fn what_is_not_protected_leaves_at_once_and_what_has_no_go_waits_again() {
    let mut world = World::new();
    let nodes = [world.node("n1", 2), world.node("n2", 1)];
    let mut asked = request(1);
    asked.min_runtime = Some(Span::ZERO);
    asked.resumable = Some(false);
    let free = world.submit("bob", asked);
    let attempt = world.place(free, nodes[0], &[0]);
    world.report(nodes[0], attempt, RankEvent::Started);
    let mut asked = gang(2, 1);
    asked.resumable = Some(false);
    let waits = world.submit("bob", asked);
    world.start(waits, &[(nodes[0], &[1]), (nodes[1], &[0])], &[]);
    drain(&mut world, nodes[0], Urgency::Normal);
    assert_eq!(drained(&world, attempt), Some((world.now, Span::from_secs(15), Span::ZERO)));
    assert!(world.phase(waits).is_waiting(), "it never had a process");
    assert_eq!((count(&world, Class::Idle), count(&world, Class::Unavailable)), (1, 1));
    world.report(nodes[0], attempt, ended(Exit::Code(0), EndedBy::Notice));
    assert!(matches!(world.phase(free), Phase::Ended { end: End::Preempted, .. }), "it does not resume");
}

#[test]
fn protection_that_an_operator_cuts_is_taken_off_the_charge() {
    let (mut world, node, attempt) = running();
    drain(&mut world, node, Urgency::Now);
    let cuts = Span::from_mins(59);
    assert_eq!(drained(&world, attempt), Some((world.now, Span::from_secs(120), cuts)));
    world.wait(Span::from_secs(60)).report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
    assert!(world.phase(attempt.job).is_waiting());
    assert_eq!(world.job(attempt.job).charged, ChargeMillis::ZERO, "more was cut than it had");
    let bill = world.state.bills.values().next().expect("it gave way");
    assert_eq!(bill.cause, BillCause::Operator);
    // Occupancy stays what it was.
    let job = world.job(attempt.job);
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    let occupied = pool.in_class(Class::Occupied { budget: job.budget, tier: job.terms.tier }, world.now);
    assert_eq!(occupied.time.get(), 120_000);
}

#[test]
fn what_is_cut_is_taken_off_and_no_more() {
    let (mut world, node, attempt) = running();
    world.wait(Span::from_mins(49));
    drain(&mut world, node, Urgency::Now);
    world.wait(Span::from_secs(60)).report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
    // 51 minutes, less the ten that were left of its hour.
    let charged = ChargeMillis::of(MilliGpus::new(1_000), Span::from_mins(41));
    assert_eq!(world.job(attempt.job).charged, charged);
}

#[test]
fn before_a_deadline_what_is_left_gets_its_notice_a_grace_ahead() {
    let (mut world, node, attempt) = running();
    let deadline = world.now.plus(Span::from_mins(30));
    drain(&mut world, node, Urgency::Deadline(deadline));
    let notice = deadline.minus(Span::from_secs(120));
    assert_eq!(next_change(&world.state), Some(notice));
    world.now = notice.minus(Span::from_millis(1));
    world.submit("bob", request(1));
    assert_eq!(drained(&world, attempt), None);
    world.now = notice;
    world.submit("bob", request(1));
    let left = world.attempt(attempt).protected_until().expect("it has started").since(notice);
    assert_eq!(drained(&world, attempt), Some((notice, Span::from_secs(120), left)));
}

#[test]
fn a_deadline_shorter_than_the_grace_is_kept() {
    let (mut world, node, attempt) = running();
    let deadline = world.now.plus(Span::from_secs(20));
    drain(&mut world, node, Urgency::Deadline(deadline));
    let stop = world.attempt(attempt).stop.clone().expect("it is told at once");
    assert_eq!(stop.killed_at(), deadline);
}

#[test]
fn a_window_to_come_lets_work_in_that_is_certain_to_be_over() {
    let (mut world, node, attempt) = running();
    world.exit(node, attempt, 0);
    world.report(node, attempt, RankEvent::Freed);
    // An hour of protection and ten minutes to start.
    let begins_at = world.now.plus(Span::from_mins(70));
    world.must(person("ada"), Command::Drain(order(node, Urgency::Normal, Some(begins_at))));
    assert_eq!(count(&world, Class::Idle), 2);
    assert!(world.state.timers.contains(&(begins_at, Timer::Drain(node))));
    let (fits, late) = (world.submit("bob", request(1)), world.submit("bob", request(1)));
    let placed = world.place(fits, node, &[0]);
    let one = AttemptNo::new(1);
    world.wait(Span::from_millis(1));
    assert_eq!(world.try_place(late, one, node, &[1]), Some(Dropped::NodeNotReady));
    let mut asked = request(1);
    asked.min_runtime = Some(Span::ZERO);
    let free = world.submit("bob", asked);
    assert_eq!(world.try_place(free, one, node, &[1]), None, "it gives way at any time");
    world.report(node, placed, RankEvent::Started);
    world.now = begins_at;
    world.submit("bob", request(1));
    assert!(world.state.nodes.get(&node).expect("known").is_draining());
    assert!(drained(&world, placed).is_some() && drained(&world, AttemptId { job: free, no: one }).is_some());
}

#[test]
fn an_undrain_takes_back_what_has_not_begun_and_no_notice() {
    let (mut world, node, attempt) = running();
    let begins_at = world.now.plus(Span::from_hours(9));
    world.must(person("ada"), Command::Drain(order(node, Urgency::Normal, Some(begins_at))));
    world.must(person("ada"), Command::Undrain(word(node, "")));
    assert_eq!(world.state.nodes.get(&node).expect("known").drain, None);
    drain(&mut world, node, Urgency::Now);
    world.must(person("ada"), Command::Undrain(word(node, "the wrong node")));
    assert!(drained(&world, attempt).is_some(), "a notice is never taken back");
    let again = world.must(person("ada"), Command::Undrain(word(node, "")));
    assert_eq!(again, scheduler_core::command::Outcome::Done);
}

#[test]
fn a_drain_that_becomes_more_urgent_tells_those_that_stayed() {
    let (mut world, node, attempt) = running();
    drain(&mut world, node, Urgency::Normal);
    assert_eq!(drained(&world, attempt), None);
    let deadline = world.now.plus(Span::from_mins(9));
    drain(&mut world, node, Urgency::Deadline(deadline));
    assert_eq!(drained(&world, attempt), None);
    drain(&mut world, node, Urgency::Now);
    assert!(drained(&world, attempt).is_some());
}

#[test]
fn a_start_that_is_reported_after_its_protection_leaves_a_drained_node_at_once() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    let started = world.now;
    drain(&mut world, node, Urgency::Normal);
    world.wait(Span::from_hours(2)).report_at(node, attempt, RankEvent::Started, started);
    assert_eq!(drained(&world, attempt), Some((world.now, Span::from_secs(120), Span::ZERO)));
}

#[test]
fn jobs_that_never_get_to_a_new_checkpoint_are_held_until_released() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job: JobId = world.submit("bob", request(1));
    for round in 1..=4 {
        let attempt = world.place(job, node, &[0]);
        world.report(node, attempt, RankEvent::Started);
        if round == 1 {
            let saves =
                vec![scheduler_core::command::Saved { attempt, saved_at: Some(world.now), signed_at: None }];
            world.must(scheduler_core::principal::Actor::Agent(node), Command::Saves { node, saves });
        }
        drain(&mut world, node, Urgency::Now);
        world.report(node, attempt, ended(Exit::Code(0), EndedBy::Notice));
        world.report(node, attempt, RankEvent::Freed);
        world.must(person("ada"), Command::Undrain(word(node, "")));
        assert_eq!(world.phase(job).is_waiting(), round < 4, "round {round}");
    }
    let held = |world: &World| match world.phase(job) {
        Phase::Held { by, .. } => Some(by.clone()),
        _ => None,
    };
    assert_eq!(held(&world), Some(HeldBy::Barren { preemptions: 3 }));
    let release = scheduler_core::command::JobWord { job, reason: String::new() };
    world.must(person("bob"), Command::Release(release));
    assert!(world.phase(job).is_waiting());
    assert_eq!((world.job(job).progress.barren, world.job(job).progress.preemptions), (0, 4));
}

#[test]
fn an_empty_batch_is_enough_for_what_time_alone_changes() {
    let (mut world, node, attempt) = running();
    drain(&mut world, node, Urgency::Normal);
    assert!(concerns(&world.state, attempt));
    world.now = world.attempt(attempt).protected_until().expect("it has started");
    world.must(crate::world::REPLICA, Command::Batch(Vec::new()));
    assert!(drained(&world, attempt).is_some());
    assert!(!concerns(&world.state, attempt), "it leaves already");
}
