//! One job's whole way, and what the books say of it.

use scheduler_core::agent::{EndedBy, Order, RankEvent, assignments, full_set};
use scheduler_core::apply::next_change;
use scheduler_core::command::{Code, Command};
use scheduler_core::decision::{Dropped, Plan};
use scheduler_core::id::{AttemptNo, JobId, Term};
use scheduler_core::job::{End, Exit, Phase};
use scheduler_core::ledger::Class;
use scheduler_core::spec::Tier;
use scheduler_core::unit::{ChargeMillis, GpuCount, Span};

use crate::world::{REPLICA, World, name, person, plan, request, start};

fn count(world: &World, class: Class) -> u32 {
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    pool.in_class(class, world.now).count.get()
}

#[test]
fn a_job_runs_is_charged_to_the_millisecond_and_leaves_nothing() {
    let mut world = World::new();
    let node = world.node("n1", 8);
    let job = world.submit("bob", request(4));
    let leaf = world.job(job).budget;
    world.wait(Span::from_secs(5));
    let attempt = world.place(job, node, &[0, 1, 2, 3]);
    assert_eq!(*world.phase(job), Phase::Live(AttemptNo::new(1)));
    assert_eq!(count(&world, Class::Occupied { budget: leaf, tier: Tier::Funded }), 4);
    let items = assignments(&world.state, node);
    assert_eq!((items.len(), &items[0].order, items[0].gpus.len()), (1, &Order::Run, 4));
    assert_eq!(items[0].budget, "lang/post");

    world.wait(Span::from_secs(1)).report(node, attempt, RankEvent::Started);
    let protected_until = world.now.plus(Span::from_hours(1));
    assert_eq!(next_change(&world.state), Some(protected_until));
    world.wait(Span::from_millis(123_456)).exit(node, attempt, 0);
    assert!(matches!(world.phase(job), Phase::Ended { end: End::Completed, exit: Some(Exit::Code(0)), .. }));
    let charged = ChargeMillis::new(4_000 * (1_000 + 123_456));
    assert_eq!(world.job(job).charged, charged);
    assert_eq!(count(&world, Class::Overhead), 4);
    assert_eq!(assignments(&world.state, node)[0].order, Order::Clear);

    world.wait(Span::from_secs(2)).report(node, attempt, RankEvent::Freed);
    assert_eq!((count(&world, Class::Idle), count(&world, Class::Overhead)), (8, 0));
    assert!(full_set(&world.state, node).expect("the node is known").items.is_empty());
    let past = &world.job(job).past;
    assert_eq!((past.len(), past[0].charged, past[0].gpus), (1, charged, 4));

    world.wait(Span::from_hours(1));
    world.submit("bob", request(1));
    assert!(world.state.jobs.get(&job).is_none(), "it left an hour after its end");
    assert_eq!((world.state.decisions.len(), world.state.launches.len()), (0, 1));
    assert_eq!(world.replayed().digest(), world.state.digest());
}

#[test]
fn occupancy_tiles_time_whatever_happened() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let job = world.submit("bob", request(2));
    let begin = world.now;
    world.wait(Span::from_secs(10));
    let attempt = world.place(job, node, &[1, 2]);
    world.wait(Span::from_secs(20)).report(node, attempt, RankEvent::Started);
    world.wait(Span::from_secs(30));
    let real_end = world.now;
    // The report comes late, across a time in which nobody could reach the node.
    world.wait(Span::from_secs(40)).must(REPLICA, Command::NodeUnreachable { node });
    assert_eq!(count(&world, Class::Unavailable), 2);
    world.wait(Span::from_secs(50)).must(REPLICA, Command::NodeBack { node });
    let event = RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None };
    world.report_at(node, attempt, event, real_end);
    world.report_at(node, attempt, RankEvent::Freed, real_end.plus(Span::from_secs(1)));
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    let leaf = world.job(job).budget;
    let time = |class| pool.time_in_class(class, begin, world.now).get();
    let occupied = time(Class::Occupied { budget: leaf, tier: Tier::Funded });
    assert_eq!(occupied, 2 * 50_000);
    assert_eq!(time(Class::Overhead), 2 * 1_000);
    assert_eq!(time(Class::Unavailable), 2 * 50_000);
    let all = time(Class::Idle) + occupied + time(Class::Overhead) + time(Class::Unavailable);
    assert_eq!(all, 4 * world.now.since(begin).as_millis());
    assert_eq!(world.job(job).charged, ChargeMillis::new(2_000 * 50_000));
}

