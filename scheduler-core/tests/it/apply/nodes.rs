//! Nodes join, report, restart, vanish and come back.

use scheduler_core::agent::{Order, RankEvent, assignments};
use scheduler_core::command::{Code, Command, IssueJoinToken, Join, Outcome};
use scheduler_core::id::{GpuUuid, NodeId};
use scheduler_core::job::{End, Phase};
use scheduler_core::ledger::Class;
use scheduler_core::node::Contact;
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::unit::{ChargeMillis, Span};

use crate::world::{REPLICA, World, attempt, facts, join, label, name, person, request, token};

fn classes(world: &World) -> (u32, u32, u32) {
    let pool = world.state.books.pool(&name("main")).expect("the pool has GPUs");
    let count = |class| pool.in_class(class, world.now).count.get();
    (count(Class::Idle), count(Class::Unavailable), count(Class::Overhead))
}

#[test]
fn a_join_is_answered_again_to_the_same_machine_and_refused_to_another() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    assert_eq!(world.must(REPLICA, Command::Join(join("n1"))), Outcome::Joined { node });
    let other = Join { machine: label("machine-x"), ..join("n1") };
    assert_eq!(world.refused(REPLICA, Command::Join(other)), Code::NameTaken);
    let emptied = Join { credential: token("new"), ..join("n1") };
    assert_eq!(world.refused(REPLICA, Command::Join(emptied)), Code::NameTaken);
    assert_eq!(world.refused(REPLICA, Command::Join(join("n2"))), Code::BadJoinToken);
}

#[test]
fn a_join_token_is_good_for_its_node_and_its_time() {
    let mut world = World::new();
    let issue = |world: &World, who: &str| IssueJoinToken {
        name: name(who),
        pool: name("main"),
        token: token(who),
        expires_at: world.now.plus(Span::from_mins(10)),
        topology: Vec::new(),
    };
    let permission = issue(&world, "n1");
    assert_eq!(world.refused(person("bob"), Command::IssueJoinToken(permission.clone())), Code::NotAllowed);
    world.must(person("ada"), Command::IssueJoinToken(permission));
    let misnamed = Join { name: name("n9"), ..join("n1") };
    assert_eq!(world.refused(REPLICA, Command::Join(misnamed)), Code::BadJoinToken);
    world.wait(Span::from_mins(10));
    assert_eq!(world.refused(REPLICA, Command::Join(join("n1"))), Code::BadJoinToken);
    assert!(world.state.join_tokens.is_empty());
}

#[test]
fn gpus_come_vanish_and_come_back_at_their_slots() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let report =
        |world: &mut World, facts| world.must(Actor::Agent(node), Command::NodeFacts { node, facts });
    let mut less = facts("n1", "boot-1", 2);
    less.gpus.remove(0);
    report(&mut world, less);
    assert_eq!(classes(&world), (1, 1, 0));
    let job = world.submit("bob", request(1));
    let no = world.job(job).next_attempt;
    assert!(world.try_place(job, no, node, &[0]).is_some());
    report(&mut world, facts("n1", "boot-1", 3));
    assert_eq!(classes(&world), (3, 0, 0));
    let uuids: Vec<&str> =
        world.state.nodes.get(&node).expect("known").gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
    assert_eq!(uuids, ["GPU-n1-0", "GPU-n1-1", "GPU-n1-2"]);
}

#[test]
fn a_gpu_of_another_node_is_not_taken_twice() {
    let mut world = World::new();
    world.node("n1", 2);
    let node = world.node("n2", 1);
    let mut copied = facts("n2", "boot-1", 1);
    copied.gpus.extend(facts("n1", "boot-1", 1).gpus);
    world.must(Actor::Agent(node), Command::NodeFacts { node, facts: copied });
    assert_eq!(world.state.nodes.get(&node).expect("known").gpus.len(), 1);
    assert!(world.state.meta.alarms.contains_key(&node));
}

#[test]
fn simulated_gpus_are_refused_unless_allowed() {
    let mut world = World::with(Settings::default());
    let permission = IssueJoinToken {
        name: name("n1"),
        pool: name("main"),
        token: token("n1"),
        expires_at: world.now.plus(Span::from_mins(10)),
        topology: Vec::new(),
    };
    world.must(person("ada"), Command::IssueJoinToken(permission));
    let Outcome::Joined { node } = world.must(REPLICA, Command::Join(join("n1"))) else { panic!("it joins") };
    let facts = facts("n1", "boot-1", 1);
    assert_eq!(world.refused(Actor::Agent(node), Command::NodeFacts { node, facts }), Code::Simulated);
}

