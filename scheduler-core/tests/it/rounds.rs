//! Plans adopted by the log, round after round.

use std::collections::BTreeMap;

use scheduler_core::agent::{EndedBy, Fault, RankEvent};
use scheduler_core::budget::TreeNode;
use scheduler_core::command::{ApplyBudgets, Command, Outcome};
use scheduler_core::decision::Plan;
use scheduler_core::explain::{decision, job};
use scheduler_core::id::{AttemptId, BudgetId, JobId, NodeId};
use scheduler_core::job::{Exit, Phase};
use scheduler_core::plan::{Links, plan};
use scheduler_core::settings::Settings;
use scheduler_core::spec::{Request, Turn};
use scheduler_core::state::State;
use scheduler_core::unit::{Share, Span};

use crate::random::Random;
use crate::reference::{Naive, decided};
use crate::story::plant;
use crate::world::{REPLICA, TERM, World, launch_failed, name, person, request, tree};

/// Plans and adopts; nothing intervenes, so nothing is dropped, and planning again finds nothing more.
pub fn round(world: &mut World) -> Plan {
    // What time alone changes comes first, as the leader sees to.
    world.must(REPLICA, Command::Batch(Vec::new()));
    let made = plan(&world.state, &Links::all_ready(&world.state), world.now, TERM);
    match world.must(REPLICA, Command::Adopt(made.clone())) {
        Outcome::Adopted { adopted, dropped } => {
            assert_eq!(
                (usize::try_from(adopted), dropped.len()),
                (Ok(made.decisions.len()), 0),
                "{dropped:?}"
            );
        }
        other => panic!("a plan is answered with what was adopted, not {other:?}"),
    }
    let again = plan(&world.state, &Links::all_ready(&world.state), world.now, TERM);
    assert!(again.is_empty(), "planning twice changes nothing: {again:?}");
    made
}

fn live(state: &State) -> Vec<(AttemptId, NodeId)> {
    let attempts = state.attempts.iter().map(|(id, attempt)| (*id, attempt.placements[0].node));
    attempts.collect()
}

/// Something happens: a submission, a report, a cancel, time.
fn happens(world: &mut World, random: &mut Random) {
    let attempts = live(&world.state);
    match random.below(8) {
        0..4 => {
            let budget = *random.pick(&["lang/post", "lang/pre", "lang/post", "none"]);
            let is_free = budget == "none" || random.one_in(4);
            let asked = Request {
                budget: String::from(budget),
                min_runtime: Some(if is_free { Span::ZERO } else { Span::from_mins(1 + random.below(200)) }),
                turn: *random.pick(&[None, None, Some(Turn::First), Some(Turn::Last)]),
                ..request(*random.pick(&[1, 1, 2, 3]))
            };
            world.submit("bob", asked);
        }
        4 => {
            world.wait(Span::from_secs(random.below(5000)));
        }
        5 if world.state.line.len() > 3 => {
            let waiting: Vec<JobId> = world.state.line.keys().map(|place| place.job).collect();
            let _ = world.cancel("bob", *random.pick(&waiting), "");
        }
        _ if !attempts.is_empty() => {
            let (id, node) = *random.pick(&attempts);
            let attempt = world.state.attempts.get(&id).expect("it was just listed").clone();
            if attempt.ended.is_some() {
                world.report(node, id, RankEvent::Freed);
            } else if attempt.started_at.is_none() && random.one_in(5) {
                world.report(node, id, launch_failed(Fault::Node));
            } else if attempt.started_at.is_none() {
                world.report(node, id, RankEvent::Started);
            } else {
                world.exit(node, id, u8::from(random.one_in(3)));
            }
        }
        _ => {}
    }
}

#[test]
fn what_is_planned_is_adopted_and_planning_twice_changes_nothing() {
    let mut starts = 0;
    for seed in 0..25 {
        let random = &mut Random::new(seed);
        // The slow planner knows of no dates.
        let settings = Settings { allow_simulated: true, dates: false, ..Settings::default() };
        let mut world = World::with(settings);
        world.node("n0", 4);
        for node in 1..1 + random.below(3) {
            world.node(&format!("n{node}"), *random.pick(&[1, 2, 4]));
        }
        for _ in 0..40 {
            happens(&mut world, random);
            if random.one_in(3) {
                world.must(REPLICA, Command::Batch(Vec::new()));
                let slow = Naive::plan(&world.state, world.now);
                let made = round(&mut world);
                assert_eq!(decided(&made), slow, "seed {seed}");
                starts += made.decisions.len();
            }
        }
    }
    assert!(starts > 100, "the worlds start something: {starts}");
}

