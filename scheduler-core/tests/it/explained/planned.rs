//! What the next plan will do is said before it does it.

use scheduler_core::explain::{Token, job};
use scheduler_core::id::{JobId, Term};
use scheduler_core::plan::{Links, plan};
use scheduler_core::queue::rows;
use scheduler_core::state::State;

use crate::lab::{NOW, state};

/// 1 of `b` is past its protection on all GPUs; 2 of `a` has used nothing.
const LAB: &str = "node n1 8 h100
    budget a 50
    budget b 50
    runs 1.1 b 8 n1 0-7 for=20h min=1h
    job 2 a 4";

fn explained(lab: &State, id: u32) -> scheduler_core::explain::Explanation {
    job(lab, &Links::all_ready(lab), JobId::new(id), NOW).expect("state has it")
}

#[test]
fn the_one_that_takes_and_the_one_that_gives_way_both_say_so() {
    let lab = state(LAB);
    let waiting = explained(&lab, 2);
    assert_eq!(
        waiting.reasons.iter().map(|reason| reason.token).collect::<Vec<_>>(),
        [Token::WaitingEvaluation]
    );
    assert_eq!(
        waiting.sentence,
        "2 job-2 is waiting: it starts with the next plan, which takes GPUs from 1.1"
    );
    let usable: Vec<String> =
        waiting.facts[1].facts.iter().map(|fact| format!("{}: {}", fact.what, fact.value)).collect();
    assert_eq!(
        usable,
        [
            "idle GPUs: 0",
            "from 1.1 (b): 8: it was past its protection, and a was at 0.00 of its allocation, b at 0.23; they part in lab"
        ]
    );
    let running = explained(&lab, 1);
    let last = running.facts.iter().find(|group| group.title == "who could take it").expect("it is told");
    let told: Vec<String> = last.facts.iter().map(|fact| format!("{}: {}", fact.what, fact.value)).collect();
    assert_eq!(told, ["a (0.00 < b 0.23): waiting now: 2 job-2", "the next plan: takes it for 2.1"]);
}

#[test]
fn a_job_behind_one_that_takes_what_it_needs_waits_for_the_line() {
    let lab = state(&format!("{LAB}\njob 3 a 8"));
    let shown: Vec<(u32, &str)> = rows(&lab, &Links::all_ready(&lab), NOW)
        .iter()
        .map(|row| (row.job.get(), row.reason.token.as_str()))
        .collect();
    assert_eq!(shown, [(2, "waiting.evaluation"), (3, "waiting.order")]);
}

#[test]
fn a_right_that_is_seen_is_the_right_that_is_used() {
    let lab = state(LAB);
    let decided = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
    let takers = explained(&lab, 1).takers;
    assert_eq!(decided.decisions[0].takes[0].right, takers[0].right);
}

#[test]
fn to_be_first_in_its_budget_starts_what_only_its_own_budget_holds_up() {
    let lab = state("node n1 8 h100\nbudget a 100\nruns 1.1 a 8 n1 0-7 for=5h min=1h\njob 2 a 4");
    assert_eq!(explained(&lab, 2).would_change, ["to be first in its budget: starts now"]);
    let smaller = state(
        "node n1 4 h100\nnode n2 8 h100\nbudget a 50\nbudget b 50\nruns 1.1 b 4 n1 0-3 for=20h min=1h
         runs 3.1 b 8 n2 0-7 for=1h min=4h\njob 2 a 8",
    );
    assert_eq!(
        explained(&smaller, 2).would_change,
        [
            "4 GPUs instead of 8: starts now",
            "its budget or turn: no effect now, the GPUs are not contested but occupied"
        ]
    );
}
