//! Jobs that run: who could take them, what that would cost, and what a drain means to them.

use scheduler_core::decision::{Basis, Right};
use scheduler_core::explain::{Explanation, job};
use scheduler_core::id::JobId;
use scheduler_core::node::{Drain, Urgency};
use scheduler_core::plan::Links;
use scheduler_core::state::State;
use scheduler_core::unit::{GpuMillis, Span, Timestamp};

use super::check;
use crate::lab::{NOW, name, state};
use crate::report::capacity::{attempt, live, node};

fn explained(lab: &State, id: u32) -> Explanation {
    job(lab, &Links::all_ready(lab), JobId::new(id), NOW).expect("state has it")
}

/// Two programs; 1 of `b/x` runs on eight GPUs, an hour past its protection. Both nodes are full.
const LAB: &str = "node n1 8 h100
    node n2 8 h100
    budget a 50
    budget b 50
    budget b/x 50
    budget b/y 50
    runs 1.1 b/x 8 n1 0-7 for=9h min=8h
    runs 90.1 a 8 n2 0-7 for=1h min=8h";

#[test]
fn who_could_take_it_is_told_with_the_level_and_the_numbers() {
    // Of 16 GPUs for a week a has 1,344 GPU-h, b/x and b/y have 672 each. a has 8 GPU-h and 56 set aside, b/x 72.
    let mut lab = state(LAB);
    live(&mut lab, 1).saved_at = Some(NOW.minus(Span::from_mins(7)));
    check(
        &explained(&lab, 1),
        NOW,
        &["what it needs"],
        "1 job-1 is running: its minimum runtime is over; it runs on, charged, until a job that goes before it needs its GPUs
         running.interruptible, nobody: its minimum runtime is over; it runs on, charged, until a job that goes before it needs its GPUs
         its run
         attempt: 1.1 -9h
         node: n1
         started: -9h
         protected until: -1h
         last checkpoint: -7m
         charged by this attempt: 72.00 GPU-h
         charged each hour: 8 GPUs
         who could take it
         b/y (0.00 < b/x 0.10): no job of it waits now
         the next plan: does not take it
         if it were preempted now
         lost: 1.60 GPU-h
         since its last checkpoint: 7 min x 8 GPUs = 0.93 GPU-h
         how that is known: reported by the job
         starting again, expected: 5 min x 8 GPUs = 0.66 GPU-h",
    );
}

/// Shows who could take job 1: the right, and the jobs that wait.
fn takers(lab: &State) -> Vec<String> {
    let takers = explained(lab, 1).takers.into_iter().map(|taker| {
        let right = match taker.right {
            Right::FreeTier => "free tier".to_owned(),
            Right::Turn => "turn".to_owned(),
            Right::Claim { .. } => "claim".to_owned(),
            Right::Lane { .. } => "lane".to_owned(),
            Right::Share { mine, theirs } => format!("{} < {}", mine.budget, theirs.budget),
        };
        let waiting: Vec<String> = taker.waiting.iter().map(|(id, _)| id.to_string()).collect();
        format!("{right}: {} +{}", waiting.join(","), taker.more)
    });
    takers.collect()
}

#[test]
fn jobs_that_could_take_it_are_named_by_budget() {
    let jobs = "job 2 a 8\njob 3 b/y 4\njob 4 b/x 8 first\njob 5 b/x 8\njob 6 b/y 9\njob 7 b/y 1 free";
    assert_eq!(takers(&state(&format!("{LAB}\n{jobs}"))), ["turn: 4 +0", "4 < 3: 3 +0"]);
    // Without a margin a's side goes first one level up, and so do all its jobs.
    let mut lab = state(&format!("{LAB}\n{jobs}"));
    lab.meta.settings.margin_ppm = 0;
    assert_eq!(takers(&lab), ["turn: 4 +0", "1 < 2: 2 +0", "4 < 3: 3 +0"]);
    let many: Vec<String> = (10..35).map(|job| format!("job {job} b/y 1")).collect();
    let found = takers(&state(&format!("{LAB}\n{}", many.join("\n"))));
    assert!(found[0].ends_with(",29 +5"), "{found:?}");
}

