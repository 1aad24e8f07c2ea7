//! A preemption from both sides, while it goes on and afterwards.

use scheduler_core::agent::{EndedBy, RankEvent};
use scheduler_core::command::{Command, Outcome, Saved};
use scheduler_core::decision::{Basis, Choice, Price, Right, Start, UseOf};
use scheduler_core::explain::{Explanation, attempt, decision, job};
use scheduler_core::id::{AttemptId, AttemptNo, JobId, NodeId};
use scheduler_core::job::Exit;
use scheduler_core::plan::Links;
use scheduler_core::principal::Actor;
use scheduler_core::unit::{ChargeMillis, MilliGpus, Span};

use super::{MINUTE, check};
use crate::world::{REPLICA, World, ended, plan, request};

/// Both sides as they were: `lang/post` at 0.77, `lang/pre` at 1.06.
fn share(world: &World) -> Right {
    let side = |path, booked| UseOf {
        budget: scheduler_core::budget::find(&world.state, path).expect("a budget of the tree"),
        charged: ChargeMillis::new(booked),
        set_aside: ChargeMillis::ZERO,
        allocation: ChargeMillis::new(100),
    };
    Right::Share { mine: side("lang/post", 77), theirs: side("lang/pre", 106) }
}

fn explained(world: &World, id: JobId) -> Explanation {
    job(&world.state, &Links::all_ready(&world.state), id, world.now).expect("state has it")
}

/// A decision with the price that the planner would count, and how it chose.
fn start(world: &World, job: JobId, on: (NodeId, &[u16]), victim: AttemptId, right: Right) -> Start {
    let mut start = world.start_of(job, &[on], &[(victim, right)]);
    let saved_at = world.attempt(victim).saved_at;
    start.takes[0].price = Price {
        rate: MilliGpus::new(4_000),
        lost: Span::from_secs(570),
        restart: Span::from_mins(5),
        preemptions: 1,
        saved_at,
        basis: Basis::Reported,
    };
    start.takes[0].gpus = 4;
    let runner_up = AttemptId { job: JobId::new(77), no: AttemptNo::new(3) };
    let price = Price { lost: Span::from_mins(30), ..start.takes[0].price };
    start.why.choice =
        Some(Choice { lacked: 2, freed: 4, considered: 3, runner_up: Some((runner_up, price)) });
    start
}

fn adopt(world: &mut World, start: Start) -> AttemptId {
    let id = AttemptId { job: start.job, no: start.attempt };
    match world.must(REPLICA, Command::Adopt(plan(vec![start]))) {
        Outcome::Adopted { dropped, .. } => assert_eq!(dropped, []),
        other => panic!("a plan is answered with what was adopted, not {other:?}"),
    }
    id
}

/// A job of `lang/pre` ran 65 min on four GPUs, saved 9 min 30 s ago, and was just taken for two of `lang/post`.
fn taken() -> (World, NodeId, AttemptId, AttemptId) {
    let mut world = World::undated();
    let node = world.node("n1", 4);
    let mut asked = request(4);
    asked.budget = String::from("lang/pre");
    let victim = world.submit("bob", asked);
    let victim = world.place(victim, node, &[0, 1, 2, 3]);
    world.report(node, victim, RankEvent::Started);
    world.wait(Span::from_mins(5));
    let signs = vec![Saved { attempt: victim, saved_at: None, signed_at: Some(world.now) }];
    world.must(Actor::Agent(node), Command::Saves { node, saves: signs });
    world.wait(Span::from_mins(50)).wait(Span::from_secs(30));
    let saves = vec![Saved { attempt: victim, saved_at: Some(world.now), signed_at: None }];
    world.must(Actor::Agent(node), Command::Saves { node, saves });
    world.wait(Span::from_secs(570));
    let taker = world.submit("bob", request(2));
    let decided = start(&world, taker, (node, &[0, 1]), victim, share(&world));
    let taker = adopt(&mut world, decided);
    (world, node, victim, taker)
}

const WHY: &str = "it was past its protection, and lang/post was at 0.77 of its allocation, lang/pre at 1.06; they part in lang";

