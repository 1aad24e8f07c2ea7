//! What users of other schedulers suffered from (PEERS 3), and what happens here: each lesson as a law.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::agent::{EndedBy, RankEvent, Report};
use scheduler_core::command::Command;
use scheduler_core::decision::{Plan, Start};
use scheduler_core::id::{AttemptId, JobId, NodeId, Rank, Term};
use scheduler_core::job::{Exit, Phase};
use scheduler_core::plan::{Links, plan};
use scheduler_core::principal::Actor;
use scheduler_core::spec::Request;
use scheduler_core::unit::Span;

use crate::lab::{NOW, planned, state};
use crate::random::Random;
use crate::rounds::{round, two_budgets};
use crate::world::{World, request};

fn check(lines: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let found = planned(&state(lines));
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "\nin\n{lines}");
}

/// A world whose agents do what they are told, each notice used up to the kill.
struct Loop {
    world: World,
    /// Decisions with victims: the taker, and whom it took.
    takes: Vec<Start>,
    starts: usize,
}

impl Loop {
    fn new(world: World) -> Self {
        Self { world, takes: Vec::new(), starts: 0 }
    }

    fn submit(&mut self, budget: &str, gpus: u32, minutes: u64) -> JobId {
        let min_runtime = Some(Span::from_mins(minutes));
        self.world.submit("bob", Request { budget: String::from(budget), min_runtime, ..request(gpus) })
    }

    /// Five minutes pass: agents act, then a plan is made and adopted whole.
    fn step(&mut self) -> Plan {
        self.world.wait(Span::from_mins(5));
        self.agents();
        self.check_victims();
        let made = round(&mut self.world);
        self.starts += made.decisions.len();
        self.takes.extend(made.decisions.iter().filter(|start| !start.takes.is_empty()).cloned());
        self.agents();
        made
    }

    fn agents(&mut self) {
        let ids: Vec<AttemptId> = self.world.state.attempts.keys().copied().collect();
        for id in ids {
            let Some(attempt) = self.world.state.attempts.get(&id).cloned() else { continue };
            let is_told =
                attempt.stop.as_ref().is_some_and(|stop| stop.at.plus(stop.grace) <= self.world.now);
            let ranks: Vec<(Rank, NodeId)> = attempt.placements.iter().map(|p| (p.rank, p.node)).collect();
            for (rank, node) in ranks {
                if is_told {
                    let exit = Exit::Code(1);
                    self.report(
                        node,
                        id,
                        rank,
                        RankEvent::Exited { exit, by: EndedBy::Notice, saved_at: None },
                    );
                    self.report(node, id, rank, RankEvent::Freed);
                } else if attempt.go_at.is_none() {
                    self.report(node, id, rank, RankEvent::Ready);
                } else if attempt.started_at.is_none() {
                    self.report(node, id, rank, RankEvent::Started);
                }
            }
        }
    }

    fn report(&mut self, node: NodeId, attempt: AttemptId, rank: Rank, event: RankEvent) {
        let reports = vec![Report { attempt, rank, at: self.world.now, event }];
        self.world.must(Actor::Agent(node), Command::Reports { node, reports });
    }

    /// Whoever took somebody has its GPUs until its protection ends: nothing was taken in vain, nobody takes back.
    fn check_victims(&self) {
        for start in &self.takes {
            let id = AttemptId { job: start.job, no: start.attempt };
            let Some(attempt) = self.world.state.attempts.get(&id) else { continue };
            if let Some(stop) = &attempt.stop {
                let until = attempt.protected_until().expect("it started before it was told to leave");
                assert!(until <= stop.at, "{id} had its protection");
            }
        }
    }

    fn is_live(&self, job: JobId) -> bool {
        matches!(self.world.phase(job), Phase::Live(_))
    }
}

#[test]
fn lesson_1_one_preemption_and_then_peace() {
    let mut run = Loop::new(two_budgets([50, 50], 4));
    let free = run.submit("a", 4, 0);
    run.step();
    let funded = run.submit("b", 4, 60);
    for _ in 0..30 {
        run.step();
    }
    assert!(run.is_live(funded) && !run.is_live(free));
    assert_eq!((run.takes.len(), run.starts), (1, 2), "one goes, one comes, and nothing moves after");
    assert_eq!(run.world.job(free).progress.preemptions, 1);
}

#[test]
fn lesson_2_being_taken_does_not_make_the_victims_budget_take_back() {
    let mut run = Loop::new(two_budgets([50, 50], 4));
    run.submit("b", 4, 60);
    for _ in 0..12 * 24 {
        run.step();
    }
    let taker = run.submit("a", 4, 480);
    for _ in 0..12 * 8 {
        run.step();
    }
    // b's use was above a's by the margin at one moment only, and a is protected for eight hours.
    assert_eq!(run.takes.len(), 1);
    assert!(run.is_live(taker));
    for _ in 0..12 * 48 {
        run.step();
    }
    // Then they change places, each for its protection and the margin at least, or until a date of the other's: eight
    // hours for a, two for b.
    assert!((1..=11).contains(&run.takes.len()), "{}", run.takes.len());
}

