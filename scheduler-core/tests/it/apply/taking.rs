//! One job takes the GPUs of another: who gives way and when, what is promised meanwhile, and when the taker goes.

use scheduler_core::agent::{EndedBy, Fault, Order, RankEvent, assignments};
use scheduler_core::command::{Command, Outcome};
use scheduler_core::decision::{Dropped, Right, UseOf};
use scheduler_core::id::{AttemptId, Generation, JobId, NodeId, Slot};
use scheduler_core::job::{AttemptEnd, End, Exit, HeldBy, Phase, StopCause};
use scheduler_core::ledger::Class;
use scheduler_core::spec::{Tier, Turn};
use scheduler_core::unit::{ChargeMillis, Span};

use crate::world::{REPLICA, World, ended, launch_failed, name, plan, request};

pub fn share() -> Right {
    let zero = ChargeMillis::ZERO;
    let side =
        UseOf { budget: scheduler_core::budget::ROOT, charged: zero, set_aside: zero, allocation: zero };
    Right::Share { mine: side, theirs: side }
}

fn count(world: &World, class: Class) -> u32 {
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    pool.in_class(class, world.now).count.get()
}

fn occupied(world: &World, job: JobId) -> u32 {
    let job = world.job(job);
    count(world, Class::Occupied { budget: job.budget, tier: job.terms.tier })
}

fn gpu(world: &World, node: NodeId, slot: usize) -> (Option<AttemptId>, Option<AttemptId>) {
    let gpu = &world.state.nodes.get(&node).expect("known").gpus[slot];
    (gpu.holder, gpu.next)
}

/// A job of `lang/pre` runs on all four GPUs of a node and is past its protection; one of `lang/post` waits.
fn victim_and_taker() -> (World, NodeId, AttemptId, JobId) {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let mut asked = request(4);
    asked.budget = String::from("lang/pre");
    let victim = world.submit("bob", asked);
    let attempt = world.place(victim, node, &[0, 1, 2, 3]);
    world.wait(Span::from_secs(1)).report(node, attempt, RankEvent::Started);
    world.wait(Span::from_hours(1));
    let taker = world.submit("bob", request(2));
    (world, node, attempt, taker)
}

#[test]
fn who_is_taken_gets_a_notice_and_the_taker_goes_when_its_gpus_are_proven_empty() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let attempt = world.start(taker, &[(node, &[0, 1])], &[(victim, share())]);
    let stop = world.attempt(victim).stop.clone().expect("it is told to leave");
    assert!(matches!(&stop.cause, StopCause::Preempt(taken) if taken.by == attempt));
    assert_eq!((stop.at, stop.grace), (world.now, Span::from_secs(120)));
    assert_eq!(gpu(&world, node, 0), (Some(victim), Some(attempt)));
    assert_eq!(gpu(&world, node, 2), (Some(victim), None));
    let placed = world.attempt(attempt).clone();
    assert_eq!((placed.go_at, placed.latest_go), (None, world.now.plus(Span::from_secs(120))));
    assert_eq!(placed.start_by, placed.latest_go.plus(Span::from_mins(10)));
    let orders: Vec<Order> =
        assignments(&world.state, node).into_iter().map(|assignment| assignment.order).collect();
    assert!(matches!(&orders[..], [Order::Stop { has_notice: true, .. }, Order::Prepare]), "{orders:?}");

    // It saves and leaves; until its GPUs are proven empty they are nobody else's.
    world.wait(Span::from_secs(20));
    world.report(node, victim, ended(Exit::Code(0), EndedBy::Notice));
    assert!(world.phase(victim.job).is_waiting());
    assert_eq!((count(&world, Class::Overhead), count(&world, Class::Handover)), (4, 0));
    world.wait(Span::from_secs(2)).report(node, victim, RankEvent::Freed);
    let went = world.attempt(attempt);
    assert_eq!((went.go_at, went.placements[0].generation), (Some(world.now), Generation::new(2)));
    assert_eq!(gpu(&world, node, 0), (Some(attempt), None));
    assert_eq!((occupied(&world, taker), count(&world, Class::Idle)), (2, 2));
    assert_eq!(assignments(&world.state, node)[0].order, Order::Run);
    // The victim paid for its grace, the taker for nothing before its go.
    let whole = Span::from_hours(1).plus(Span::from_secs(21));
    assert_eq!(world.job(victim.job).charged, ChargeMillis::of(placed_rate(4), whole));
    world.wait(Span::from_secs(3)).report(node, attempt, RankEvent::Started);
    world.exit(node, attempt, 0);
    assert_eq!(world.job(taker).charged, ChargeMillis::of(placed_rate(2), Span::from_secs(3)));
    assert_eq!(world.replayed().digest(), world.state.digest());
}

