//! Simulated futures: the same for the same seed, within what is promised, and honest about what they do not know.

use scheduler_core::agent::RankEvent;
use scheduler_core::command::Command;
use scheduler_core::future::{Lengths, Likely, Question, Range, likely};
use scheduler_core::id::{AttemptId, JobId, NodeId};
use scheduler_core::plan::{Links, plan};
use scheduler_core::unit::{Span, Timestamp};

use crate::random::Random;
use crate::world::{REPLICA, TERM, World, request};

const DAY: Span = Span::from_hours(24);

fn ask(world: &World, job: JobId, seed: u64, futures: u32) -> Option<Likely> {
    let question = Question { job, seed, futures, horizon: DAY };
    likely(&world.state, &Links::all_ready(&world.state), &question, world.now, |_| true)
}

/// Plans once; who starts on idle GPUs runs at once.
fn round(world: &mut World) {
    let state = &world.state;
    let mut made = plan(state, &Links::all_ready(state), world.now, TERM);
    made.decisions.retain(|start| start.takes.is_empty());
    let starts: Vec<(AttemptId, NodeId)> = made
        .decisions
        .iter()
        .map(|start| (AttemptId { job: start.job, no: start.attempt }, start.on[0].0))
        .collect();
    world.must(REPLICA, Command::Adopt(made));
    for (attempt, node) in starts {
        if world.state.attempts.get(&attempt).is_some_and(|attempt| attempt.go_at.is_some()) {
            world.report(node, attempt, RankEvent::Started);
        }
    }
}

/// A full cluster of two nodes, with jobs in line.
fn busy(seed: u64) -> World {
    let mut random = Random::new(seed);
    let mut world = World::new();
    world.node("n1", 4);
    world.node("n2", 4);
    for _ in 0..10 {
        let mut asked = request(u32::try_from(1 + random.below(4)).expect("few"));
        asked.min_runtime = Some(Span::from_mins(10 + 10 * random.below(18)));
        asked.budget = String::from(*random.pick(&["lang/post", "lang/pre"]));
        asked.time_limit = random.one_in(3).then_some(Span::from_hours(4));
        world.submit("bob", asked);
        round(&mut world);
        world.wait(Span::from_mins(random.below(8)));
    }
    world
}

fn waiting(world: &World) -> Vec<JobId> {
    world.state.line.keys().map(|place| place.job).collect()
}

#[test]
fn the_same_state_and_seed_make_the_same_range() {
    let world = busy(1);
    let job = *waiting(&world).last().expect("somebody waits");
    let (one, again) = (ask(&world, job, 7, 12), ask(&world, job, 7, 12));
    assert_eq!(one, again);
    let one = one.expect("it stands in line");
    assert_eq!((one.futures, one.seed, one.at, one.until), (12, 7, world.now, world.now.plus(DAY)));
    let other = ask(&world, job, 8, 12).expect("it stands in line");
    assert_ne!(one.starts, other.starts, "another seed draws other run times");
    // The first futures of many are the futures of few.
    let few = ask(&world, job, 7, 3).expect("it stands in line");
    assert!(few.starts.iter().all(|start| one.starts.contains(start)));
    assert_eq!(few.range(), Range::Unknown, "three futures tell no range");
}

#[test]
fn no_future_breaks_a_date_and_none_is_outside_of_its_time() {
    let (mut dated, mut asked) = (0, 0);
    for seed in 0..12 {
        let world = busy(seed);
        let grace = world.state.meta.settings.longest_grace();
        for job in waiting(&world).into_iter().take(4) {
            let answer = ask(&world, job, seed, 10).expect("it stands in line");
            assert_eq!(answer.futures, 10);
            assert!(answer.starts.is_sorted());
            let is_inside = |start: &Timestamp| world.now <= *start && *start <= world.now.plus(DAY);
            assert!(answer.starts.iter().all(is_inside), "seed {seed} job {job}: {:?}", answer.starts);
            asked += 1;
            let date = world.state.dates.iter().find(|((id, _), _)| *id == job).map(|(_, date)| date);
            let Some(date) = date else { continue };
            dated += 1;
            let by = date.promise.at.plus(grace);
            assert_eq!(answer.without(), 0, "seed {seed} job {job} has a date");
            assert!(answer.starts.iter().all(|start| *start <= by), "seed {seed} job {job}: {by:?}");
        }
    }
    assert!(dated >= 6 && asked > 2 * dated, "too little happened: {dated} of {asked}");
}

