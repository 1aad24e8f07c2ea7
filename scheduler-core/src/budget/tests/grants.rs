use std::string::{String, ToString as _};

use super::{at, lab, name, who, with_lab};
use crate::apply::advance;
use crate::budget::{Standing, apply_tree, effective_share, end_grant, find, grant, is_worth_nothing, label};
use crate::command::{Code, GrantShare, Rejection};
use crate::id::{BudgetId, GrantId};
use crate::invariants;
use crate::state::State;
use crate::unit::{Share, Span, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn after(hours: u64) -> Timestamp {
    NOW.plus(Span::from_hours(hours))
}

fn percent(percent: u32) -> Share {
    Share::from_ppm(percent * 10_000).expect("a share")
}

fn asked(to: &str, more: u32, until: u64) -> GrantShare {
    GrantShare {
        to: String::from(to),
        from: None,
        share: percent(more),
        begins_at: None,
        until: after(until),
        reason: String::from("a deadline"),
    }
}

fn founded() -> State {
    let mut state = with_lab();
    state.meta.time = NOW;
    state
}

fn made(state: &mut State, by: &str, asked: &GrantShare) -> Result<GrantId, Rejection> {
    let now = state.meta.time;
    let made = grant(state, asked, (&who(by), &name(by)), now);
    invariants::check_all(state).expect("it holds");
    made
}

fn refused(state: &mut State, by: &str, asked: &GrantShare) -> Rejection {
    let before = state.digest();
    let refused = made(state, by, asked).expect_err("it is refused");
    assert_eq!(before, state.digest());
    refused
}

fn share(state: &State, path: &str) -> String {
    let id = find(state, path).expect("it is there");
    std::format!("{}", state.budgets.get(&id).expect("it is there").share_at(state.meta.time))
}

fn id(state: &State, path: &str) -> BudgetId {
    find(state, path).expect("it is there")
}

#[test]
fn a_grant_adds_and_ends_by_itself() {
    let mut state = founded();
    // 20 % of the lab are unassigned.
    let later = GrantShare { begins_at: Some(after(1)), ..asked("robotics", 20, 3) };
    let grant = made(&mut state, "pi-lab", &later).expect("it fits");
    assert_eq!(share(&state, "robotics"), "30%");
    advance(&mut state, after(1));
    assert_eq!((share(&state, "robotics"), share(&state, "language")), ("50%".into(), "50%".into()));
    assert_eq!(effective_share(&state, id(&state, "robotics/grasp")).to_string(), "20%");
    advance(&mut state, after(3));
    assert_eq!(share(&state, "robotics"), "30%");
    let kept = state.grants.get(&grant).expect("it counts while its time is in the window");
    assert_eq!(kept.standing(state.meta.time), Standing::Over);
    advance(&mut state, after(3 + 7 * 24 + 1));
    assert!(state.grants.is_empty() && state.timers.is_empty());
    assert!(state.budgets.values().all(|budget| budget.slices.is_empty()));
}

#[test]
fn a_sibling_gives_what_it_has() {
    let mut state = founded();
    let from = |more| GrantShare { from: Some("robotics".into()), ..asked("language", more, 2) };
    made(&mut state, "op", &from(10)).expect("robotics has 30 %");
    assert_eq!((share(&state, "robotics"), share(&state, "language")), ("20%".into(), "60%".into()));
    let over = refused(&mut state, "op", &from(21));
    assert_eq!(over.code, Code::OverWhole);
    assert_eq!(over.what, "`robotics` has 30% and would give 31% at once: 10% by grant 0, 21% by grant 1");
    // Behind the first there is room.
    let after_it = GrantShare { begins_at: Some(after(2)), until: after(4), ..from(21) };
    made(&mut state, "op", &after_it).expect("one ends as the other begins");
}

#[test]
fn the_whole_is_never_exceeded_at_any_moment() {
    let mut state = founded();
    let late = GrantShare { begins_at: Some(after(5)), ..asked("language", 15, 9) };
    made(&mut state, "op", &late).expect("20 % are unassigned");
    let over = refused(&mut state, "op", &asked("robotics", 6, 6));
    assert_eq!(over.code, Code::OverWhole);
    assert!(over.what.contains("grants from what nobody has would add 21%"), "{over:?}");
    made(&mut state, "op", &asked("robotics", 6, 5)).expect("it ends before the other begins");
    // Nor by an edit of the tree.
    let mut file = lab();
    at(&mut file, "language").share = percent(60);
    let over = apply_tree(&mut state, &file, &who("op")).expect_err("70 + 15 + 30");
    assert_eq!(over.code, Code::OverWhole);
}

#[test]
fn who_may_edit_may_grant() {
    let mut state = founded();
    for by in ["pi-language", "pi-posttrain", "posttrain-member", "nobody"] {
        let from = GrantShare { from: Some("robotics".into()), ..asked("language", 1, 1) };
        assert_eq!(refused(&mut state, by, &from).code, Code::NotAllowed, "{by}");
    }
    let from = GrantShare { from: Some("language/pretrain".into()), ..asked("language/posttrain", 5, 1) };
    assert_eq!(refused(&mut state, "pi-posttrain", &from).code, Code::NotAllowed);
    let grant = made(&mut state, "pi-language", &from).expect("it is below");
    let end = |state: &mut State, by: &str| {
        let now = state.meta.time;
        end_grant(state, grant, (&who(by), &name(by)), "done", now)
    };
    assert_eq!(end(&mut state, "pi-posttrain").map_err(|refused| refused.code), Err(Code::NotAllowed));
    advance(&mut state, NOW.plus(Span::from_mins(5)));
    assert_eq!(end(&mut state, "pi-lab"), Ok(()));
    assert_eq!(share(&state, "language/posttrain"), "30%");
    invariants::check_all(&state).expect("it holds");
    assert_eq!(end(&mut state, "pi-lab").map_err(|refused| refused.code), Err(Code::Stale));
}

#[test]
fn what_cannot_be_is_refused_with_its_fix() {
    let mut state = founded();
    let good = asked("language", 5, 1);
    let cases = [
        (GrantShare { to: "lang".into(), ..good.clone() }, Code::UnknownBudget),
        (GrantShare { to: "lab".into(), ..good.clone() }, Code::BadSpec),
        (GrantShare { reason: " ".into(), ..good.clone() }, Code::BadSpec),
        (GrantShare { share: Share::default(), ..good.clone() }, Code::BadSpec),
        (GrantShare { until: NOW, ..good.clone() }, Code::BadSpec),
        (GrantShare { until: after(366 * 24 + 1), ..good.clone() }, Code::BadSpec),
        (GrantShare { from: Some("language".into()), ..good.clone() }, Code::BadSpec),
        (GrantShare { from: Some("robotics/grasp".into()), ..good.clone() }, Code::BadSpec),
    ];
    for (bad, code) in cases {
        let refused = refused(&mut state, "op", &bad);
        assert_eq!(refused.code, code, "{bad:?}");
        assert!(!refused.fix.is_empty(), "{refused:?}");
    }
}

#[test]
fn closing_a_budget_ends_its_grants() {
    let mut state = founded();
    let running = GrantShare { from: Some("robotics".into()), ..asked("language", 10, 9) };
    made(&mut state, "op", &running).expect("it fits");
    let later = GrantShare { begins_at: Some(after(3)), ..running };
    made(&mut state, "op", &later).expect("it fits");
    advance(&mut state, after(1));
    let mut file = lab();
    file.children.retain(|child| child.name != name("robotics"));
    apply_tree(&mut state, &file, &who("op")).expect("a good file");
    invariants::check_all(&state).expect("it holds");
    assert_eq!(share(&state, "language"), "50%");
    assert_eq!(state.grants.len(), 1, "the one that had not begun is gone");
    let ended = state.grants.values().next().and_then(|grant| grant.ended.clone()).expect("it ended early");
    assert_eq!((ended.by, label(&state, id(&state, "robotics"))), (None, "robotics".into()));
}

#[test]
fn a_budget_without_share_is_worth_something_by_a_grant() {
    let mut state = founded();
    let mut file = lab();
    at(&mut file, "robotics").share = Share::default();
    apply_tree(&mut state, &file, &who("op")).expect("a good file");
    let grasp = id(&state, "robotics/grasp");
    assert!(is_worth_nothing(&state, grasp));
    made(&mut state, "op", &asked("robotics", 10, 1)).expect("it fits");
    assert!(!is_worth_nothing(&state, grasp));
    advance(&mut state, after(1));
    assert!(is_worth_nothing(&state, grasp));
}
