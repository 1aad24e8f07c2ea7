//! The planner's decisions against the slow planner's, and what holds of them whatever the order.

use std::collections::BTreeSet;

use scheduler_core::decision::{Plan, Right};
use scheduler_core::id::{AttemptId, JobId, Name, NodeId, Term};
use scheduler_core::job::{Attempt, Job};
use scheduler_core::node::Node;
use scheduler_core::plan::{Links, plan};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use super::clusters::is_enough;
use super::{Naive, decided};
use crate::lab::{NOW, state, undated};
use crate::random::{lab, lab_with_gangs, spread};
use crate::story::plant;

#[test]
fn the_planner_agrees_with_a_slow_and_obvious_one() {
    plant();
    let (mut starts, mut takes, mut several) = (0, 0, 0);
    for seed in 0..600 {
        let lines = spread(seed, lab);
        let lab = undated(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let slow = Naive::plan(&lab, NOW);
        assert_eq!(decided(&plan), slow, "\nseed {seed}\n{lines}");
        starts += slow.len();
        takes += slow.iter().filter(|(_, _, takes)| !takes.is_empty()).count();
        several += slow.iter().filter(|(_, _, takes)| takes.len() > 1).count();
    }
    assert!(starts > 1000, "the laboratories start something: {starts}");
    assert!(takes > 100 && several > 20, "and take somebody: {takes}, and several: {several}");
}

#[test]
fn every_date_is_the_one_that_a_slow_and_obvious_planner_gives() {
    plant();
    let (mut dates, mut claims, mut with_cores) = (0, 0, 0);
    for seed in 5000..5400 {
        let lines = spread(seed, lab_with_gangs);
        let mut lab = state(&lines);
        // Dates stand, and their time comes; whoever starts does so again each time.
        for hours in [0, 1, 3, 9] {
            let now = NOW.plus(Span::from_hours(hours));
            let plan = plan(&lab, &Links::all_ready(&lab), now, Term::new(1));
            Naive::agrees(&lab, now, &plan, &format!("seed {seed}, after {hours} h\n{lines}"));
            let mut after = Naive::new(&lab, now);
            for number in 0..=plan.decisions.len() {
                after.take_steps(&plan, number);
            }
            dates += plan.dates.len();
            claims += plan.decisions.iter().filter(|start| is_claim(start)).count();
            lab.dates = after.state.dates;
            let asks = |job: &JobId| lab.jobs.get(job).is_some_and(|job| job.terms.shape.cpus.is_some());
            with_cores += plan.dates.iter().filter(|step| asks(&step.job)).count();
        }
    }
    assert!(dates > 200 && claims > 50, "{dates} dates, {claims} claims");
    assert!(with_cores > 40, "{with_cores} of those who ask for cores");
}

fn is_claim(start: &scheduler_core::decision::Start) -> bool {
    start.takes.iter().any(|take| matches!(take.right, Right::Claim { .. }))
}

#[test]
fn no_idle_gpu_is_left_that_a_waiting_job_could_use() {
    for seed in 1000..1200 {
        let lines = spread(seed, lab);
        let lab = undated(&lines);
        let mut after = Naive::new(&lab, NOW);
        for start in plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1)).decisions {
            let job = after.state.jobs.get(&start.job).expect("a known job").clone();
            let pool = after.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
            let takes = start.takes.iter().map(|take| take.attempt).collect();
            after.start(start.job, &job, &pool, start.on, takes);
        }
        let starts = after.starts.len();
        for pool in ["main", "west"].map(crate::lab::name) {
            while after.pass(&pool, Tier::Funded) {}
            after.pass(&pool, Tier::Free);
        }
        let more = &after.starts[starts..];
        assert!(more.is_empty(), "\nseed {seed}: {more:?} could start too\n{lines}");
    }
}

/// Checks what holds of every decision, whatever the order: the laws of a start that takes.
pub fn check_laws(lab: &State, now: Timestamp, plan: &Plan, what: &str) {
    let mut naive = Naive::new(lab, now);
    for (number, start) in plan.decisions.iter().enumerate() {
        naive.take_steps(plan, number);
        let job = naive.state.jobs.get(&start.job).expect("a known job").clone();
        let pool = naive.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
        let date = naive.state.dates.get(&(start.job, pool.clone())).map(|date| &date.promise);
        let is_claim = date.filter(|date| date.at <= now && !start.takes.is_empty());
        naive.claims = is_claim.map(|date| date.on.iter().map(|(node, _)| *node).collect());
        check_shape(&naive, &job, &pool, start, what);
        let takes: Vec<AttemptId> = start.takes.iter().map(|take| take.attempt).collect();
        for victim in &takes {
            assert!(naive.may_take(start.job, &job, *victim, &pool), "{victim} for {}\n{what}", start.job);
            let without: Vec<AttemptId> = takes.iter().copied().filter(|other| other != victim).collect();
            assert!(
                !naive.could_start(start.job, &job, &pool, &without),
                "{victim} may stay, for {}\n{what}",
                start.job
            );
        }
        let choice = start.why.choice.as_ref();
        assert_eq!(choice.is_some(), !takes.is_empty(), "{what}");
        if let Some(choice) = choice {
            let freed: usize = takes.iter().filter_map(|id| naive.attempt(*id)).map(gpus).sum();
            assert_eq!(usize::try_from(choice.freed), Ok(freed), "{what}");
            assert!(choice.lacked > 0 || !takes.is_empty(), "{what}");
            assert!(usize::try_from(choice.considered).expect("few") >= takes.len(), "{what}");
        }
        naive.claims = None;
        naive.start(start.job, &job, &pool, start.on.clone(), takes);
    }
}