fn placed_rate(gpus: u64) -> scheduler_core::unit::MilliGpus {
    scheduler_core::unit::MilliGpus::new(gpus * 1_000)
}

#[test]
fn who_is_protected_is_not_taken() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let mut asked = request(2);
    asked.budget = String::from("lang/pre");
    let victim = world.submit("bob", asked);
    let attempt = world.place(victim, node, &[0, 1]);
    let taker = world.submit("bob", request(1));
    let takes = [(attempt, share())];
    assert_eq!(
        world.try_start(taker, &[(node, &[0])], &takes),
        Some(Dropped::VictimProtected),
        "not started"
    );
    world.wait(Span::from_secs(9)).report(node, attempt, RankEvent::Started);
    world.wait(Span::from_millis(3_599_999));
    assert_eq!(world.try_start(taker, &[(node, &[0])], &takes), Some(Dropped::VictimProtected));
    assert!(world.attempt(attempt).stop.is_none());
    world.wait(Span::from_millis(1));
    assert_eq!(world.try_start(taker, &[(node, &[0])], &takes), None);
}

#[test]
fn a_victim_that_changed_since_drops_the_decision_alone() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let other = world.submit("bob", request(1));
    let mut stale = world.start_of(taker, &[(node, &[0, 1])], &[(victim, share())]);
    stale.takes[0].generation = Generation::new(7);
    let good = world.start_of(other, &[(node, &[2])], &[(victim, share())]);
    let answer = world.must(REPLICA, Command::Adopt(plan(vec![stale, good])));
    assert_eq!(answer, Outcome::Adopted { adopted: 1, dropped: vec![(0, Dropped::VictimChanged)] });
    // Who stops already is not taken again; its GPUs come free anyway.
    let takes = [(victim, share())];
    assert_eq!(world.try_start(taker, &[(node, &[0, 1])], &takes), Some(Dropped::VictimChanged));
    assert_eq!(world.try_start(taker, &[(node, &[2, 3])], &[]), Some(Dropped::GpuTaken), "2 is promised");
    assert_eq!(world.try_start(taker, &[(node, &[0, 1])], &[]), None);
    let gone = [(AttemptId { job: JobId::new(77), ..victim }, share())];
    let third = world.submit("bob", request(1));
    assert_eq!(world.try_start(third, &[(node, &[3])], &gone), Some(Dropped::VictimChanged));
}

#[test]
fn the_surplus_of_a_victim_goes_to_the_next_in_the_same_plan() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let next = world.submit("bob", request(2));
    let first = world.start_of(taker, &[(node, &[0, 1])], &[(victim, share())]);
    let second = world.start_of(next, &[(node, &[2, 3])], &[]);
    let answer = world.must(REPLICA, Command::Adopt(plan(vec![first, second])));
    assert_eq!(answer, Outcome::Adopted { adopted: 2, dropped: Vec::new() });
    world.wait(Span::from_secs(5)).report(node, victim, RankEvent::Freed);
    assert_eq!((occupied(&world, taker), count(&world, Class::Idle)), (4, 0));
}

#[test]
fn a_right_is_about_the_attempts_that_it_names() {
    let (mut world, node, victim, taker) = victim_and_taker();
    for wrong in [Right::FreeTier, Right::Turn] {
        let dropped = world.try_start(taker, &[(node, &[0, 1])], &[(victim, wrong)]);
        assert_eq!(dropped, Some(Dropped::VictimChanged));
    }
    let mut asked = request(1);
    (asked.budget, asked.turn) = (String::from("lang/pre"), Some(Turn::First));
    let same = world.submit("bob", asked);
    assert_eq!(world.try_start(same, &[(node, &[0])], &[(victim, share())]), Some(Dropped::VictimChanged));
    assert_eq!(world.try_start(same, &[(node, &[0])], &[(victim, Right::Turn)]), None);
}

#[test]
fn who_is_taken_gives_a_gpu_that_is_used() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let n2 = world.node("n2", 2);
    let needless = world.try_start(taker, &[(n2, &[0, 1])], &[(victim, share())]);
    assert_eq!(needless, Some(Dropped::WrongShape));
    let twice = world.try_start(taker, &[(node, &[0, 1])], &[(victim, share()), (victim, share())]);
    assert_eq!(twice, Some(Dropped::WrongShape));
    assert!(world.attempt(victim).stop.is_none());
}