#[test]
fn while_it_leaves_it_says_for_whom_and_with_which_numbers() {
    let (mut world, _, victim, taker) = taken();
    world.wait(Span::from_secs(20));
    check(
        &explained(&world, victim.job),
        world.now,
        &["what it needs", "its run"],
        &format!(
            "{0} train is stopping: it gives way to {taker} of lang/post: {WHY}
             preempted.share until +1m40s, nobody: it gives way to {taker} of lang/post: {WHY}
             its preemption
             for: {taker} of lang/post
             why: {WHY}
             choice: it lacked 2 GPUs, and got 4 from those that gave way; 3 attempts could be taken; \
             the cheapest of those that stayed, 77.3, was counted as 3.50 GPU-h
             its price: counted as 1.45 GPU-h: 9 min 30 s lost and 5 min to start again at 4 GPUs, preempted once before
             decision: {1}
             protection over: -5m20s
             told to leave: -20s
             grace: 2 min +1m40s",
            victim.job,
            world.attempt(taker).decision,
        ),
    );
}

#[test]
fn the_taker_says_whom_it_waits_for_and_until_when() {
    let (mut world, node, victim, taker) = taken();
    let found = explained(&world, taker.job);
    assert_eq!(found.decided.as_ref().map(|decided| decided.victims.len()), Some(1));
    check(
        &found,
        world.now,
        &["what it needs", "its run"],
        &format!(
            "{0} train is starting: it is placed, and waits for {victim} (lang/pre) (2 GPUs), which saves and leaves
             placed.grace until +2m, nobody: it is placed, and waits for {victim} (lang/pre) (2 GPUs), which saves and leaves
             what it waits for
             {victim} (lang/pre): 2 GPUs +2m",
            taker.job
        ),
    );
    world.wait(Span::from_secs(20));
    world.report(node, victim, ended(Exit::Code(0), EndedBy::Notice));
    let found = explained(&world, taker.job);
    assert!(
        found.sentence.ends_with("(2 GPUs), which has ended and is not proven empty"),
        "{}",
        found.sentence
    );
    world.report(node, victim, RankEvent::Freed);
    let found = explained(&world, taker.job);
    assert!(
        found.sentence.ends_with("it is placed, and the agent of its node starts it"),
        "{}",
        found.sentence
    );
    assert_eq!(found.reasons[0].until, Some(world.attempt(taker).start_by));
}

#[test]
fn afterwards_the_job_that_waits_again_says_what_it_cost_and_what_might_have_helped() {
    let (mut world, node, victim, taker) = taken();
    world.wait(Span::from_secs(20));
    world.report(node, victim, ended(Exit::Code(0), EndedBy::Notice));
    let fenced = explained(&world, victim.job);
    assert_eq!(fenced.facts.last().map(|group| group.title), Some("its ended runs that still have GPUs"));
    world.report(node, victim, RankEvent::Freed);
    world.report(node, taker, RankEvent::Started);
    let expected = format!(
        "{0} train is waiting: its GPUs are with protected jobs; {victim} was preempted for {taker} of lang/post
         waiting.protection until +1h, nobody: its GPUs are with protected jobs
         what it may use now
         idle GPUs: 2
         what it may not use
         protected: 2 +1h
         its last run
         attempt: {victim} -1h5m20s
         node: n1
         started: -1h5m20s
         ended: +0s
         last checkpoint: -9m50s
         charged by this attempt: 4.35 GPU-h
         charged in all: 4.35 GPU-h
         its preemption
         for: {taker} of lang/post
         why: {WHY}
         choice: it lacked 2 GPUs, and got 4 from those that gave way; 3 attempts could be taken; \
         the cheapest of those that stayed, 77.3, was counted as 3.50 GPU-h
         its price: counted as 1.45 GPU-h: 9 min 30 s lost and 5 min to start again at 4 GPUs, preempted once before
         decision: {1}
         protection over: -5m20s
         told to leave: -20s
         grace: 20 s of 2 min used
         what that cost
         lost: 0.98 GPU-h
         since its last checkpoint: 9 min 50 s x 4 GPUs = 0.65 GPU-h
         how that is known: reported by the job
         starting again, expected: 5 min x 4 GPUs = 0.33 GPU-h
         earliest +1h
         change 2 GPUs instead of 4: starts now
         change its budget or turn: no effect now, the GPUs are not contested but occupied
         help a checkpoint at the notice, within its grace of 2 min: would have kept about 0.63 GPU-h
         help a longer minimum runtime than 1 h, up to 8 h: it waits longer for its GPUs",
        victim.job,
        world.attempt(taker).decision,
    );
    check(&explained(&world, victim.job), world.now, &["what it needs"], &expected);
}

