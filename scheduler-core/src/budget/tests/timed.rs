use std::string::{String, ToString as _};
use std::vec::Vec;

use super::{at, lab, name, node, who, with_lab};
use crate::apply::advance;
use crate::budget::{Became, TreeNode, apply_tree, cancel_edit, find, plan_edit, tree};
use crate::command::{ApplyBudgets, Code, Rejection};
use crate::id::EditId;
use crate::invariants;
use crate::principal::{AccountName, Principal};
use crate::state::State;
use crate::unit::{Share, Span, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn after(hours: u64) -> Timestamp {
    NOW.plus(Span::from_hours(hours))
}

fn founded() -> State {
    let mut state = with_lab();
    state.meta.time = NOW;
    for person in ["pi-lab", "pi-language"] {
        let principal = Principal {
            token: crate::id::TokenHash::new([u8::try_from(person.len()).expect("short"); 32]),
            account: AccountName::new("ana").expect("an account"),
            is_operator: false,
            is_revoked: false,
        };
        state.principals.insert(name(person), principal);
    }
    state
}

fn planned(state: &mut State, by: &str, file: &TreeNode, when: u64) -> Result<EditId, Rejection> {
    let (root, base) = (file.clone(), state.meta.tree);
    let asked = ApplyBudgets { root, base, reason: String::from("the new year"), at: Some(after(when)) };
    let now = state.meta.time;
    let planned = plan_edit(state, &asked, after(when), (&who(by), &name(by)), now);
    invariants::check_all(state).expect("it holds");
    planned
}

fn share(state: &State, path: &str) -> String {
    let id = find(state, path).expect("it is there");
    state.budgets.get(&id).expect("it is there").share.to_string()
}

fn with_share(path: &str, percent: u32) -> TreeNode {
    let mut file = lab();
    at(&mut file, path).share = Share::from_ppm(percent * 10_000).expect("a share");
    file
}

fn became(state: &State, id: EditId) -> Became {
    state.edits.get(&id).and_then(|edit| edit.became.clone()).expect("its time has come")
}

#[test]
fn an_edit_takes_effect_when_its_time_comes() {
    let mut state = founded();
    let id = planned(&mut state, "pi-lab", &with_share("robotics", 20), 5).expect("it may");
    let before = state.meta.tree;
    advance(&mut state, after(4));
    assert_eq!((share(&state, "robotics"), state.meta.tree), ("30%".into(), before));
    advance(&mut state, after(6));
    assert_eq!(share(&state, "robotics"), "20%");
    assert!(state.meta.tree > before);
    let Became::Applied { revision, changes } = became(&state, id) else { panic!("it holds") };
    assert_eq!(revision, state.meta.tree);
    let said: Vec<_> = changes.iter().map(|c| (&*c.budget, &*c.kind, &*c.before, &*c.after)).collect();
    assert_eq!(said, [("robotics", "share", "30%", "20%")]);
    invariants::check_all(&state).expect("it holds");
    // What became of it is known for eight days.
    advance(&mut state, after(5 + 8 * 24));
    assert!(state.edits.is_empty() && state.timers.is_empty());
}

#[test]
fn what_others_changed_since_stays() {
    let mut state = founded();
    let mut file = with_share("robotics", 20);
    at(&mut file, "language").children.push(node("agents", 0, std::vec![]));
    let id = planned(&mut state, "op", &file, 5).expect("it may");
    let mut other = lab();
    at(&mut other, "robotics").members.insert(name("new"));
    other.children.push(node("vision", 20, std::vec![]));
    apply_tree(&mut state, &other, &who("op")).expect("a good file");
    advance(&mut state, after(5));
    assert!(matches!(became(&state, id), Became::Applied { .. }));
    let mut now = tree(&state).expect("there is one");
    assert!(at(&mut now, "robotics").members.contains(&name("new")));
    assert_eq!((share(&state, "robotics"), share(&state, "vision")), ("20%".into(), "20%".into()));
    assert!(find(&state, "language/agents").is_some());
}

#[test]
fn an_edit_that_does_not_hold_any_more_is_dropped_whole_with_the_reason() {
    let changed = |state: &mut State| {
        apply_tree(state, &with_share("robotics", 25), &who("op")).map(drop).expect("a good file");
    };
    let filled = |state: &mut State| {
        apply_tree(state, &with_share("language", 70), &who("op")).map(drop).expect("a good file");
    };
    let revoked = |state: &mut State| {
        state.principals.get_mut(&name("pi-lab")).expect("it is there").is_revoked = true;
    };
    let disowned = |state: &mut State| {
        let mut file = lab();
        file.owner = Some(name("somebody"));
        apply_tree(state, &file, &who("op")).map(drop).expect("a good file");
    };
    type Happens = fn(&mut State);
    let cases: [(Happens, &str); 4] = [
        (changed, "the share of `lab/robotics` was changed since"),
        (filled, "the budgets below `lab` add up to 110%: robotics 40%, language 70%"),
        (revoked, "the token of `pi-lab`, who asked for it, opens nothing any more"),
        (disowned, "`pi-lab` may not change budget `robotics` (share 30% -> 40%)"),
    ];
    for (happens, reason) in cases {
        let mut state = founded();
        let id = planned(&mut state, "pi-lab", &with_share("robotics", 40), 5).expect("it may");
        happens(&mut state);
        let before = (tree(&state), state.meta.tree);
        advance(&mut state, after(5));
        assert_eq!(became(&state, id), Became::Dropped { why: reason.into() });
        assert_eq!((tree(&state), state.meta.tree), before);
        invariants::check_all(&state).expect("it holds");
    }
}

#[test]
fn an_edit_is_judged_when_it_is_asked_for() {
    let mut state = founded();
    let code = |refused: Result<EditId, Rejection>| refused.map_err(|refused| refused.code);
    let file = with_share("robotics", 20);
    assert_eq!(code(planned(&mut state, "pi-language", &file, 5)), Err(Code::NotAllowed));
    assert_eq!(code(planned(&mut state, "op", &lab(), 5)), Err(Code::BadTree));
    assert_eq!(code(planned(&mut state, "op", &with_share("robotics", 51), 5)), Err(Code::OverWhole));
    assert_eq!(code(planned(&mut state, "op", &file, 366 * 24 + 1)), Err(Code::BadSpec));
    assert!(state.edits.is_empty());
}

#[test]
fn who_asked_takes_it_back_or_whoever_may_edit_all() {
    let mut state = founded();
    let mut file = lab();
    at(&mut file, "language/pretrain").share = Share::from_ppm(600_000).expect("a share");
    for by in ["pi-language", "op", "pi-lab"] {
        let id = planned(&mut state, "pi-language", &file, 5).expect("it is below");
        let cancel = |state: &mut State, who: &str| cancel_edit(state, id, &name(who), "later", NOW);
        assert_eq!(cancel(&mut state, "pi-pretrain").map_err(|no| no.code), Err(Code::NotAllowed));
        assert_eq!(cancel(&mut state, by), Ok(()), "{by}");
        assert_eq!(cancel(&mut state, by).map_err(|no| no.code), Err(Code::NotFound));
        invariants::check_all(&state).expect("it holds");
    }
    assert!(state.timers.is_empty());
}