#[test]
fn who_can_start_now_starts_now_and_who_never_can_does_not() {
    let mut world = World::new();
    let node = world.node("n1", 4);
    let now = world.submit("bob", request(2));
    let answer = ask(&world, now, 1, 10).expect("it stands in line");
    assert_eq!(answer.range(), Range::Between { from: world.now, to: world.now });
    world.must(REPLICA, Command::NodeUnreachable { node });
    let answer = ask(&world, now, 1, 10).expect("it stands in line");
    assert_eq!((answer.range(), answer.without()), (Range::Later, 10));
    let running = JobId::new(9_999);
    assert_eq!(ask(&world, running, 1, 10), None, "nobody knows it");
}

#[test]
fn run_times_are_those_of_ended_jobs_of_the_user_and_budget() {
    let mut world = World::undated();
    let node = world.node("n1", 4);
    // Ten jobs of an hour's minimum ran for a quarter of an hour each.
    for _ in 0..10 {
        let job = world.submit("bob", request(4));
        let attempt = world.place(job, node, &[0, 1, 2, 3]);
        world.report(node, attempt, RankEvent::Started);
        world.wait(Span::from_mins(15)).exit(node, attempt, 0);
        world.report(node, attempt, RankEvent::Freed);
    }
    let ended = Lengths::of(&world.state).ended();
    assert!(ended >= 4, "those of the last hour are known: {ended}");
    for _ in 0..9 {
        let job = world.submit("bob", request(4));
        let attempt = world.place(job, node, &[0, 1, 2, 3]);
        world.report(node, attempt, RankEvent::Started);
        world.wait(Span::from_mins(6)).exit(node, attempt, 0);
        world.report(node, attempt, RankEvent::Freed);
    }
    assert!(Lengths::of(&world.state).ended() >= 8);
    let runs = world.submit("bob", request(4));
    let attempt = world.place(runs, node, &[0, 1, 2, 3]);
    world.report(node, attempt, RankEvent::Started);
    let waits = world.submit("bob", request(4));
    let answer = ask(&world, waits, 3, 40).expect("it stands in line");
    let Range::Between { from, to } = answer.range() else { panic!("{answer:?}") };
    // A quarter of an hour at most, where the minimum alone would say an hour; and never at once.
    assert!(world.now < from && to <= world.now.plus(Span::from_mins(17)), "{answer:?}");
}

#[test]
fn what_ran_longer_than_any_that_is_known_is_not_over_at_once() {
    let mut world = World::undated();
    let node = world.node("n1", 4);
    let runs = world.submit("bob", request(4));
    let attempt = world.place(runs, node, &[0, 1, 2, 3]);
    world.report(node, attempt, RankEvent::Started);
    world.wait(Span::from_hours(20));
    let waits = world.submit("bob", request(4));
    let answer = ask(&world, waits, 3, 40).expect("it stands in line");
    assert_eq!(answer.ended, 0);
    let Range::Between { from, to } = answer.range() else { panic!("{answer:?}") };
    assert!(world.now < from && from < to && to <= world.now.plus(DAY), "{answer:?}");
    assert!(to.since(from) > Span::from_hours(6), "nobody knows, and so is the range: {answer:?}");
}

#[test]
fn futures_end_when_their_time_is_up() {
    let world = busy(3);
    let job = *waiting(&world).last().expect("somebody waits");
    let question = Question { job, seed: 1, futures: 500, horizon: DAY };
    let links = Links::all_ready(&world.state);
    let mut left = 4;
    let mut goes_on = |run: u32| {
        assert!(run < 5);
        left -= 1;
        left >= 0
    };
    let answer = likely(&world.state, &links, &question, world.now, &mut goes_on).expect("it stands in line");
    assert_eq!((answer.futures, answer.range()), (4, Range::Unknown));
}
