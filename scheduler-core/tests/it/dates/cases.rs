//! Dates on small clusters: who gets one, for when and where, and who may start on what is reserved.

use scheduler_core::date::{Promise, Trouble, What};
use scheduler_core::decision::{DateStep, Plan, Step};
use scheduler_core::explain;
use scheduler_core::id::{DecisionId, JobId, Term};
use scheduler_core::lifecycle::place::protection;
use scheduler_core::plan::{Links, plan};
use scheduler_core::queue;
use scheduler_core::state::State;
use scheduler_core::unit::Span;

use crate::lab::{NOW, show, state};

fn made(state: &State) -> Plan {
    plan(state, &Links::all_ready(state), NOW, Term::new(1))
}

/// Shows dates as `7 at 8h on n1:0,1 after 90.1 by its protection` lines, each in its place among the starts.
fn shown(lines: &str) -> String {
    let state = state(lines);
    let made = made(&state);
    let mut text: Vec<String> = show(&made, &state).lines().map(str::to_owned).collect();
    for step in made.dates.iter().rev() {
        let Step::Issue(promise) = &step.step else { panic!("there was no date: {step:?}") };
        let mut line = format!("{} at {} on", step.job, promise.at.since(NOW));
        for (node, slots) in &promise.on {
            let slots: Vec<String> = slots.iter().map(ToString::to_string).collect();
            line += &format!(" {}:{}", state.nodes.get(node).expect("known").name, slots.join(","));
        }
        for awaited in &promise.awaits {
            line += &format!(" after {} {:?}", awaited.attempt, awaited.how);
        }
        text.insert(usize::from(step.after), line);
    }
    text.join("\n")
}

fn check(lines: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown(lines).lines().collect::<Vec<_>>(), expected, "\nin\n{lines}");
}

/// The dates that the next plan issues: whose, from now, and where.
fn promised(lab: &State) -> Vec<(u32, Span, String)> {
    let of = |step: &DateStep| {
        let Step::Issue(promise) = &step.step else { panic!("there was no date: {step:?}") };
        let nodes = promise.on.iter().map(|(node, _)| lab.nodes.get(node).expect("known").name.to_string());
        (step.job.get(), promise.at.since(NOW), nodes.collect::<Vec<_>>().join(" "))
    };
    made(lab).dates.iter().map(of).collect()
}

/// Two budgets, of which b has used more.
const USED: &str = "budget a 50
     budget b 50
     node n0 8 h100
     runs 80.1 b 8 n0 0-7 for=90h min=96h\n";

#[test]
fn the_first_that_cannot_be_placed_gets_a_date_and_nobody_else() {
    check(
        &format!(
            "{USED}
             node n1 4 h100
             runs 90.1 b 4 n1 0-3 for=1h min=4h
             job 1 a 4
             job 2 a 4
             job 3 b 4
             job 4 a 4 free"
        ),
        "1 at 3h on n1:0,1,2,3 after 90.1 Protection",
    );
    // What is taken, idle or comes free needs no date.
    check("node n1 2 h100\nbudget a 100\njob 1 a 2", "1 on n1:0,1");
    check("node n1 2 h100\nbudget a 100\njob 1 a 4", "");
}

#[test]
fn of_what_goes_first_a_date_waits_for_the_cap() {
    // b has used less: its attempt is past its protection, and stays until the cap after the issue.
    check(
        "node n1 4 h100
         budget a 50
         budget b 50
         runs 80.1 a 4 n1 0-3 for=99h was
         runs 90.1 b 4 n1 0-3 for=5h min=1h
         job 1 a 4",
        "1 at 8h on n1:0,1,2,3 after 90.1 Cap",
    );
    // An older one of its own budget too; a younger one, or one within the margin, two hours.
    check(
        "node n1 4 h100
         budget a 100
         runs 1.1 a 4 n1 0-3 for=5h min=1h
         job 2 a 4",
        "2 at 8h on n1:0,1,2,3 after 1.1 Cap",
    );
    check(
        "node n1 4 h100
         budget a 100
         runs 9.1 a 4 n1 0-3 for=5h min=1h
         job 2 a 4",
        "2 at 2h on n1:0,1,2,3 after 9.1 Margin",
    );
    check(
        "node n1 4 h100
         budget a 50
         budget b 50
         runs 90.1 b 4 n1 0-3 for=5h min=1h
         job 2 a 4",
        "2 at 2h on n1:0,1,2,3 after 90.1 Margin",
    );
}