/// A free-tier job that waits, of so many nodes.
fn free(world: &mut World, nodes: u32) -> JobId {
    let mut asked = request(1);
    asked.min_runtime = Some(Span::ZERO);
    asked.shape.nodes = nodes;
    world.submit("bob", asked)
}

#[test]
fn the_free_tier_takes_nobody_and_waits_for_no_gpu() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let free = free(&mut world, 1);
    assert_eq!(world.try_start(free, &[(node, &[0])], &[(victim, share())]), Some(Dropped::WrongShape));
    world.start(taker, &[(node, &[0, 1])], &[(victim, share())]);
    assert_eq!(world.try_start(free, &[(node, &[3])], &[]), Some(Dropped::GpuTaken), "it only comes free");
    world.report(node, victim, RankEvent::Freed);
    assert_eq!(world.try_start(free, &[(node, &[3])], &[]), None);
}

#[test]
fn a_victim_before_its_go_ends_at_once_and_its_gpus_are_idle() {
    let mut world = World::new();
    let (n1, n2) = (world.node("n1", 1), world.node("n2", 1));
    let gang = free(&mut world, 2);
    let victim = world.start(gang, &[(n1, &[0]), (n2, &[0])], &[]);
    assert_eq!(count(&world, Class::Handover), 2);
    let taker = world.submit("bob", request(1));
    let attempt = world.start(taker, &[(n1, &[0])], &[(victim, Right::FreeTier)]);
    assert_eq!(world.attempt(attempt).go_at, Some(world.now), "nobody has to be waited for");
    assert!(world.state.attempts.get(&victim).is_none());
    assert_eq!((occupied(&world, taker), count(&world, Class::Idle)), (1, 1));
    let past = &world.job(gang).past[0];
    assert_eq!((past.go_at, &past.ended.cause), (None, &AttemptEnd::Preempted));
    // It is tried less often from now on.
    let until = world.now.plus(Span::from_mins(2));
    assert_eq!(*world.phase(gang), Phase::Held { since: world.now, by: HeldBy::Backoff { until } });
    assert!(world.state.bills.is_empty(), "it lost nothing");
}

#[test]
fn a_taker_that_ends_before_its_go_is_charged_nothing_and_its_gpus_go_to_the_next() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let attempt = world.start(taker, &[(node, &[0, 1])], &[(victim, share())]);
    world.wait(Span::from_secs(3)).cancel("bob", taker, "").expect("it is bob's");
    assert!(matches!(world.phase(taker), Phase::Ended { end: End::Cancelled, .. }));
    assert!(world.state.attempts.get(&attempt).is_none());
    assert_eq!(gpu(&world, node, 0), (Some(victim), None), "nobody is promised it");
    assert!(world.attempt(victim).stop.is_some(), "a notice is never taken back");
    let next = world.submit("bob", request(4));
    let attempt = world.start(next, &[(node, &[0, 1, 2, 3])], &[]);
    // Three seconds of the grace are over.
    assert_eq!(world.attempt(attempt).latest_go, world.now.plus(Span::from_secs(117)));
    world.wait(Span::from_secs(9)).report(node, victim, RankEvent::Freed);
    assert_eq!(occupied(&world, next), 4);
    assert_eq!(world.job(taker).charged, ChargeMillis::ZERO);
}

#[test]
fn without_its_gpus_in_time_the_launch_has_failed_and_the_nodes_that_keep_them_are_to_blame() {
    let mut world = World::new();
    let (n1, n2) = (world.node("n1", 1), world.node("n2", 1));
    let mut asked = request(1);
    asked.budget = String::from("lang/pre");
    let victim = world.submit("bob", asked);
    let victim = world.place(victim, n1, &[0]);
    world.report(n1, victim, RankEvent::Started);
    world.wait(Span::from_hours(1));
    let mut asked = request(1);
    asked.shape.nodes = 2;
    let taker = world.submit("bob", asked);
    let attempt = world.start(taker, &[(n1, &[0]), (n2, &[0])], &[(victim, share())]);
    world.rank(n2, attempt, 1, RankEvent::Ready);
    let start_by = world.attempt(attempt).start_by;
    assert_eq!(start_by, world.now.plus(Span::from_secs(720)));
    world.wait(Span::from_millis(719_999)).submit("bob", request(1));
    assert!(world.state.attempts.contains(&attempt));
    world.wait(Span::from_millis(1)).submit("bob", request(1));
    assert!(world.phase(taker).is_waiting());
    let backed_off = |node| world.state.nodes.get(&node).expect("known").backoff_until.is_some();
    assert_eq!((backed_off(n1), backed_off(n2)), (true, false));
    assert_eq!(world.job(taker).failed_on, [n1].into());
    assert_eq!((count(&world, Class::Idle), world.job(taker).charged), (1, ChargeMillis::ZERO));
}