#[test]
fn a_restart_ends_what_ran_there_and_proves_its_gpus_empty() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let mut fixed = request(2);
    fixed.resumable = Some(false);
    let (resumes, stays) = (world.submit("bob", request(2)), world.submit("bob", fixed));
    for (job, slots) in [(resumes, [0, 1]), (stays, [2, 3])] {
        let attempt = world.place(job, node, &slots);
        world.report(node, attempt, RankEvent::Started);
    }
    world.wait(Span::from_secs(60));
    world.must(REPLICA, Command::NodeUnreachable { node });
    world.wait(Span::from_secs(600));
    let facts = facts("n1", "boot-2", 4);
    world.must(Actor::Agent(node), Command::NodeFacts { node, facts });
    assert!(world.phase(resumes).is_waiting());
    assert!(matches!(world.phase(stays), Phase::Ended { end: End::Lost, .. }));
    assert_eq!(classes(&world), (4, 0, 0));
    assert_eq!(world.state.nodes.get(&node).expect("known").contact, Contact::Ready);
    assert!(world.state.attempts.is_empty());
    // Charged up to the last moment that anybody could confirm.
    assert_eq!(world.job(stays).charged, ChargeMillis::new(2_000 * 60_000));
}

#[test]
fn work_on_an_unreachable_node_stays_its_own() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, RankEvent::Started);
    world.must(REPLICA, Command::NodeUnreachable { node });
    world.wait(Span::from_hours(24));
    world.must(REPLICA, Command::NodeBack { node });
    assert!(matches!(world.phase(job), Phase::Live(_)));
    assert_eq!(assignments(&world.state, node)[0].order, Order::Run);
    world.exit(node, attempt, 0);
    assert_eq!(world.job(job).charged, ChargeMillis::new(1_000 * 86_400_000));
}

#[test]
fn what_nobody_placed_is_told_to_stop_and_its_gpus_wait_for_it() {
    let mut world = World::new();
    let node = world.node("n1", 2);
    let job = world.submit("bob", request(1));
    let stray = attempt(job, 7);
    let gpus = vec![GpuUuid::new("GPU-n1-1").expect("a UUID")];
    world.report(node, stray, RankEvent::Unknown { gpus: gpus.clone() });
    world.report(node, stray, RankEvent::Unknown { gpus });
    let items = assignments(&world.state, node);
    assert_eq!(items.len(), 1);
    assert!(matches!(items[0].order, Order::Stop { .. }), "{:?}", items[0].order);
    assert_eq!(classes(&world), (1, 0, 1));
    let no = world.job(job).next_attempt;
    assert!(world.try_place(job, no, node, &[1]).is_some());
    world.wait(Span::from_secs(3)).report(node, stray, RankEvent::Freed);
    assert!(assignments(&world.state, node).is_empty());
    assert_eq!(classes(&world), (2, 0, 0));
    world.place(job, node, &[1]);
}

#[test]
fn what_was_placed_is_no_stray() {
    let mut world = World::new();
    let node = world.node("n1", 1);
    let job = world.submit("bob", request(1));
    let attempt = world.place(job, node, &[0]);
    world.report(node, attempt, RankEvent::Unknown { gpus: Vec::new() });
    assert_eq!(assignments(&world.state, node)[0].order, Order::Run);
    assert!(world.state.strays.is_empty());
}

#[test]
fn an_agent_that_speaks_for_another_node_raises_an_alarm() {
    let mut world = World::new();
    let (n1, n2) = (world.node("n1", 1), world.node("n2", 1));
    let reports = Command::Reports { node: n2, reports: Vec::new() };
    assert_eq!(world.refused(Actor::Agent(n1), reports), Code::NotAllowed);
    assert!(world.state.meta.alarms.contains_key(&n1));
    let back = Command::NodeBack { node: NodeId::new(99) };
    assert_eq!(world.refused(REPLICA, back), Code::NotFound);
}

#[test]
fn a_batch_judges_each_alone_with_its_own_actor() {
    let mut world = World::new();
    let (n1, n2) = (world.node("n1", 1), world.node("n2", 1));
    let reports = |node| Command::Reports { node, reports: Vec::new() };
    let items = vec![
        (Actor::Agent(n1), reports(n1)),
        (Actor::Agent(n1), reports(n2)),
        (REPLICA, Command::NodeUnreachable { node: n2 }),
        (person("ada"), Command::EndSafeMode { reason: String::from("hidden in a batch") }),
    ];
    let Outcome::Batch(answers) = world.must(REPLICA, Command::Batch(items.clone())) else {
        panic!("a batch")
    };
    let ok: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, false, true, false]);
    assert_eq!(world.refused(person("ada"), Command::Batch(items)), Code::NotAllowed);
}