#[test]
fn an_attempt_that_gave_way_is_explained_from_its_own_record() {
    let (mut world, node, victim, taker) = taken();
    world.wait(Span::from_secs(20));
    world.report(node, victim, ended(Exit::Code(0), EndedBy::Notice));
    world.report(node, victim, RankEvent::Freed);
    world.report(node, taker, RankEvent::Started);
    world.exit(node, taker, 0);
    world.report(node, taker, RankEvent::Freed);
    let again = world.place(victim.job, node, &[0, 1, 2, 3]);
    // Long after, neither the taker nor its decision is in state.
    world.wait(Span::from_hours(2));
    world.report(node, again, RankEvent::Started);
    assert!(!world.state.jobs.contains(&taker.job));
    let links = Links::all_ready(&world.state);
    let found = attempt(&world.state, &links, victim, world.now).expect("the job is in state");
    assert_eq!(
        found.sentence,
        format!(
            "{victim} train has ended: it was preempted: it gives way to {taker}: {WHY}; the job was started again as \
             {again}"
        )
    );
    let record = found.preempted.expect("it gave way");
    let taken = record.taken.expect("to another attempt");
    assert_eq!((taken.by, taken.right), (taker, share(&world)));
    assert_eq!((record.choice, record.taker), (None, None));
    assert_eq!(record.bill.map(|bill| (bill.gpus, bill.age)), Some((4, Span::from_secs(590))));
    assert_eq!(found.attempt, Some(victim));
    // The live one is the job's explanation.
    let live = attempt(&world.state, &links, again, world.now).expect("it is live");
    assert_eq!(Some(live), job(&world.state, &links, victim.job, world.now));
    let unknown = AttemptId { no: AttemptNo::new(9), ..victim };
    assert_eq!(attempt(&world.state, &links, unknown, world.now), None);
}

#[test]
fn a_decision_names_each_victim_with_right_price_and_numbers() {
    let (world, _, victim, taker) = taken();
    let found = decision(&world.state, world.attempt(taker).decision).expect("it is kept");
    assert_eq!(
        found.sentence,
        format!(
            "{taker} was started on 2 GPUs of n1, and {victim} gave way; no other budget had a job to start"
        )
    );
    assert_eq!(
        found.victims[0].sentence,
        format!(
            "{victim} of lang/pre gives way with 4 GPUs: {WHY}; counted as 1.45 GPU-h: 9 min 30 s lost and 5 min to \
             start again at 4 GPUs, preempted once before"
        )
    );
    assert_eq!(found.victims[0].take, found.record.start.takes[0]);
    assert_eq!(
        found.choice.as_deref(),
        Some(
            "it lacked 2 GPUs, and got 4 from those that gave way; 3 attempts could be taken; the cheapest of those \
             that stayed, 77.3, was counted as 3.50 GPU-h"
        )
    );
}

#[test]
fn what_might_have_helped_depends_on_what_the_job_says_of_itself() {
    let help = |change: fn(&mut scheduler_core::spec::Request), right: fn(&World) -> Right| {
        let mut world = World::undated();
        let node = world.node("n1", 4);
        let mut asked = request(4);
        asked.budget = String::from("lang/pre");
        change(&mut asked);
        let victim = world.submit("bob", asked);
        let victim = world.place(victim, node, &[0, 1, 2, 3]);
        world.report(node, victim, RankEvent::Started);
        world.wait(Span::from_hours(9));
        let taker = world.submit("bob", request(2));
        let decided = start(&world, taker, (node, &[0, 1]), victim, right(&world));
        adopt(&mut world, decided);
        world.wait(MINUTE);
        world.report(node, victim, ended(Exit::Code(0), EndedBy::Notice));
        explained(&world, victim.job).could_help
    };
    let report = "reporting its checkpoints (`bursar checkpoint`): the loss would be measured, not a bound";
    assert_eq!(
        help(|asked| asked.checkpoint_every = Some(Span::from_mins(20)), share),
        [
            report,
            "a checkpoint more often than every 20 min: at most that much time is lost at once",
            "a longer minimum runtime than 1 h, up to 8 h: it waits longer for its GPUs",
        ]
    );
    assert_eq!(
        help(
            |asked| {
                asked.min_runtime = Some(Span::from_hours(8));
                asked.resumable = Some(false);
            },
            share
        ),
        [
            report,
            "a longer minimum runtime: no, it is at the cap",
            "being resumable: it would wait again instead of ending",
        ]
    );
    assert_eq!(
        help(|asked| asked.min_runtime = Some(Span::ZERO), |_| Right::FreeTier),
        [report, "a minimum runtime, which is charged, up to 8 h: the free tier always gives way"]
    );
}
