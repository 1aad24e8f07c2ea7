//! The short lane: what short jobs may take by it, and what longer ones leave to it.

use scheduler_core::agent::RankEvent;
use scheduler_core::bill::BillCause;
use scheduler_core::command::{Command, Outcome};
use scheduler_core::decision::{Dropped, Plan, Right};
use scheduler_core::explain;
use scheduler_core::id::{AttemptId, AttemptNo, JobId, NodeId, Term};
use scheduler_core::plan::{Links, plan};
use scheduler_core::settings::Settings;
use scheduler_core::spec::Request;
use scheduler_core::state::State;
use scheduler_core::unit::Span;

use crate::lab::{NOW, show, state};
use crate::random::{Random, lab, lab_with_gangs};
use crate::reference::Naive;
use crate::reference::lane::{gpus, is_lane, is_longer};
use crate::story::check as live;
use crate::world::{REPLICA, World, request};

fn lab_of(lines: &str, ppm: u32) -> State {
    let mut lab = state(lines);
    (lab.meta.settings.short_lane_ppm, lab.meta.settings.dates) = (ppm, false);
    lab
}

fn made(lab: &State) -> Plan {
    plan(lab, &Links::all_ready(lab), NOW, Term::new(1))
}

/// Twenty GPUs with a lane of a tenth of them.
fn check(lines: &str, expected: &str) {
    let lab = lab_of(&format!("{TWENTY}{lines}"), 100_000);
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(show(&made(&lab), &lab).lines().collect::<Vec<_>>(), expected, "\nin\n{lines}");
}

const TWENTY: &str = "budget a 50
     budget b 50
     node n1 8 h100
     node n2 8 h100
     node n3 4 h100\n";

/// All of them with one budget, past its protection.
const FULL: &str = "runs 90.1 b 8 n1 0-7 for=2h min=1h
     runs 91.1 b 8 n2 0-7 for=2h min=1h
     runs 92.1 b 4 n3 0-3 for=2h min=1h\n";

#[test]
fn a_short_job_takes_what_nobody_protects_while_the_lane_has_room() {
    let short = "min=10m limit=20m";
    // It has no other right to work of its own budget.
    check(&format!("{FULL}job 1 b 1 {short}"), "1 on n3:0 takes 92.1");
    check(&format!("{FULL}job 1 b 1 min=10m"), "");
    check(&format!("{FULL}job 1 b 1 min=16m limit=20m"), "");
    check(&format!("{FULL}job 1 b 1 min=10m limit=31m"), "");
    let off = lab_of(&format!("{TWENTY}{FULL}job 1 b 1 {short}"), 0);
    assert!(made(&off).is_empty());
    // Of a longer job before it in its budget it is no matter.
    check(&format!("{FULL}job 1 b 1 min=2h\njob 2 b 1 {short}"), "2 on n3:0 takes 92.1\n1 on n3:1");
    // Two GPUs are the lane: the second and the third fit in what the first one's victim leaves over.
    check(
        &format!("{FULL}job 1 b 1 {short}\njob 2 b 4 {short}"),
        "1 on n3:0 takes 92.1\n2 on n1:0,1,2,3 takes 90.1",
    );
    check(&format!("{FULL}job 1 b 2 {short}\njob 2 b 4 {short}"), "1 on n3:0,1 takes 92.1");
}

#[test]
fn what_is_protected_or_of_the_lane_itself_is_not_taken_by_it() {
    let short = "min=10m limit=20m";
    let taken = "runs 90.1 b 8 n1 0-7 for=2h min=3h
         runs 91.1 b 8 n2 0-7 for=2h min=3h
         runs 92.1 b 3 n3 0-2 for=2h min=3h\n";
    check(&format!("{taken}runs 93.1 b 1 n3 3 for=20m min=10m limit=29m\njob 1 b 1 {short}"), "");
    check(&format!("{taken}runs 93.1 b 1 n3 3 for=20m min=10m\njob 1 b 1 {short}"), "1 on n3:3 takes 93.1");
    // Nine GPUs are too many for it.
    let nine = "node n4 9 h100\nruns 94.1 b 9 n4 0-8 for=2h min=1h\n";
    check(&format!("{taken}{nine}job 1 b 9 {short}"), "");
    check(&format!("{taken}{nine}job 1 b 8 {short}"), "1 on n4:0,1,2,3,4,5,6,7 takes 94.1");
}