/// A world with the budgets `a` and `b`, of the shares given in percent, `bob` a member of both, and one node.
pub fn two_budgets(shares: [u32; 2], gpus: u32) -> World {
    plant();
    let mut world = World::new();
    let base = tree();
    let leaf = |text: &str, percent: u32| TreeNode {
        name: name(text),
        share: Share::from_ppm(percent * 10_000).expect("at most the whole"),
        ..base.children[2].clone()
    };
    let root = TreeNode { children: vec![leaf("a", shares[0]), leaf("b", shares[1])], ..base.clone() };
    let edit =
        ApplyBudgets { root, base: world.state.meta.tree, reason: String::from("two budgets"), at: None };
    world.must(person("ada"), Command::ApplyBudgets(edit));
    world.node("n1", gpus);
    world
}

fn submit(world: &mut World, budget: &str, minutes: u64) -> JobId {
    let min_runtime = Some(Span::from_mins(minutes));
    world.submit("bob", Request { budget: String::from(budget), min_runtime, ..request(1) })
}

fn leaf_of(world: &World, job: JobId) -> BudgetId {
    world.job(job).budget
}

#[test]
fn starts_follow_use_where_both_budgets_want_more_than_there_is() {
    let mut world = two_budgets([60, 40], 4);
    let (first_a, first_b) = (submit(&mut world, "a", 60), submit(&mut world, "b", 60));
    let (a, b) = (leaf_of(&world, first_a), leaf_of(&world, first_b));
    let mut started: BTreeMap<BudgetId, u32> = BTreeMap::new();
    for hour in 0..25 {
        for _ in 0..6 {
            submit(&mut world, "a", 60);
            submit(&mut world, "b", 60);
        }
        let made = round(&mut world);
        for start in &made.decisions {
            *started.entry(leaf_of(&world, start.job)).or_default() += 1;
            for level in &start.why.levels {
                let is_first = level.next.is_none_or(|next| level.chosen.cmp_use(&next).is_lt());
                assert!(is_first, "hour {hour}: {level:?}");
            }
        }
        run_all(&mut world);
    }
    let (a, b) = (started[&a], started[&b]);
    assert_eq!(a + b, 100, "every GPU is used every hour");
    assert!((58..=62).contains(&a), "{a} starts of a, {b} of b");
}

/// All that was placed runs for an hour and completes.
fn run_all(world: &mut World) {
    let attempts = live(&world.state);
    for (id, node) in &attempts {
        world.report(*node, *id, RankEvent::Started);
    }
    world.wait(Span::from_hours(1));
    for (id, node) in &attempts {
        let event = RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None };
        world.report(*node, *id, event);
        world.report(*node, *id, RankEvent::Freed);
    }
}

#[test]
fn a_burst_of_one_budget_does_not_get_ahead_of_the_other() {
    let mut world = two_budgets([50, 50], 8);
    let burst: Vec<JobId> = (0..40).map(|_| submit(&mut world, "b", 480)).collect();
    world.wait(Span::from_secs(1));
    let few: Vec<JobId> = (0..4).map(|_| submit(&mut world, "a", 480)).collect();
    round(&mut world);
    let is_live = |job: &&JobId| matches!(world.phase(**job), Phase::Live(_));
    assert_eq!(few.iter().filter(is_live).count(), 4);
    assert_eq!(burst.iter().filter(is_live).count(), 4);
}

#[test]
fn the_free_tier_has_what_funded_jobs_leave() {
    let mut world = two_budgets([50, 50], 4);
    let free: Vec<JobId> = (0..6).map(|_| submit(&mut world, "a", 0)).collect();
    let funded: Vec<JobId> = (0..3).map(|_| submit(&mut world, "b", 60)).collect();
    round(&mut world);
    let is_live = |job: &&JobId| matches!(world.phase(**job), Phase::Live(_));
    assert_eq!(funded.iter().filter(is_live).count(), 3);
    assert_eq!(free.iter().filter(is_live).count(), 1);
}

#[test]
fn a_start_is_explained_afterwards_with_the_numbers_as_they_were() {
    let mut world = two_budgets([50, 50], 1);
    let (first, second) = (submit(&mut world, "a", 60), submit(&mut world, "b", 60));
    let made = round(&mut world);
    run_all(&mut world);
    round(&mut world);
    let links = Links::all_ready(&world.state);
    let explained = job(&world.state, &links, first, world.now).expect("state still has it");
    let decided = explained.decided.expect("its decision is kept");
    assert_eq!(decided.record.start.why, made.decisions[0].why);
    assert_eq!(
        decided.sentence,
        format!("{first}.1 was started on 1 GPU of n1; a went before b: its use was lower")
    );
    let again = decision(&world.state, decided.id).expect("it is kept");
    assert_eq!(again, decided);
    assert_eq!(explained.sentence, format!("{first} train is ended: it completed"));
    let other = job(&world.state, &links, second, world.now).expect("state still has it");
    let alone = other.decided.expect("its decision is kept");
    assert!(alone.sentence.ends_with("no other budget had a job to start"), "{}", alone.sentence);
}