#[test]
fn who_waits_for_a_node_that_cannot_be_reached_is_tried_elsewhere() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let attempt = world.start(taker, &[(node, &[0, 1])], &[(victim, share())]);
    world.wait(Span::from_secs(90));
    world.must(REPLICA, Command::NodeUnreachable { node });
    assert!(world.phase(taker).is_waiting());
    assert!(!world.state.attempts.contains(&attempt));
    assert_eq!(
        world.job(taker).past[0].ended.cause,
        AttemptEnd::LaunchFailedNode("n1 cannot be reached".into())
    );
    assert_eq!((gpu(&world, node, 0), world.job(taker).charged), ((Some(victim), None), ChargeMillis::ZERO));
    // What runs there stays its own.
    assert!(world.attempt(victim).ended.is_none());
    let other = world.node("n2", 2);
    let again = world.place(taker, other, &[0, 1]);
    assert_eq!(world.attempt(again).go_at, Some(world.now));
}

#[test]
fn a_launch_that_fails_before_the_go_ends_the_attempt_at_once() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let attempt = world.start(taker, &[(node, &[0, 1])], &[(victim, share())]);
    world.report(node, attempt, launch_failed(Fault::Job { code: 127 }));
    assert!(matches!(world.phase(taker), Phase::Ended { end: End::Failed, exit: Some(Exit::Code(127)), .. }));
    assert_eq!(gpu(&world, node, 0), (Some(victim), None));
}

#[test]
fn gpus_that_were_free_before_the_taker_was_placed_were_idle_until_then() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let begin = world.now;
    world.wait(Span::from_secs(1)).exit(node, victim, 0);
    let end = world.now;
    world.wait(Span::from_secs(9));
    world.start(taker, &[(node, &[0, 1])], &[]);
    world.wait(Span::from_secs(5));
    // The report is late: they were empty two seconds after the end.
    world.report_at(node, victim, RankEvent::Freed, end.plus(Span::from_secs(2)));
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    let time = |class| pool.time_in_class(class, begin, world.now).get();
    assert_eq!(time(Class::Overhead), 4 * 2_000);
    assert_eq!(time(Class::Handover), 2 * 5_000);
    assert_eq!(time(Class::Idle), 2 * 7_000 + 2 * 12_000);
    assert_eq!(occupied(&world, taker), 2);
}

#[test]
fn cores_and_memory_of_what_leaves_are_promised_but_waited_for() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let mut asked = request(1);
    (asked.shape.cpus, asked.budget) = (Some(16), String::from("lang/pre"));
    let victim = world.submit("bob", asked);
    let victim = world.place(victim, node, &[0]);
    world.report(node, victim, RankEvent::Started);
    let taker = world.submit("bob", request(1));
    assert_eq!(world.try_start(taker, &[(node, &[1])], &[]), Some(Dropped::NodeFull));
    world.wait(Span::from_secs(10)).cancel("bob", victim.job, "").expect("it is bob's");
    let attempt = world.start(taker, &[(node, &[1])], &[]);
    // Its GPU is idle, but all the cores are still with the other.
    assert_eq!(world.attempt(attempt).go_at, None);
    assert_eq!(world.attempt(attempt).latest_go, world.now.plus(Span::from_secs(30)));
    assert_eq!(count(&world, Class::Handover), 1);
    world.wait(Span::from_secs(4)).report(node, victim, RankEvent::Freed);
    assert_eq!(world.attempt(attempt).go_at, Some(world.now));
}

#[test]
fn who_has_the_cores_that_a_job_lacks_gives_way_without_a_gpu_for_it() {
    let mut world = World::new();
    let node = world.node("n1", 3);
    let mut run = |slot: u16| {
        let mut asked = request(1);
        asked.budget = String::from("lang/pre");
        let job = world.submit("bob", asked);
        let attempt = world.place(job, node, &[slot]);
        world.report(node, attempt, RankEvent::Started);
        attempt
    };
    let (one, two) = (run(0), run(1));
    let mut asked = request(1);
    asked.shape.cpus = Some(16);
    let taker = world.submit("bob", asked);
    world.wait(Span::from_hours(2));
    let both = [(one, share()), (two, share())];
    // With the cores of one of them it has enough: the other would leave for nothing.
    assert_eq!(world.try_start(taker, &[(node, &[2])], &both), Some(Dropped::WrongShape));
    assert_eq!(world.try_start(taker, &[(node, &[0])], &both), Some(Dropped::WrongShape));
    let attempt = world.start(taker, &[(node, &[2])], &both[..1]);
    assert_eq!(world.attempt(attempt).go_at, None);
    world.wait(Span::from_secs(3)).report(node, one, ended(Exit::Code(0), EndedBy::Notice));
    world.wait(Span::from_secs(1)).report(node, one, RankEvent::Freed);
    assert_eq!(world.attempt(attempt).go_at, Some(world.now));
    assert_eq!(count(&world, Class::Idle), 1, "its GPU is the next one's");
}