#[test]
fn longer_jobs_leave_the_lane_unprotected_on_idle_gpus_too() {
    let most = "runs 90.1 a 8 n1 0-7 for=1h min=3h
         runs 91.1 a 8 n2 0-7 for=1h min=3h\n";
    check(&format!("{most}job 1 b 2\njob 2 b 2"), "1 on n3:0,1");
    check(&format!("{most}job 1 b 2\njob 2 b 2 min=15m limit=30m"), "1 on n3:0,1\n2 on n3:2,3");
    check(&format!("{most}job 1 b 2\njob 2 b 2 free"), "1 on n3:0,1\n2 on n3:2,3");
    // What is past its protection is none of that.
    check(
        "runs 90.1 a 8 n1 0-7 for=5h min=3h\njob 1 b 8\njob 2 b 4",
        "1 on n2:0,1,2,3,4,5,6,7\n2 on n3:0,1,2,3",
    );
    // A job that alone is larger than all the rest is not held to it.
    let lab = lab_of("budget a 100\nnode n1 8 h100\njob 1 a 8", 100_000);
    assert_eq!(show(&made(&lab), &lab), "1 on n1:0,1,2,3,4,5,6,7\n");
}

#[test]
fn the_first_gets_a_date_for_when_it_leaves_the_lane_unprotected_and_then_starts() {
    let lines = "runs 90.1 a 8 n1 0-7 for=1h min=3h
         runs 91.1 a 8 n2 0-7 for=1h min=4h
         job 1 b 4";
    let mut lab = lab_of(&format!("{TWENTY}{lines}"), 100_000);
    lab.meta.settings.dates = true;
    crate::dates::issue(&mut lab);
    let date = lab.dates.values().next().expect("it has one");
    assert_eq!(date.promise.at.since(NOW), Span::from_hours(2), "{date:?}");
    assert!(date.promise.awaits.is_empty(), "its GPUs are idle: {date:?}");
    let found = explain::job(&lab, &Links::all_ready(&lab), JobId::new(1), NOW).expect("state has it");
    let lane =
        found.reasons.iter().find(|reason| reason.token.as_str() == "waiting.lane").expect("it is told");
    assert!(
        lane.sentence.contains("10 % of the GPUs") && lane.sentence.contains("16 of 18"),
        "{}",
        lane.sentence
    );
    // At its date it starts, whatever is protected then.
    let then = date.promise.at;
    lab.meta.time = then;
    for attempt in [90, 91] {
        let id = AttemptId { job: JobId::new(attempt), no: AttemptNo::new(1) };
        lab.attempts.get_mut(&id).expect("it runs").protection = Span::from_hours(20);
    }
    let made = plan(&lab, &Links::all_ready(&lab), then, Term::new(1));
    assert_eq!(show(&made, &lab), "1 on n3:0,1,2,3\n");
}

#[test]
fn it_is_billed_and_explained_as_the_lane() {
    let mut story = live(
        "window 24h
         lane 25
         dates off
         budget a 50
         budget b 50
         node n1 4
         submit long b 4 min=30m saves=10m lasts=20h
         run 1h
         submit short b 1 min=10m limit=20m lasts=15m
         run 5m
         long waits
         takes 1",
    );
    let take = story.starts.iter().flat_map(|start| &start.takes).next().expect("one was taken").clone();
    assert_eq!(take.right, Right::Lane { occupied: 0, part: 1 });
    let causes: Vec<BillCause> = story.world.state.bills.values().map(|bill| bill.cause).collect();
    assert_eq!(causes, [BillCause::Lane]);
    let links = Links::all_ready(&story.world.state);
    let found = explain::job(&story.world.state, &links, story.id("long"), story.world.now).expect("known");
    let told = format!("{found:?}");
    assert!(told.contains("short jobs had 0 of the 1 GPU of their lane"), "{told}");
    story.tell("run 30m\nlong runs");
}

/// A world with a lane of half of its four GPUs, and somebody of `lang/pre` on all of them, past its protection.
fn crowded() -> (World, NodeId, AttemptId) {
    let mut world =
        World::with(Settings { allow_simulated: true, short_lane_ppm: 500_000, ..Settings::default() });
    let node = world.node("n1", 4);
    let old = world.submit("bob", Request { budget: String::from("lang/pre"), ..request(3) });
    let victim = world.place(old, node, &[0, 1, 2]);
    world.wait(Span::from_secs(1)).report(node, victim, RankEvent::Started);
    world.wait(Span::from_hours(2));
    (world, node, victim)
}

fn short(gpus: u32) -> Request {
    Request { min_runtime: Some(Span::from_mins(10)), time_limit: Some(Span::from_mins(20)), ..request(gpus) }
}