#[test]
fn the_earliest_time_counts_and_then_the_price() {
    check(
        &format!(
            "{USED}
             node n1 4 h100
             node n2 4 h100
             node n3 4 h100
             runs 90.1 b 4 n1 0-3 for=1h min=4h saved=50m pre=2
             runs 91.1 b 4 n2 0-3 for=1h min=4h saved=1m
             runs 92.1 b 4 n3 0-3 for=1h min=5h
             job 1 a 4"
        ),
        "1 at 3h on n2:0,1,2,3 after 91.1 Protection",
    );
    check(
        &format!(
            "{USED}
             node n1 4 h100
             node n2 4 h100
             node n3 4 h100
             runs 90.1 b 4 n1 0-3 for=1h min=4h
             runs 91.1 b 4 n2 0-3 for=1h min=6h
             runs 92.1 b 4 n3 0-3 for=1h min=5h
             job 1 a 2x4"
        ),
        "1 at 4h on n1:0,1,2,3 n3:0,1,2,3 after 90.1 Protection after 92.1 Protection",
    );
}

#[test]
fn reserved_gpus_take_what_is_over_by_then_and_the_free_tier() {
    // Two GPUs of the node are idle and reserved with the others for the date in 3 h.
    let jobs = |job: &str| {
        format!(
            "{USED}
             node n1 4 h100
             runs 90.1 b 2 n1 0-1 for=1h min=4h
             job 1 a 4
             job 2 b 2 {job}"
        )
    };
    let date = "1 at 3h on n1:0,1,2,3 after 90.1 Protection";
    check(&jobs("min=2h"), &format!("{date}\n2 on n1:2,3"));
    check(&jobs("min=3h"), date);
    check(&jobs("free"), &format!("{date}\n2 on n1:2,3"));
    // Ten minutes to start are counted in.
    check(&jobs("min=170m"), &format!("{date}\n2 on n1:2,3"));
    check(&jobs("min=171m"), date);
}

#[test]
fn cores_are_reserved_with_the_gpus() {
    let jobs = |job: &str| {
        format!(
            "{USED}
             node n1 8 h100 cpus=64
             runs 90.1 b 4 n1 0-3 for=1h min=4h
             job 1 a 4 cpus=56
             job 2 b 1 min=5h {job}"
        )
    };
    // Its own cores come free with the other's GPUs, which it needs none of.
    assert!(shown(&jobs("cpus=8")).starts_with("1 at 3h on n1:"), "{}", shown(&jobs("cpus=8")));
    assert_eq!(shown(&jobs("cpus=9")).lines().count(), 1);
}

#[test]
fn cores_that_are_free_now_may_be_another_dates_at_a_later_one() {
    // Job 2 could be on the last GPU of n1 now, with the cores that job 1 has from 3 h on; n2 is free at 5 h only.
    let mut lab = state(&format!(
        "{USED}
         node n1 8 h100 cpus=64
         node n2 4 h100
         runs 90.1 b 4 n1 0-3 for=1h min=4h
         runs 92.1 b 4 n2 0-3 for=1h min=6h
         job 1 a 4 cpus=60 min=4h
         job 2 a 2x1 cpus=30"
    ));
    lab.meta.settings.more_dates_ppm = 1_000_000;
    let (one, two) = (String::from("n1"), String::from("n0 n2"));
    assert_eq!(promised(&lab), [(1, Span::from_hours(3), one), (2, Span::from_hours(6), two)]);
}

#[test]
fn a_date_counts_at_once_also_on_a_node_that_takes_no_work_now() {
    let mut lab = state(&format!("{USED}node n1 1 h100 backoff\njob 1 a 1\njob 2 a 1"));
    lab.meta.settings.more_dates_ppm = 1_000_000;
    // The second comes when the first is past its protection at the latest.
    let soon = Span::from_secs(10);
    let later = soon.plus(Span::from_mins(80));
    assert_eq!(promised(&lab), [(1, soon, String::from("n1")), (2, later, String::from("n1"))]);
}

#[test]
fn nodes_that_nobody_can_count_on_are_not_reserved() {
    check(
        &format!(
            "{USED}
             node n1 4 h100 gone
             node n2 4 h100 cordoned
             node n3 4 h100 drains
             node n4 4 h100 closes=5h
             node n5 4 h100
             runs 94.1 b 4 n4 0-3 for=1h min=5h
             runs 95.1 b 4 n5 0-3 for=1h min=7h
             job 1 a 4"
        ),
        "1 at 6h on n5:0,1,2,3 after 95.1 Protection",
    );
}

#[test]
fn who_cannot_have_a_date_is_in_nobodys_way() {
    check(
        &format!(
            "{USED}
             node n1 4 h100
             node n2 4 h100 cordoned
             runs 90.1 b 4 n1 0-3 for=1h min=4h
             job 1 a 3x4
             job 2 a 4"
        ),
        "2 at 3h on n1:0,1,2,3 after 90.1 Protection",
    );
}

#[test]
fn without_dates_nobody_gets_one() {
    let mut lab = state(&format!("{USED} node n1 4 h100\nruns 90.1 b 4 n1 0-3 for=1h min=4h\njob 1 a 4"));
    lab.meta.settings.dates = false;
    assert!(made(&lab).is_empty());
}