#[test]
fn lesson_3_what_becomes_free_by_itself_saves_everybody() {
    check(
        "node n1 4 h100
         node n2 4 h100
         budget a 50
         budget b 50
         runs 90.1 b 4 n1 0-3 for=40h
         runs 91.1 b 4 n2 0-3 for=40h over
         job 1 a 4",
        "1 on n2:0,1,2,3",
    );
}

#[test]
fn lesson_4_one_gpu_is_needed_and_one_is_taken() {
    let runs: String = (0..8).map(|at| format!("runs 9{at}.1 b 1 n1 {at} for=40h\n")).collect();
    let lab = state(&format!("node n1 8 h100\nbudget a 50\nbudget b 50\n{runs}job 1 a 1"));
    let made = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
    let choice = made.decisions[0].why.choice.as_ref().expect("it takes one");
    assert_eq!((made.decisions[0].takes.len(), choice.lacked, choice.freed, choice.considered), (1, 1, 1, 8));
}

#[test]
fn lesson_5_nobody_is_moved_to_pack_others() {
    check(
        "node n1 8 h100
         node n2 8 h100
         budget a 50
         budget b 50
         runs 90.1 a 4 n1 0-3 for=40h
         runs 91.1 a 4 n2 0-3 for=40h
         job 1 a 8",
        "",
    );
}

#[test]
fn lesson_10_a_gang_is_one_preemption_whatever_its_size() {
    let mut world = two_budgets([50, 50], 2);
    for node in ["n2", "n3", "n4"] {
        world.node(node, 2);
    }
    let mut run = Loop::new(world);
    let mut shape = request(2);
    shape.shape.nodes = 4;
    let gang = Request { budget: String::from("a"), min_runtime: Some(Span::ZERO), ..shape };
    let gang = run.world.submit("bob", gang);
    run.step();
    let taker = run.submit("b", 1, 60);
    run.step();
    run.step();
    assert!(run.is_live(taker));
    assert_eq!((run.takes.len(), run.takes[0].takes.len(), run.takes[0].takes[0].gpus), (1, 1, 8));
    assert_eq!(run.world.job(gang).progress.preemptions, 1);
}

#[test]
fn lesson_12_a_gang_that_gave_way_comes_back_whole_before_fresh_jobs_of_its_budget() {
    // 1 ran before; 2 and 3 came while it did. There is room for one rank: it waits, and is never on a part.
    let nodes = "node n1 8 h100\nnode n2 8 h100\nbudget a 100\n";
    check(
        &format!("{nodes}runs 90.1 a 8 n2 0-7 for=1h min=2h\njob 1 a 2x8 ran=n1,n2\njob 2 a 8"),
        "2 on n1:0,1,2,3,4,5,6,7",
    );
    check(&format!("{nodes}job 1 a 2x8 ran=n1,n2\njob 2 a 8"), "1 on n1:0,1,2,3,4,5,6,7 n2:0,1,2,3,4,5,6,7");
}

#[test]
fn under_steady_demand_no_gpu_goes_back_and_forth_and_no_preemption_is_wasted() {
    let mut all = 0;
    for seed in 0..4 {
        let random = &mut Random::new(seed);
        let shares = *random.pick(&[[50, 50], [70, 30], [30, 60], [20, 20]]);
        let mut world = two_budgets(shares, 4);
        world.node("n2", 4);
        let mut run = Loop::new(world);
        let submit = |run: &mut Loop, random: &mut Random, budget: &str| {
            for _ in 0..5 {
                run.submit(budget, *random.pick(&[1, 1, 2, 4]), 15 * (1 + random.below(8)));
            }
        };
        // One has all of it for a day, then the other comes back.
        submit(&mut run, random, "a");
        for _ in 0..12 * 24 {
            run.step();
        }
        submit(&mut run, random, "b");
        submit(&mut run, random, "a");
        let mut taken_at: BTreeMap<JobId, Vec<u64>> = BTreeMap::new();
        for _ in 0..12 * 30 {
            let now = run.world.now.as_millis() / 60_000;
            let made = run.step();
            for take in made.decisions.iter().flat_map(|start| &start.takes) {
                taken_at.entry(take.attempt.job).or_default().push(now);
            }
        }
        all += run.takes.len();
        let wasted = run.world.state.bills.values().filter(|bill| bill.is_wasted == Some(true)).count();
        assert_eq!(wasted, 0, "seed {seed}");
        let takers: BTreeSet<AttemptId> =
            run.takes.iter().map(|start| AttemptId { job: start.job, no: start.attempt }).collect();
        let never = |id: &&AttemptId| {
            let live = run.world.state.attempts.get(id).map(|attempt| attempt.started_at);
            let past =
                run.world.job(id.job).past.iter().find(|past| past.no == id.no).map(|past| past.started_at);
            live.or(past).flatten().is_none()
        };
        assert!(
            takers.iter().filter(never).count() <= 2,
            "seed {seed}: those of the last step alone have not started"
        );
        for (job, moments) in &taken_at {
            let min = run.world.job(*job).terms.min_runtime.as_millis() / 60_000;
            let is_apart = moments.windows(2).all(|pair| pair[1] - pair[0] >= min);
            assert!(is_apart, "seed {seed}: {job} is protected each time: {moments:?}");
        }
    }
    assert!(all > 10, "somebody is taken: {all}");
}
