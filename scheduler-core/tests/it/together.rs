//! What is kept together: protection that ends at about the same time on one node, and a gang that takes in few groups.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use scheduler_core::id::{AttemptId, NodeId, Term};
use scheduler_core::plan::{Links, plan};
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use crate::lab::{NOW, planned, show, state, undated};
use crate::random::{Random, lab, lab_with_gangs};
use crate::reference::Naive;

fn check(lines: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lab = undated(lines);
    assert_eq!(planned(&lab).lines().collect::<Vec<_>>(), expected, "\nin\n{lines}");
}

#[test]
fn of_equally_full_nodes_it_is_the_one_whose_protection_ends_closest_to_its_own() {
    let lines = "budget a 100
         node n1 8 h100
         node n2 8 h100
         node n3 8 h100
         runs 91.1 a 4 n1 0-3 for=10m min=70m
         runs 92.1 a 4 n2 0-3 for=10m min=8h
         runs 93.1 a 4 n3 0-3 for=5h min=1h";
    check(&format!("{lines}\njob 1 a 4 min=7h"), "1 on n2:4,5,6,7");
    check(&format!("{lines}\njob 1 a 4 min=1h"), "1 on n1:4,5,6,7");
    check(&format!("{lines}\njob 1 a 4 min=5h"), "1 on n2:4,5,6,7");
    check(&format!("{lines}\njob 1 a 4 min=4h"), "1 on n1:4,5,6,7");
    // Nobody protects the third: it is the last that anybody takes, and of the free tier the first.
    check(&format!("{lines}\njob 1 a 4 free"), "1 on n3:4,5,6,7");
    // The fullest comes first, whatever its end.
    check(&format!("{lines}\nruns 94.1 a 2 n3 4-5 for=10m min=2h\njob 1 a 2 min=8h"), "1 on n3:6,7");
    // What this plan places counts for the next one.
    check(
        "budget a 100
         node n1 8 h100
         node n2 8 h100
         runs 91.1 a 2 n1 0-1 for=10m min=70m
         runs 92.1 a 2 n2 0-1 for=10m min=70m
         job 1 a 2 min=8h
         job 2 a 4 min=7h
         job 3 a 2 min=1h
         job 4 a 4 min=1h",
        "1 on n1:2,3
         2 on n1:4,5,6,7
         3 on n2:2,3
         4 on n2:4,5,6,7",
    );
}