#[test]
fn what_is_reserved_and_for_whom_is_explained() {
    let mut lab = state(&format!(
        "{USED}
         node n1 4 h100
         runs 90.1 b 2 n1 0-1 for=1h min=4h
         job 1 a 4
         job 2 b 2 min=8h"
    ));
    super::issue(&mut lab);
    let links = Links::all_ready(&lab);
    let found = explain::job(&lab, &links, JobId::new(1), NOW).expect("state has it");
    let date = found.date.expect("it has one");
    assert_eq!(
        (date.promise.at.since(NOW), date.go_by.since(NOW)),
        (Span::from_hours(3), Span::from_mins(190))
    );
    assert_eq!(found.reasons[0].token.as_str(), "waiting.protection");
    assert_eq!(found.reasons[0].until, Some(date.promise.at));
    let group = found.facts.iter().find(|group| group.title == "its date").expect("it is told");
    assert!(group.facts.iter().any(|fact| fact.what == "with 90.1 (b)"), "{group:?}");
    let other = explain::job(&lab, &links, JobId::new(2), NOW).expect("state has it");
    assert_eq!(other.reasons[0].token.as_str(), "waiting.reserved");
    assert_eq!(other.reasons[0].until, Some(date.promise.at));
    let rows = queue::rows(&lab, &links, NOW);
    let shown: Vec<_> = rows.iter().map(|row| (row.reason.token.as_str(), row.date.is_some())).collect();
    assert_eq!(shown, [("waiting.protection", true), ("waiting.reserved", false)]);
}

#[test]
fn a_date_is_told_with_its_moves_and_its_decision_names_its_job() {
    let lines = format!("{USED}\n node n1 4 h100\n runs 90.1 b 4 n1 0-3 for=1h min=4h\n job 1 a 4");
    let mut lab = state(&lines);
    super::issue(&mut lab);
    let (key, mut date) =
        lab.dates.iter().map(|(key, date)| (key.clone(), date.clone())).next().expect("one");
    let (from, to) = (date.promise.at, date.promise.at.plus(Span::from_hours(1)));
    let trouble = Trouble { node: date.promise.on[0].0, what: What::Cordoned };
    date.moves_to(Promise { at: to, ..date.promise.clone() }, trouble, NOW);
    let decision = date.decision;
    lab.dates.insert(key, date);
    assert_eq!(explain::dated_by(&lab, decision), Some(JobId::new(1)));
    let other = DecisionId { n: decision.n + 1, ..decision };
    assert_eq!(explain::dated_by(&lab, other), None);
    let found = explain::job(&lab, &Links::all_ready(&lab), JobId::new(1), NOW).expect("state has it");
    let group = found.facts.iter().find(|group| group.title == "its date").expect("it is told");
    let told: Vec<_> =
        group.facts.iter().map(|fact| (fact.what.as_str(), fact.value.as_str(), fact.at)).collect();
    let moved =
        [("moved, later", "n1 is cordoned", Some(NOW)), ("from", "", Some(from)), ("to", "", Some(to))];
    assert!(told.ends_with(&moved), "{told:?}");
}

#[test]
fn more_jobs_have_dates_where_a_setting_says_so() {
    let lines = format!(
        "{USED}
         node n1 4 h100
         node n2 4 h100
         runs 90.1 b 4 n1 0-3 for=1h min=4h
         runs 91.1 b 4 n2 0-3 for=1h min=5h
         job 1 a 4
         job 2 a 4
         job 3 a 4"
    );
    for (ppm, dates) in [(0, 1), (200_000, 1), (250_000, 2), (500_000, 3)] {
        let mut lab = state(&lines);
        lab.meta.settings.more_dates_ppm = ppm;
        assert_eq!(made(&lab).dates.len(), dates, "{ppm}");
        super::issue(&mut lab);
        assert!(made(&lab).is_empty(), "planning twice changes nothing");
    }
}

#[test]
fn later_attempts_are_protected_for_less_where_a_setting_says_so() {
    let mut lab = state("node n1 4 h100\nbudget a 100\njob 1 a 4 min=8h every=30m ran=n1");
    let job = lab.jobs.get_mut(&JobId::new(1)).expect("it is there");
    job.past[0].started_at = Some(NOW);
    let protected = |lab: &State| {
        let job = lab.jobs.get(&JobId::new(1)).expect("it is there");
        protection(lab, JobId::new(1), job)
    };
    assert_eq!(protected(&lab), Span::from_hours(8));
    lab.meta.settings.short_later = true;
    // To start again, to save once more, and to leave.
    assert_eq!(protected(&lab), Span::from_mins(35).plus(Span::from_secs(30)));
}