#[test]
fn a_plan_that_comes_late_takes_nothing_by_a_lane_that_is_full_or_not_the_jobs() {
    let (mut world, node, victim) = crowded();
    let by_lane = Right::Lane { occupied: 0, part: 2 };
    let long = world.submit("bob", request(1));
    let dropped = world.try_start(long, &[(node, &[0])], &[(victim, by_lane)]);
    assert_eq!(dropped, Some(Dropped::NoLane), "it is no short job");
    let (one, other) = (world.submit("bob", short(1)), world.submit("bob", short(1)));
    let one = world.start(one, &[(node, &[3])], &[]);
    world.report(node, one, RankEvent::Started);
    world.wait(Span::from_mins(11));
    let dropped = world.try_start(other, &[(node, &[3])], &[(one, by_lane)]);
    assert_eq!(dropped, Some(Dropped::VictimChanged), "short jobs leave one another alone");
    let third = world.submit("bob", short(1));
    let second = world.start_of(other, &[(node, &[0])], &[(victim, by_lane)]);
    let third = world.start_of(third, &[(node, &[1])], &[(victim, by_lane)]);
    let answer = world.must(REPLICA, Command::Adopt(crate::world::plan(vec![second, third])));
    assert_eq!(answer, Outcome::Adopted { adopted: 1, dropped: vec![(1, Dropped::VictimChanged)] });
    let fourth = world.submit("bob", short(1));
    let dropped = world.try_start(fourth, &[(node, &[2])], &[(victim, by_lane)]);
    assert_eq!(dropped, Some(Dropped::VictimChanged), "it leaves already");
}

#[test]
fn a_plan_that_comes_late_protects_no_more_than_longer_jobs_may() {
    let mut world =
        World::with(Settings { allow_simulated: true, short_lane_ppm: 500_000, ..Settings::default() });
    let node = world.node("n1", 4);
    let jobs: Vec<JobId> = (0..3).map(|_| world.submit("bob", request(1))).collect();
    let starts = (0..).zip(&jobs).map(|(slot, job)| world.start_of(*job, &[(node, &[slot])], &[])).collect();
    let answer = world.must(REPLICA, Command::Adopt(crate::world::plan(starts)));
    assert_eq!(answer, Outcome::Adopted { adopted: 2, dropped: vec![(2, Dropped::LaneKept)] });
    let small = world.submit("bob", short(1));
    world.start(small, &[(node, &[2])], &[]);
    let whole = world.submit("bob", request(4));
    assert_eq!(world.try_start(whole, &[(node, &[0, 1, 2, 3])], &[]), Some(Dropped::GpuTaken));
}

/// A random laboratory, in which about half of the waiting jobs are short.
fn with_short_jobs(lines: &str, random: &mut Random) -> String {
    let short = |line: &str| {
        let is_short = line.starts_with("job ") && random.one_in(2);
        let words = line.split(' ').map(|word| match word.strip_prefix("min=") {
            Some(_) if is_short => "min=10m limit=30m",
            Some(_) | None => word,
        });
        words.collect::<Vec<_>>().join(" ")
    };
    lines.lines().map(short).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_planner_agrees_with_the_slow_one_on_lanes_and_nobody_oversteps_them() {
    let (mut by_lane, mut kept) = (0, 0);
    for seed in 7000..7500 {
        let random = &mut Random::new(seed);
        let lines = if seed % 2 == 0 { lab(random) } else { lab_with_gangs(random) };
        let lines = with_short_jobs(&lines, random);
        let ppm = *random.pick(&[250_000, 500_000]);
        let lab = lab_of(&lines, ppm);
        let plan = made(&lab);
        let what = format!("seed {seed}, a lane of {ppm}\n{lines}");
        Naive::agrees(&lab, NOW, &plan, &what);
        let mut naive = Naive::new(&lab, NOW);
        for start in &plan.decisions {
            let job = naive.state.jobs.get(&start.job).expect("a known job").clone();
            let pool = naive.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
            let (part, rest) = naive.lane(&pool).expect("there is one");
            let takes_by_it = start.takes.iter().any(|take| matches!(take.right, Right::Lane { .. }));
            by_lane += u32::from(takes_by_it);
            assert!(!takes_by_it || is_lane(&job) && naive.in_lane(&pool) < part, "{}\n{what}", start.job);
            let protected = naive.protected_beside(&pool) + gpus(&job);
            let is_bound = is_longer(&job) && gpus(&job) <= rest;
            assert!(!is_bound || protected <= rest, "{} protects too much\n{what}", start.job);
            let takes = start.takes.iter().map(|take| take.attempt).collect();
            naive.start(start.job, &job, &pool, start.on.clone(), takes);
        }
        let mut off = lab.clone();
        off.meta.settings.short_lane_ppm = 0;
        kept += u32::from(made(&off).decisions.len() > plan.decisions.len());
    }
    assert!(by_lane > 12 && kept > 5, "{by_lane} take by it, {kept} times somebody waits for it");
}

#[test]
fn a_flood_of_short_jobs_stays_in_its_lane_and_the_long_ones_get_on() {
    let mut text = String::from(
        "window 24h
         lane 25
         budget a 50
         budget b 50
         node n1 8
         submit long b 8 min=1h saves=20m lasts=6h\nrun 90m\n",
    );
    for n in 0..60 {
        text += &format!("submit s{n} b 1 min=5m limit=10m lasts=8m\n");
    }
    let story = live(&format!("{text}run 24h"));
    assert!(story.stands("long").starts_with("ended completed"), "{}", story.stands("long"));
    let taken = story.taken().len();
    assert!((1..8).contains(&taken), "it gives way, and gets on between: {taken}");
}