fn gpus(attempt: &Attempt) -> usize {
    attempt.placements.iter().map(|placement| placement.slots.len()).sum()
}

fn check_shape(naive: &Naive, job: &Job, pool: &Name, start: &scheduler_core::decision::Start, what: &str) {
    let open: BTreeSet<NodeId> =
        naive.open(start.job, job, pool, Span::ZERO).into_iter().map(|(id, _)| id).collect();
    let nodes: BTreeSet<NodeId> = start.on.iter().map(|(node, _)| *node).collect();
    assert_eq!(nodes.len(), start.on.len(), "a gang is on different nodes\n{what}");
    assert_eq!(u32::try_from(nodes.len()), Ok(job.terms.shape.nodes), "a gang is whole\n{what}");
    assert!(nodes.is_subset(&open), "nodes take work\n{what}");
    let cluster = |node: &NodeId| &naive.state.nodes.get(node).expect("a known node").cluster;
    let clusters: BTreeSet<&Name> = nodes.iter().map(cluster).collect();
    assert_eq!(clusters.len(), 1, "a gang never leaves its cluster\n{what}");
    for (node, on) in &start.on {
        assert_eq!(u32::try_from(on.len()), Ok(job.terms.shape.gpus_per_node.get()), "{what}");
        for slot in on {
            let gpu = &naive.state.nodes.get(node).expect("a known node").gpus[usize::from(slot.get())];
            assert_eq!(gpu.next, None, "nobody else was promised it\n{what}");
            let is_taken = |holder: AttemptId| start.takes.iter().any(|take| take.attempt == holder);
            let comes = |holder: AttemptId| job.terms.tier == Tier::Funded && naive.comes_free(holder);
            assert!(gpu.holder.is_none_or(|holder| is_taken(holder) || comes(holder)), "{what}");
        }
    }
}

impl Naive {
    /// Whether a job would find its nodes if `takes` left.
    fn could_start(&self, id: JobId, job: &Job, pool: &Name, takes: &[AttemptId]) -> bool {
        let gone: BTreeSet<AttemptId> = takes.iter().copied().collect();
        let could = |(node_id, node): &(NodeId, Node)| {
            let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
            self.there((id, job), (*node_id, node), &gone).len() >= wanted
                && self.has_room_later(job, node, takes)
                && job.terms.tier == Tier::Funded
        };
        let nodes = self.open(id, job, pool, self.state.meta.settings.grace_max);
        is_enough(job, nodes.iter().filter(|node| could(node)).map(|(_, node)| node))
    }
}

#[test]
fn the_planner_agrees_with_a_slow_and_obvious_one_on_gangs() {
    let (mut gangs, mut takes, mut several) = (0, 0, 0);
    for seed in 4000..5000 {
        let lines = spread(seed, lab_with_gangs);
        let lab = undated(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let slow = Naive::agrees(&lab, NOW, &plan, &format!("seed {seed}\n{lines}"));
        let of_gangs = slow.iter().filter(|(_, on, _)| on.len() > 1);
        gangs += of_gangs.clone().count();
        takes += of_gangs.clone().filter(|(_, _, takes)| !takes.is_empty()).count();
        several += of_gangs.filter(|(_, _, takes)| takes.len() > 1).count();
    }
    assert!(gangs > 150 && takes > 60, "{gangs} gangs start, {takes} take somebody");
    assert!(several > 15, "and several: {several}");
}

#[test]
fn gangs_are_whole_and_whoever_gives_way_to_them_is_needed() {
    let (mut gangs, mut takes) = (0, 0);
    for seed in 2000..2800 {
        let lines = spread(seed, lab_with_gangs);
        let lab = undated(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        check_laws(&lab, NOW, &plan, &format!("seed {seed}\n{lines}"));
        let of_gangs = plan.decisions.iter().filter(|start| start.on.len() > 1);
        gangs += of_gangs.clone().count();
        takes += of_gangs.filter(|start| !start.takes.is_empty()).count();
    }
    assert!(gangs > 150 && takes > 60, "{gangs} gangs start, {takes} take somebody");
}

#[test]
fn a_gang_with_an_idle_or_coming_or_takeable_place_never_waits() {
    for seed in 3000..3300 {
        let lines = spread(seed, lab_with_gangs);
        let lab = undated(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let mut naive = Naive::new(&lab, NOW);
        for start in &plan.decisions {
            let job = naive.state.jobs.get(&start.job).expect("a known job").clone();
            let pool = naive.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
            let takes = start.takes.iter().map(|take| take.attempt).collect();
            naive.start(start.job, &job, &pool, start.on.clone(), takes);
        }
        let waiting: Vec<JobId> =
            naive.state.jobs.iter().filter(|(_, job)| job.phase.is_waiting()).map(|(id, _)| *id).collect();
        for id in waiting {
            let job = naive.state.jobs.get(&id).expect("a known job").clone();
            for pool in ["main", "west"].map(crate::lab::name) {
                if job.terms.tier == Tier::Free {
                    continue;
                }
                let all: Vec<AttemptId> = naive.state.attempts.keys().copied().collect();
                let all: Vec<AttemptId> =
                    all.into_iter().filter(|v| naive.may_take(id, &job, *v, &pool)).collect();
                let waits = naive.could_start(id, &job, &pool, &all);
                assert!(!waits, "{id} waits\nseed {seed}\n{lines}");
            }
        }
    }
}