#[test]
fn the_free_tier_may_be_taken_by_every_funded_job() {
    let lab =
        state("node n1 8 h100\nbudget a 100\nruns 1.1 a 8 n1 0-7 for=1h free\njob 2 a 4\njob 3 a 4 free");
    assert_eq!(takers(&lab), ["free tier: 2 +0"]);
    let found = explained(&lab, 1);
    assert_eq!(found.reasons[0].token.as_str(), "running.free");
    let cost = found.cost_now.expect("it runs");
    assert_eq!((cost.basis, cost.lost()), (Basis::Unknown, GpuMillis::new(8 * 65 * 60_000)));
}

#[test]
fn what_a_preemption_would_cost_follows_the_rules_of_the_bill() {
    let cost = |change: fn(&mut State)| {
        let mut lab = state(LAB);
        change(&mut lab);
        let cost = explained(&lab, 1).cost_now.expect("it runs");
        (cost.basis, cost.age, cost.restart.span())
    };
    let (hours, mins) = (Span::from_hours, Span::from_mins);
    assert_eq!(cost(|_| {}), (Basis::Unknown, hours(9), mins(5)));
    let declared = |lab: &mut State| {
        lab.jobs.get_mut(&JobId::new(1)).expect("it is there").terms.checkpoint_every =
            Some(Span::from_mins(30));
    };
    assert_eq!(cost(declared), (Basis::Declared, mins(30), mins(5)));
    let not_resumable = |lab: &mut State| {
        lab.jobs.get_mut(&JobId::new(1)).expect("it is there").terms.resumable = false;
    };
    assert_eq!(cost(not_resumable), (Basis::Unknown, hours(9), Span::ZERO));
    let restarted = |lab: &mut State| {
        let progress = &mut lab.jobs.get_mut(&JobId::new(1)).expect("it is there").progress;
        progress.restarts = [3, 9, 4].map(Span::from_mins).to_vec();
        live(lab, 1).saved_at = Some(NOW.minus(Span::from_mins(2)));
    };
    assert_eq!(cost(restarted), (Basis::Reported, mins(2), mins(4)));
    // A checkpoint that only the leader knows counts too, one of the future as now.
    let lab = state(LAB);
    let age = |at: Timestamp| {
        let links = Links::all_ready(&lab).with_saves([(attempt(1), at)].into_iter().collect());
        job(&lab, &links, JobId::new(1), NOW).and_then(|found| found.cost_now).map(|cost| cost.age)
    };
    assert_eq!(age(NOW.minus(mins(4))), Some(mins(4)));
    assert_eq!(age(NOW.plus(mins(4))), Some(Span::ZERO));
}

fn drain(lab: &mut State, begins_at: Timestamp) {
    node(lab, "n1").drain = Some(Drain {
        who: name("ada"),
        reason: "a retired page".to_owned(),
        ordered_at: NOW,
        begins_at,
        is_active: begins_at <= NOW,
        urgency: Urgency::Normal,
    });
}

#[test]
fn a_drain_is_told_to_those_who_may_stay_for_now() {
    let mut lab = state("node n1 8 h100\nbudget a 100\nruns 1.1 a 8 n1 0-7 for=1h min=8h");
    drain(&mut lab, NOW);
    let told = |lab: &State| {
        let found = explained(lab, 1);
        let second = found.reasons.get(1).expect("it has two reasons");
        (found.reasons[0].token.as_str(), second.token.as_str(), second.sentence.clone(), second.until)
    };
    let text = "n1 drains (a retired page): it leaves when its protection ends".to_owned();
    let protected_until = Some(NOW.plus(Span::from_hours(7)));
    assert_eq!(told(&lab), ("running.protected", "running.draining", text, protected_until));
    let later = NOW.plus(Span::from_hours(9));
    drain(&mut lab, later);
    let text =
        "n1 is to be drained (a retired page): then it leaves, or when its protection ends if that is later";
    assert_eq!(told(&lab), ("running.protected", "running.draining", text.to_owned(), Some(later)));
}