#[test]
fn each_decision_is_judged_alone() {
    let mut world = World::new();
    let (n1, n2) = (world.node("n1", 4), world.node("n2", 4));
    let (a, b, c) =
        (world.submit("bob", request(2)), world.submit("bob", request(2)), world.submit("bob", request(2)));
    let one = AttemptNo::new(1);
    let decisions = vec![
        start(a, one, n1, &[0, 1]),
        start(b, one, n1, &[1, 2]),
        start(b, AttemptNo::new(2), n1, &[2, 3]),
        start(b, one, n1, &[2, 2]),
        start(b, one, n1, &[2]),
        start(b, one, n2, &[0, 9]),
        start(a, one, n2, &[0, 1]),
        start(JobId::new(99), one, n2, &[0, 1]),
        start(c, one, n2, &[0, 3]),
    ];
    let answer = world.must(REPLICA, Command::Adopt(plan(decisions)));
    let expected = vec![
        (1, Dropped::GpuTaken),
        (2, Dropped::AttemptTaken),
        (3, Dropped::WrongShape),
        (4, Dropped::WrongShape),
        (5, Dropped::GpuTaken),
        (6, Dropped::NotWaiting),
        (7, Dropped::NotWaiting),
    ];
    assert_eq!(answer, scheduler_core::command::Outcome::Adopted { adopted: 2, dropped: expected });
    world.must(REPLICA, Command::NodeUnreachable { node: n2 });
    assert_eq!(world.try_place(b, one, n2, &[1, 2]), Some(Dropped::NodeNotReady));
}

#[test]
fn a_plan_of_another_term_is_refused() {
    let mut world = World::new();
    let stale = Plan { term: Term::new(2), ..plan(Vec::new()) };
    assert_eq!(world.refused(REPLICA, Command::Adopt(stale)), Code::WrongTerm);
}

#[test]
fn no_plan_is_adopted_in_safe_mode_until_an_operator_ends_it() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    let index = world.state.meta.index;
    let now = world.now;
    let answer = scheduler_core::apply::broken(&mut world.state, index, now, "a panic");
    assert_eq!(answer.expect_err("it is an error").code, Code::Internal);
    let adopt = || Command::Adopt(plan(vec![start(job, AttemptNo::new(1), node, &[0])]));
    assert_eq!(world.refused(REPLICA, adopt()), Code::SafeMode);
    let end = |reason: &str| Command::EndSafeMode { reason: reason.into() };
    assert_eq!(world.refused(person("bob"), end("looked at it")), Code::NotAllowed);
    assert_eq!(world.refused(person("ada"), end(" ")), Code::BadSpec);
    world.must(person("ada"), end("looked at it"));
    world.must(REPLICA, adopt());
    assert_eq!(*world.phase(job), Phase::Live(AttemptNo::new(1)));
}

#[test]
fn rate_is_the_dominant_share_and_cores_are_not_given_twice() {
    let mut world = World::new();
    let node = world.node("n1", 8);
    let mut greedy = request(1);
    greedy.shape.cpus = Some(64);
    let greedy = world.submit("bob", greedy);
    let small = world.submit("bob", request(1));
    let attempt = world.place(greedy, node, &[0]);
    assert_eq!(world.state.attempts.get(&attempt).expect("it was placed").rate.get(), 8_000);
    assert_eq!(world.try_place(small, AttemptNo::new(1), node, &[1]), Some(Dropped::NodeFull));
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_secs(1)).exit(node, attempt, 0);
    assert_eq!(world.job(greedy).charged, ChargeMillis::new(8_000 * 1_000));
    world.report(node, attempt, RankEvent::Freed);
    world.place(small, node, &[1]);
    assert_eq!(world.job(small).terms.shape.gpus_per_node, GpuCount::new(1));
}
