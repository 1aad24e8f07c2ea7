use std::string::{String, ToString};
use std::vec;

use super::{at, founded, lab, name, node, who, with_lab};
use crate::budget::{
    ROOT, apply_tree, defaults, effective_share, find, for_submission, is_worth_nothing, label, path_of,
};
use crate::command::Code;
use crate::unit::Span;

#[test]
fn a_path_may_begin_with_the_root() {
    let state = with_lab();
    let leaf = find(&state, "language/pretrain");
    assert!(leaf.is_some());
    assert_eq!(find(&state, "lab/language/pretrain"), leaf);
    assert_eq!(find(&state, "lab"), Some(ROOT));
    for unknown in ["", "/", "pretrain", "lab/lab", "language/", "lab/language/pretrain/x"] {
        assert_eq!(find(&state, unknown), None, "{unknown}");
    }
    let id = leaf.expect("found above");
    assert_eq!(path_of(&state, id).to_string(), "language/pretrain");
    assert_eq!((label(&state, id), label(&state, ROOT)), ("language/pretrain".into(), "lab".into()));
}

#[test]
fn a_budget_with_the_roots_name_is_found_first() {
    let mut state = founded();
    let file = node("lab", 100, vec![node("lab", 50, vec![node("x", 10, vec![])]), node("x", 10, vec![])]);
    apply_tree(&mut state, &file, &who("op")).expect("a good file");
    let below = |text: &str| find(&state, text).map(|id| path_of(&state, id).to_string());
    assert_eq!(below("lab").as_deref(), Some("lab"));
    assert_eq!(below("lab/x").as_deref(), Some("lab/x"));
    assert_eq!(below("lab/lab/x").as_deref(), Some("lab/x"));
    assert_eq!(below("x").as_deref(), Some("x"));
}

fn refused(text: &str, member: &str) -> (Code, String, String) {
    let mut state = with_lab();
    let mut file = lab();
    at(&mut file, "robotics").children.pop();
    apply_tree(&mut state, &file, &who("op")).expect("one closed");
    let refusal = for_submission(&state, text, &name(member)).expect_err(text);
    (refusal.code, refusal.what, refusal.fix)
}

#[test]
fn a_submission_names_an_open_leaf_of_its_own() {
    let state = with_lab();
    let leaf = find(&state, "language/pretrain").expect("it is there");
    assert_eq!(for_submission(&state, "lab/language/pretrain", &name("language-member")), Ok(leaf));

    let check = |text: &str, member: &str, code: Code, what: &str, fix: &str| {
        assert_eq!(refused(text, member), (code, what.to_string(), fix.to_string()));
    };
    check(
        "language/pretrian",
        "lab-member",
        Code::UnknownBudget,
        "there is no budget `language/pretrian`",
        "did you mean `language/pretrain`?",
    );
    check(
        "pretrain",
        "lab-member",
        Code::UnknownBudget,
        "there is no budget `pretrain`",
        "did you mean `language/pretrain`?",
    );
    check(
        "chemistry",
        "lab-member",
        Code::UnknownBudget,
        "there is no budget `chemistry`",
        "`bursar budget tree` lists them",
    );
    check(
        "language",
        "lab-member",
        Code::InnerBudget,
        "budget `language` has budgets below it",
        "name one below it, such as `language/posttrain`, `language/pretrain`",
    );
    check(
        "robotics/grasp",
        "lab-member",
        Code::ClosedBudget,
        "budget `robotics/grasp` is closed",
        "submit to another budget; `bursar budget tree` lists them",
    );
    check(
        "language/pretrain",
        "posttrain-member",
        Code::NotAllowed,
        "`posttrain-member` is not a member of budget `language/pretrain` or of one above it",
        "ask `pi-pretrain`, who owns it, or submit to a budget of yours",
    );
}

#[test]
fn the_nearest_default_counts_for_each_term_alone() {
    let mut state = founded();
    let mut file = lab();
    file.defaults.min_runtime = Some(Span::from_hours(1));
    file.defaults.resumable = Some(false);
    at(&mut file, "language").defaults.resumable = Some(true);
    at(&mut file, "language/pretrain").defaults.time_limit = Some(Span::from_hours(9));
    apply_tree(&mut state, &file, &who("op")).expect("a good file");
    let of = |text: &str| defaults(&state, find(&state, text).expect("it is there"));
    let pretrain = of("language/pretrain");
    assert_eq!(pretrain.min_runtime, Some(Span::from_hours(1)));
    assert_eq!(pretrain.resumable, Some(true));
    assert_eq!(pretrain.time_limit, Some(Span::from_hours(9)));
    assert_eq!(of("robotics/grasp").resumable, Some(false));
    assert_eq!(of("robotics/grasp").time_limit, None);
}

#[test]
fn a_share_up_to_the_root_is_the_product() {
    let mut state = founded();
    let mut file = lab();
    at(&mut file, "robotics").share = crate::unit::Share::default();
    apply_tree(&mut state, &file, &who("op")).expect("a good file");
    let of = |text: &str| find(&state, text).expect("it is there");
    assert_eq!(effective_share(&state, of("language/pretrain")).to_string(), "35%");
    assert_eq!(effective_share(&state, ROOT).to_string(), "100%");
    assert!(is_worth_nothing(&state, of("robotics/grasp")));
    assert!(!is_worth_nothing(&state, of("language/pretrain")));
}