#[test]
fn the_restart_of_its_node_ends_nothing_that_had_no_go() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let attempt = world.start(taker, &[(node, &[0, 1])], &[(victim, share())]);
    let facts = crate::world::facts("n1", "boot-2", 4);
    world.must(scheduler_core::principal::Actor::Agent(node), Command::NodeFacts { node, facts });
    assert!(world.phase(victim.job).is_waiting());
    assert_eq!(world.attempt(attempt).go_at, Some(world.now), "the restart proved its GPUs empty");
    let slots = &world.attempt(attempt).placements[0].slots;
    assert_eq!(*slots, [Slot::new(0), Slot::new(1)]);
    assert_eq!(world.attempt(attempt).tier, Tier::Funded);
}

#[test]
fn a_taker_waits_for_a_gpu_that_vanished_until_it_is_back() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let attempt = world.start(taker, &[(node, &[0, 1])], &[(victim, share())]);
    let agent = scheduler_core::principal::Actor::Agent(node);
    let mut less = crate::world::facts("n1", "boot-1", 4);
    less.gpus.remove(1);
    world.must(agent.clone(), Command::NodeFacts { node, facts: less });
    world.report(node, victim, RankEvent::Freed);
    assert_eq!((world.attempt(attempt).go_at, count(&world, Class::Handover)), (None, 2));
    world.wait(Span::from_secs(5));
    world.must(agent, Command::NodeFacts { node, facts: crate::world::facts("n1", "boot-1", 4) });
    assert_eq!(world.attempt(attempt).go_at, Some(world.now));
}

#[test]
fn occupancy_tiles_time_through_notice_handover_and_go() {
    let (mut world, node, victim, taker) = victim_and_taker();
    let begin = world.now;
    let attempt = world.start(taker, &[(node, &[0, 1])], &[(victim, share())]);
    world.wait(Span::from_secs(30)).report(node, victim, ended(Exit::Code(0), EndedBy::Notice));
    world.wait(Span::from_secs(4)).report(node, victim, RankEvent::Freed);
    world.wait(Span::from_secs(6)).report(node, attempt, RankEvent::Started);
    world.wait(Span::from_secs(60)).exit(node, attempt, 0);
    world.wait(Span::from_secs(2)).report(node, attempt, RankEvent::Freed);
    world.wait(Span::from_secs(8)).submit("bob", request(1));
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    let time = |class| pool.time_in_class(class, begin, world.now).get();
    let of = |job: JobId| {
        let job = world.job(job);
        time(Class::Occupied { budget: job.budget, tier: job.terms.tier })
    };
    assert_eq!((of(victim.job), of(taker)), (4 * 30_000, 2 * 66_000));
    assert_eq!(time(Class::Overhead), 4 * 4_000 + 2 * 2_000);
    assert_eq!(time(Class::Idle), 2 * 76_000 + 2 * 8_000);
    let all = of(victim.job) + of(taker) + time(Class::Overhead) + time(Class::Idle);
    assert_eq!(all, 4 * world.now.since(begin).as_millis());
}

#[test]
fn who_waits_for_the_cores_of_a_stray_goes_when_that_is_gone() {
    let mut world = World::new();
    let (n1, n2) = (world.node("n1", 2), world.node("n2", 2));
    let runs = world.submit("bob", request(1));
    let runs = world.place(runs, n2, &[0]);
    // A process of the same number is found on another node, and the attempt leaves.
    let gpus = vec![world.state.nodes.get(&n1).expect("it joined").gpus[0].uuid.clone()];
    world.report(n1, runs, RankEvent::Unknown { gpus });
    world.cancel("bob", runs.job, "").expect("it is bob's");
    let mut asked = request(1);
    asked.shape.cpus = Some(16);
    let waits = world.submit("bob", asked);
    let waits = world.place(waits, n1, &[1]);
    assert_eq!(world.attempt(waits).go_at, None);
    world.wait(Span::from_secs(3));
    world.report(n1, runs, RankEvent::Freed);
    assert_eq!(world.attempt(waits).go_at, Some(world.now));
}
