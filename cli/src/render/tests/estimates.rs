//! Ranges of estimates, and what is said of budgets and of the last round.

use proto::v1::{DateView, Explanation, Fact, FactGroup, JobView, LikelyView, QueueView};

use super::{NOW, as_of, check, look};
use crate::render;

fn likely() -> LikelyView {
    LikelyView {
        from_at: Some(NOW + 2_280_000),
        to_at: Some(NOW + 9_600_000),
        confidence_percent: 80,
        futures: 50,
        until_at: NOW + 86_400_000,
        seed: 12,
        ended_jobs: 212,
        ..LikelyView::default()
    }
}

fn explained(likely: LikelyView) -> String {
    let waits = Explanation {
        as_of: as_of(),
        subject: "4190".into(),
        name: "train".into(),
        state: "waiting".into(),
        reason: "waiting.protection".into(),
        likely: Some(likely),
        ..Explanation::default()
    };
    render::explain::explain(&waits, &look())
}

#[test]
fn a_range_is_told_with_how_it_was_made_and_its_record() {
    check(
        &explained(likely()),
        "4190 train is WAITING (waiting.protection)
likely       14:40-16:42 (80 % of 50 simulated futures)
             run times as those of 212 ended jobs; new submissions and failures are not foreseen
",
    );
    let held = LikelyView { held_percent: Some(83), held_of: 41, ..likely() };
    let text = explained(held);
    assert!(
        text.contains("(80 % of 50 simulated futures; such ranges held 83 % of 41 times here)"),
        "{text}"
    );
    let late = LikelyView { to_at: None, without: 7, ended_jobs: 0, ..likely() };
    let text = explained(late);
    assert!(text.contains("not before 14:40; not before "), "{text}");
    assert!(text.contains(" in 7 of 50 simulated futures"), "{text}");
    assert!(text.contains("no ended job tells how long jobs run: drawn around their minimum"), "{text}");
    let nothing = LikelyView { nothing: "ask again".into(), ..LikelyView::default() };
    assert!(explained(nothing).contains("likely       not known: ask again\n"));
}

#[test]
fn a_budget_is_told_by_its_name_and_its_numbers() {
    let fact = |what: &str, value: &str| Fact { what: what.into(), value: value.into(), at: None };
    let why = Explanation {
        as_of: as_of(),
        subject: "language/posttrain".into(),
        state: "budget".into(),
        sentence: "language/posttrain is at 0.78 of its allocation and goes 1 of 2, before language/pretrain"
            .into(),
        facts: vec![FactGroup {
            title: "what it has set aside".into(),
            facts: vec![fact("set aside", "4.00 GPU-h")],
        }],
        ..Explanation::default()
    };
    check(
        &render::explain::explain(&why, &look()),
        "language/posttrain

why          language/posttrain is at 0.78 of its allocation and goes 1 of 2, before
             language/pretrain
what it has set aside
  set aside                4.00 GPU-h
",
    );
}

#[test]
fn the_queue_says_how_old_the_last_round_is_and_a_job_its_date() {
    let queue = QueueView { as_of: as_of(), last_round_at: Some(NOW - 4_000), ..QueueView::default() };
    let text = render::queue::queue(&queue, &look());
    assert!(text.contains("last round of planning 4 s ago\n"), "{text}");
    let unknown = QueueView { as_of: as_of(), ..QueueView::default() };
    assert!(!render::queue::queue(&unknown, &look()).contains("last round"));
    let date = DateView {
        date_at: NOW + 9_600_000,
        go_by_at: NOW + 9_720_000,
        unless: vec!["a node of it fails".into()],
        ..DateView::default()
    };
    let job = JobView { as_of: as_of(), state: "waiting".into(), date: Some(date), ..JobView::default() };
    let text = render::job::job(&job, &look());
    assert!(
        text.contains("  start        by 16:44 (its date is 16:42), unless a node of it fails\n"),
        "{text}"
    );
}
