use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::{at, founded, lab, name, node, who, with_lab};
use crate::budget::{apply_tree, diff, find, path, tree};
use crate::state::State;
use crate::unit::{Share, Span};

fn check(state: &State, file: &crate::budget::TreeNode, expected: &[&str]) {
    let changes: Vec<String> =
        diff(state, file).expect("a good file").iter().map(ToString::to_string).collect();
    assert_eq!(changes, expected);
}

#[test]
fn a_new_tree_is_opened_from_the_root_down() {
    check(
        &founded(),
        &lab(),
        &[
            "lab: member lab-member added",
            "robotics: opened with share 30%",
            "robotics/sim-rl: opened with share 60%",
            "robotics/grasp: opened with share 40%",
            "language: opened with share 50%",
            "language/posttrain: opened with share 30%",
            "language/pretrain: opened with share 70%",
        ],
    );
}

#[test]
fn each_change_is_one_line_in_words() {
    let state = with_lab();
    let mut file = lab();
    let pretrain = at(&mut file, "language/pretrain");
    pretrain.share = Share::from_ppm(655_000).expect("a share");
    pretrain.owner = None;
    pretrain.members = [name("ada")].into();
    pretrain.defaults.min_runtime = Some(Span::from_hours(2));
    pretrain.defaults.resumable = Some(true);
    at(&mut file, "robotics").children.pop();
    file.children.push(node("science", 20, vec![]));
    check(
        &state,
        &file,
        &[
            "robotics/grasp: closed, takes no more submissions and lets work finish (share was 40%)",
            "language/pretrain: share 70% -> 65.5%",
            "language/pretrain: owner pi-pretrain -> nobody",
            "language/pretrain: member ada added",
            "language/pretrain: member pretrain-member removed",
            "language/pretrain: default minimum runtime none -> 2h",
            "language/pretrain: default resumable none -> yes",
            "science: opened with share 20%",
        ],
    );
}

#[test]
fn the_tree_in_state_is_what_the_file_said() {
    let state = with_lab();
    assert_eq!(tree(&state), Some(lab()));
    check(&state, &lab(), &[]);
}

#[test]
fn a_file_that_changes_nothing_makes_no_revision() {
    let mut state = with_lab();
    let before = state.meta.tree;
    assert_eq!(apply_tree(&mut state, &lab(), &who("op")), Ok(vec![]));
    assert_eq!(state.meta.tree, before);
}

#[test]
fn a_closed_budget_gives_its_share_back_and_comes_back_as_itself() {
    let mut state = with_lab();
    let language = find(&state, "language").expect("it is there");
    let posttrain = find(&state, "language/posttrain").expect("it is there");
    let mut file = lab();
    file.children.pop();
    file.children.push(node("science", 70, vec![]));
    apply_tree(&mut state, &file, &who("op")).expect("70% + 30%");
    for id in [language, posttrain] {
        let closed = state.budgets.get(&id).expect("a closed budget stays");
        assert!(closed.is_closed);
        assert_eq!(closed.share.ppm(), 0);
    }
    assert_eq!(tree(&state).map(|tree| tree.children.len()), Some(2));
    check(&state, &file, &[]);
    apply_tree(&mut state, &lab(), &who("op")).expect("the first tree again");
    assert_eq!(find(&state, "language/posttrain"), Some(posttrain));
    assert_eq!(tree(&state), Some(lab()));
}

#[test]
fn the_root_can_have_another_name() {
    let mut state = with_lab();
    let mut file = lab();
    file.name = name("institute");
    check(&state, &file, &["lab: renamed from lab to institute"]);
    apply_tree(&mut state, &file, &who("op")).expect("a name is all that changed");
    assert_eq!(find(&state, "institute/language"), find(&state, "language"));
    assert!(find(&state, "language").is_some_and(|id| path(&state, id).len() == 2));
}