#[test]
fn it_changes_who_starts_and_by_which_right_in_nothing() {
    let (mut starts, mut others) = (0, 0);
    for seed in 9000..9500 {
        let random = &mut Random::new(seed);
        let lines = if seed % 2 == 0 { lab(random) } else { lab_with_gangs(random) };
        let lab = undated(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let mut naive = Naive::new(&lab, NOW);
        for start in &plan.decisions {
            let job = naive.state.jobs.get(&start.job).expect("a known job").clone();
            let pool = naive.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
            let (with, without) =
                [true, false].map(|aligns| naive.idle_if(start.job, &job, &pool, aligns)).into();
            // Where it starts on idle GPUs it does so anyhow, and on nodes that are as full.
            assert_eq!(with.is_some(), without.is_some(), "seed {seed}\n{lines}");
            let is_idle = |node: &NodeId| {
                let record = naive.state.nodes.get(node).expect("a known node");
                record.gpus.iter().filter(|gpu| gpu.holder.is_none() && gpu.next.is_none()).count()
            };
            if let (Some(with), Some(without)) = (with, without) {
                let full = |on: &[(NodeId, Vec<scheduler_core::id::Slot>)]| {
                    on.iter().map(|(node, _)| is_idle(node)).collect::<Vec<_>>()
                };
                assert_eq!(full(&with), full(&without), "seed {seed}\n{lines}");
                starts += 1;
                others += u32::from(with != without);
            }
            let takes = start.takes.iter().map(|take| take.attempt).collect();
            naive.start(start.job, &job, &pool, start.on.clone(), takes);
        }
    }
    assert!(starts > 400 && others > 0, "{others} of {starts} start elsewhere");
}

/// Nodes half with work of different lengths, and as many jobs for the other halves.
fn halves(random: &mut Random) -> String {
    let mut text = String::from("budget a 100\n");
    for node in 1..=8 {
        let _ = writeln!(text, "node n{node} 8 h100");
    }
    for node in 1..=8 {
        let min = 1 + random.below(8);
        let _ = writeln!(text, "runs {}.1 a 4 n{node} 0-3 for=5m min={min}h", 90 + node);
    }
    for job in 1..=6 {
        let _ = writeln!(text, "job {job} a 4 min={}h", 1 + random.below(8));
    }
    text
}

/// When a first whole node is free of protection.
fn first_whole(lab: &State, starts: &Naive) -> Span {
    let until = |node: NodeId| {
        let running = lab.attempts.values().filter(|attempt| attempt.placements[0].node == node);
        let running = running.filter_map(|attempt| attempt.protected_until());
        let started = starts.starts.iter().filter(|(_, on, _)| on[0].0 == node);
        let started =
            started.map(|(id, ..)| NOW.plus(lab.jobs.get(id).expect("a known job").terms.min_runtime));
        running.chain(started).max().unwrap_or(Timestamp::ZERO)
    };
    lab.nodes.keys().map(|node| until(*node)).min().expect("there are nodes").since(NOW)
}

#[test]
fn a_whole_node_comes_free_sooner_for_it() {
    let (mut with, mut without) = (0, 0);
    for seed in 0..200 {
        let lab = undated(&halves(&mut Random::new(seed)));
        let of = |aligns| {
            let mut naive = Naive::new(&lab, NOW);
            naive.aligns = aligns;
            naive.all_pools();
            first_whole(&lab, &naive).as_millis()
        };
        (with, without) = (with + of(true), without + of(false));
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        assert_eq!(plan.decisions.len(), 6);
    }
    let mins = |sum: u64| sum / 200 / 60_000;
    println!("a first whole node after {} min on average, {} by number", mins(with), mins(without));
    assert!(with * 10 < without * 9, "{} and {} min", mins(with), mins(without));
}

/// How many groups a set of nodes spans, level by level, up to the first level with several.
fn spans(lab: &State, nodes: &BTreeSet<NodeId>) -> Vec<usize> {
    let mut spans = Vec::new();
    for level in 0..4 {
        let topology = |id: &NodeId| lab.nodes.get(id).expect("a known node").topology.clone();
        let count = nodes.iter().map(|id| topology(id).get(level).cloned()).collect::<BTreeSet<_>>().len();
        spans.push(count);
        if count > 1 {
            break;
        }
    }
    spans
}

#[test]
fn a_gang_that_takes_spans_the_fewest_groups_and_then_costs_least() {
    let racks = "budget a 50
         budget b 50
         node n1 4 h100 at=r1
         node n2 4 h100 at=r2
         node n3 4 h100 at=r1
         node n4 4 h100 at=r2
         runs 80.1 b 4 n1 0-3 for=90h min=1h
         runs 90.1 b 4 n2 0-3 for=9h min=1h pre=1
         runs 91.1 b 4 n3 0-3 for=9h min=1h pre=4
         runs 92.1 b 4 n4 0-3 for=9h min=1h pre=2\n";
    // The cheapest two are in different racks; of one rack the first is the dearer.
    check(&format!("{racks}job 1 a 2x4"), "1 on n2:0,1,2,3 n4:0,1,2,3 takes 90.1,92.1");
    check(&format!("{racks}job 1 a 3x4"), "1 on n1:0,1,2,3 n2:0,1,2,3 n4:0,1,2,3 takes 80.1,90.1,92.1");
    let (mut gangs, mut others) = (0, 0);
    for seed in 9500..10_300 {
        let random = &mut Random::new(seed);
        let lines = lab_with_gangs(random);
        let place = |line: &str| match line.starts_with("node ") {
            true => format!("{line} at={}", *random.pick(&["x/1", "x/2", "y/1", "y/1"])),
            false => line.to_owned(),
        };
        let lines = lines.lines().map(place).collect::<Vec<_>>().join("\n");
        let lab = undated(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let mut naive = Naive::new(&lab, NOW);
        for start in &plan.decisions {
            let job = naive.state.jobs.get(&start.job).expect("a known job").clone();
            let pool = naive.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
            let takes: Vec<AttemptId> = start.takes.iter().map(|take| take.attempt).collect();
            if start.on.len() > 1 && !takes.is_empty() {
                let able = naive.able(start.job, &job, &pool);
                let sets = subsets(&able, start.on.len());
                let fewest = sets.iter().map(|set| spans(&lab, set)).min().expect("at least its own");
                let its = start.on.iter().map(|(node, _)| *node).collect();
                assert_eq!(spans(&lab, &its), fewest, "{}\nseed {seed}\n{lines}", show(&plan, &lab));
                gangs += 1;
                others += u32::from(sets.iter().any(|set| spans(&lab, set) > fewest));
            }
            naive.start(start.job, &job, &pool, start.on.clone(), takes);
        }
    }
    assert!(gangs > 30 && others > 2, "{gangs} gangs take, {others} could have spanned more");
}

fn subsets(of: &[NodeId], size: usize) -> Vec<BTreeSet<NodeId>> {
    let all = 0..1_u32 << of.len();
    let chosen =
        all.map(|bits| (0..).zip(of).filter(move |(at, _)| bits & (1 << at) != 0).map(|(_, id)| *id));
    chosen.map(Iterator::collect).filter(|set: &BTreeSet<NodeId>| set.len() == size).collect()
}

#[test]
fn a_date_is_on_the_fewest_groups_of_those_that_are_free_by_then() {
    let lab = state(
        "budget a 50
         budget b 50
         node n0 8 h100 at=r0
         node n1 4 h100 at=r1
         node n2 4 h100 at=r2
         node n3 4 h100 at=r1
         runs 80.1 b 8 n0 0-7 for=90h min=96h
         runs 91.1 b 4 n1 0-3 for=1h min=3h pre=3
         runs 92.1 b 4 n2 0-3 for=1h min=3h
         runs 93.1 b 4 n3 0-3 for=1h min=3h pre=3
         job 1 a 2x4",
    );
    let made = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
    let [step] = made.dates.as_slice() else { panic!("one date: {made:?}") };
    let scheduler_core::decision::Step::Issue(promise) = &step.step else { panic!("{step:?}") };
    let nodes: Vec<u32> = promise.on.iter().map(|(node, _)| node.get()).collect();
    assert_eq!((nodes, promise.at.since(NOW)), (vec![2, 4], Span::from_hours(2)));
}
