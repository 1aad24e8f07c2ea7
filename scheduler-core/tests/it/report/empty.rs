//! When a node is empty by.

use scheduler_core::id::{LogIndex, NodeId};
use scheduler_core::job::{AttemptEnd, Ended, Exit, Stop, StopCause};
use scheduler_core::node::{Contact, Drain, Urgency};
use scheduler_core::report::{Emptying, Order, empty_by, empty_by_order};
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use super::capacity::{attempt, live, node};
use crate::lab::{NOW, name, state};

const N1: NodeId = NodeId::new(1);

/// Shows what leaves a node: `1.1 8 GPUs until +30m, notice +30m, leaves +30m30s`.
fn check(found: &Emptying, expected: &str) {
    let after = |at: Option<Timestamp>| at.map_or("-".to_owned(), |at| format!("+{}", at.since(NOW)));
    let jobs = found.jobs.iter().map(|job| {
        let cut = if job.cuts.is_zero() { String::new() } else { format!(", cut {}", job.cuts) };
        let resumes = if job.is_resumable { "" } else { ", ends" };
        format!(
            "{} {} GPUs until {}, notice {}, leaves {}{cut}{resumes}",
            job.attempt,
            job.gpus,
            after(job.protected_until),
            after(job.notice_at),
            after(job.leaves_by)
        )
    });
    let shown: Vec<String> = jobs.chain([format!("empty by {}", after(found.at))]).collect();
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(shown, expected, "found\n{}", shown.join("\n"));
}

/// Protected for 30 min more, for 5 h more; past its protection; free. Their grace is 30 s.
fn lab() -> State {
    state(
        "node n1 8 h100
         node n2 8 h100
         budget a 100
         runs 1.1 a 2 n1 0-1 for=30m min=1h
         runs 2.1 a 2 n1 2-3 for=3h min=8h
         runs 3.1 a 1 n1 4 for=3h min=1h
         runs 4.1 a 1 n1 5 for=3h free
         runs 5.1 a 8 n2 0-7 for=1m min=8h",
    )
}

#[test]
fn a_node_is_empty_when_the_last_protection_and_its_grace_are_over() {
    let mut lab = lab();
    lab.jobs.get_mut(&attempt(3).job).expect("it is there").terms.resumable = false;
    check(
        &empty_by(&lab, N1, NOW).expect("a known node"),
        "2.1 2 GPUs until +5h, notice +5h, leaves +5h30s
         1.1 2 GPUs until +30m, notice +30m, leaves +30m30s
         3.1 1 GPUs until +0s, notice +0s, leaves +30s, ends
         4.1 1 GPUs until -, notice +0s, leaves +30s
         empty by +5h30s",
    );
    assert_eq!(empty_by(&lab, NodeId::new(9), NOW), None);
}

#[test]
fn a_deadline_or_now_cuts_protection_and_says_how_much() {
    let lab = lab();
    let order = |urgency| Order { begins_at: NOW, urgency };
    let deadline = order(Urgency::Deadline(NOW.plus(Span::from_hours(1))));
    check(
        &empty_by_order(&lab, N1, deadline, NOW).expect("a known node"),
        "2.1 2 GPUs until +5h, notice +59m30s, leaves +1h, cut 4h30s
         1.1 2 GPUs until +30m, notice +30m, leaves +30m30s
         3.1 1 GPUs until +0s, notice +0s, leaves +30s
         4.1 1 GPUs until -, notice +0s, leaves +30s
         empty by +1h",
    );
    let soon = order(Urgency::Deadline(NOW.plus(Span::from_secs(10))));
    check(
        &empty_by_order(&lab, N1, soon, NOW).expect("a known node"),
        "1.1 2 GPUs until +30m, notice +0s, leaves +10s, cut 30m
         2.1 2 GPUs until +5h, notice +0s, leaves +10s, cut 5h
         3.1 1 GPUs until +0s, notice +0s, leaves +10s
         4.1 1 GPUs until -, notice +0s, leaves +10s
         empty by +10s",
    );
    check(
        &empty_by_order(&lab, N1, order(Urgency::Now), NOW).expect("a known node"),
        "1.1 2 GPUs until +30m, notice +0s, leaves +30s, cut 30m
         2.1 2 GPUs until +5h, notice +0s, leaves +30s, cut 5h
         3.1 1 GPUs until +0s, notice +0s, leaves +30s
         4.1 1 GPUs until -, notice +0s, leaves +30s
         empty by +30s",
    );
}

#[test]
fn a_drain_that_begins_later_lets_work_go_on_until_then() {
    let mut lab = lab();
    node(&mut lab, "n1").drain = Some(Drain {
        who: name("ada"),
        reason: "new cables".to_owned(),
        ordered_at: NOW,
        begins_at: NOW.plus(Span::from_hours(2)),
        is_active: false,
        urgency: Urgency::Normal,
    });
    check(
        &empty_by(&lab, N1, NOW).expect("a known node"),
        "2.1 2 GPUs until +5h, notice +5h, leaves +5h30s
         1.1 2 GPUs until +30m, notice +2h, leaves +2h30s
         3.1 1 GPUs until +0s, notice +2h, leaves +2h30s
         4.1 1 GPUs until -, notice +2h, leaves +2h30s
         empty by +5h30s",
    );
}

#[test]
fn what_was_told_to_leave_has_its_grace_and_what_never_ran_leaves_at_once() {
    let mut lab = lab();
    let cause = StopCause::Cancel { who: name("ann"), reason: String::new() };
    live(&mut lab, 1).stop = Some(Stop { at: NOW, cause, grace: Span::from_secs(20) });
    let placed = live(&mut lab, 2);
    (placed.go_at, placed.started_at, placed.start_by) = (None, None, NOW.plus(Span::from_mins(10)));
    let now = Order { begins_at: NOW, urgency: Urgency::Now };
    let cuts = |lab: &State| {
        let found = empty_by_order(lab, N1, now, NOW).expect("a known node");
        found.jobs.iter().find(|job| job.attempt == attempt(2)).map(|job| job.cuts)
    };
    assert_eq!(cuts(&lab), Some(Span::ZERO), "it has no go, and lost nothing");
    live(&mut lab, 2).go_at = Some(NOW);
    assert_eq!(cuts(&lab), Some(Span::from_hours(8)));
    live(&mut lab, 2).go_at = None;
    live(&mut lab, 4).ended = Some(Ended { at: NOW, cause: AttemptEnd::Exited, exit: Some(Exit::Code(0)) });
    check(
        &empty_by(&lab, N1, NOW).expect("a known node"),
        "3.1 1 GPUs until +0s, notice +0s, leaves +30s
         1.1 2 GPUs until +30m, notice -, leaves +20s
         2.1 2 GPUs until +8h10m, notice +0s, leaves +0s
         4.1 1 GPUs until -, notice -, leaves -
         empty by -",
    );
}

#[test]
fn nothing_bounds_a_node_that_nobody_hears_of_and_an_empty_one_is_empty_now() {
    let mut lab = lab();
    node(&mut lab, "n1").contact = Contact::Unreachable { since: NOW };
    assert_eq!(empty_by(&lab, N1, NOW).and_then(|found| found.at), None);
    lab.meta.index = LogIndex::new(7);
    let empty = state("node n1 8 h100\nbudget a 100");
    check(&empty_by(&empty, N1, NOW).expect("a known node"), "empty by +0s");
}
