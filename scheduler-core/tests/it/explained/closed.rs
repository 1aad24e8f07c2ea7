//! Nodes that somebody closed.

use scheduler_core::explain::{Explanation, job};
use scheduler_core::id::JobId;
use scheduler_core::node::{Cordon, Drain, Urgency};
use scheduler_core::plan::Links;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use super::check;
use crate::lab::{NOW, name, undated};
use crate::report::capacity::node;

fn explained(lab: &State, id: u32) -> Explanation {
    job(lab, &Links::all_ready(lab), JobId::new(id), NOW).expect("state has it")
}

fn drain(lab: &mut State, wanted: &str, begins_at: Timestamp) {
    node(lab, wanted).drain = Some(Drain {
        who: name("ada"),
        reason: "new cables".to_owned(),
        ordered_at: NOW,
        begins_at,
        is_active: begins_at <= NOW,
        urgency: Urgency::Normal,
    });
}

#[test]
fn nodes_that_somebody_closed_are_named_with_the_reason() {
    let mut lab = undated("node n1 4 h100\nnode n2 4 h100\nbudget a 100\njob 1 a 4");
    let cordon = Cordon { who: Some(name("ada")), reason: "ECC errors".to_owned(), since: NOW };
    node(&mut lab, "n1").cordon = Some(cordon);
    drain(&mut lab, "n2", NOW);
    check(
        &explained(&lab, 1),
        NOW,
        &["what it needs"],
        "1 job-1 is waiting: it would fit, but n1 is cordoned (ECC errors), and 1 more nodes take no work
         waiting.capacity, operator: it would fit, but n1 is cordoned (ECC errors), and 1 more nodes take no work
         what it may use now
         idle GPUs: 0
         what it may not use
         idle on n1: cordoned (ECC errors): 4 +0s
         idle on n2: draining (new cables): 4 +0s
         change the return of nodes that take no work now: starts now
         change its budget or turn: no effect now, the GPUs are not contested but occupied",
    );
}

#[test]
fn a_maintenance_window_keeps_away_what_it_would_cut() {
    let mut lab = undated("node n1 4 h100\nbudget a 100\njob 1 a 4 min=2h");
    drain(&mut lab, "n1", NOW.plus(Span::from_hours(1)));
    let found = explained(&lab, 1);
    let facts = &found.facts[2].facts;
    assert_eq!(facts[0].what, "idle on n1: to be drained before its protection would be over (new cables)");
    assert!(
        found
            .would_change
            .iter()
            .any(|line| line.starts_with("a minimum runtime of 50 min, over before the drain")),
        "{:?}",
        found.would_change
    );
    drain(&mut lab, "n1", NOW.plus(Span::from_mins(130)));
    assert!(explained(&lab, 1).facts[2].facts.is_empty(), "it would be over by then");
}
