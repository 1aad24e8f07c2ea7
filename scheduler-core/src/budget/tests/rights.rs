use std::vec;

use super::{at, lab, name, node, who, with_lab};
use crate::budget::{TreeNode, apply_tree, find, is_member, owns, tree};
use crate::command::Code;
use crate::id::{NodeId, ReplicaId};
use crate::principal::Actor;
use crate::unit::Share;

/// Applies an edit of the lab as each of `actors`, and checks who may.
fn check(edit: impl Fn(&mut TreeNode), may: &[&str], may_not: &[&str]) {
    let mut file = lab();
    edit(&mut file);
    for actor in may {
        let changes = apply_tree(&mut with_lab(), &file, &who(actor));
        assert!(changes.is_ok(), "{actor}: {changes:?}");
    }
    for actor in may_not {
        let mut state = with_lab();
        let refusal = apply_tree(&mut state, &file, &who(actor)).expect_err(actor);
        assert_eq!(refusal.code, Code::NotAllowed, "{actor}: {refusal:?}");
        assert_eq!(tree(&state), Some(lab()), "nothing has changed");
    }
}

fn share(tree: &mut TreeNode, path: &str, percent: u32) {
    at(tree, path).share = Share::from_ppm(percent * 10_000).expect("a share");
}

#[test]
fn an_owner_edits_what_is_below_never_its_own_share() {
    check(
        |tree| share(tree, "language/pretrain", 60),
        &["pi-language", "pi-lab", "op"],
        &["pi-pretrain", "pi-posttrain", "pi-robotics", "language-member", "nobody"],
    );
    check(|tree| share(tree, "language", 60), &["pi-lab", "op"], &["pi-language", "pi-robotics"]);
    check(|tree| at(tree, "language").members.clear(), &["pi-lab", "op"], &["pi-language"]);
    check(|tree| at(tree, "language/pretrain").owner = None, &["pi-language"], &["pi-pretrain"]);
}

#[test]
fn an_owner_opens_and_closes_budgets_below_its_own() {
    let opened = |tree: &mut TreeNode| {
        at(tree, "language/pretrain").children.push(node("long", 50, vec![node("deep", 10, vec![])]));
    };
    check(opened, &["pi-pretrain", "pi-language", "pi-lab", "op"], &["pi-posttrain", "pretrain-member"]);
    let closed = |tree: &mut TreeNode| at(tree, "language").children.clear();
    check(closed, &["pi-language", "pi-lab"], &["pi-pretrain"]);
}

#[test]
fn one_change_without_the_right_refuses_the_whole_file() {
    check(
        |tree| {
            share(tree, "language/pretrain", 60);
            share(tree, "robotics", 25);
        },
        &["pi-lab", "op"],
        &["pi-language", "pi-robotics"],
    );
}

#[test]
fn the_roots_own_terms_are_its_owners() {
    check(|tree| tree.members.clear(), &["pi-lab", "op"], &["pi-language", "lab-member"]);
}

#[test]
fn machines_edit_nothing() {
    let mut file = lab();
    share(&mut file, "language", 40);
    for actor in [Actor::Agent(NodeId::new(1)), Actor::Replica(ReplicaId::new(1))] {
        assert_eq!(apply_tree(&mut with_lab(), &file, &actor).map_err(|r| r.code), Err(Code::NotAllowed));
    }
}

#[test]
fn a_revoked_operator_is_none() {
    let mut state = with_lab();
    state.principals.get_mut(&name("op")).expect("it was added").is_revoked = true;
    let mut file = lab();
    share(&mut file, "language", 40);
    assert_eq!(apply_tree(&mut state, &file, &who("op")).map_err(|r| r.code), Err(Code::NotAllowed));
}

#[test]
fn members_and_owners_of_one_above_belong_to_it() {
    let state = with_lab();
    let leaf = find(&state, "language/pretrain").expect("it is there");
    for member in ["pretrain-member", "language-member", "lab-member", "pi-pretrain", "pi-lab"] {
        assert!(is_member(&state, &name(member), leaf), "{member}");
    }
    for stranger in ["posttrain-member", "robotics-member", "op"] {
        assert!(!is_member(&state, &name(stranger), leaf), "{stranger}");
    }
    assert!(owns(&state, &name("pi-language"), leaf));
    assert!(!owns(&state, &name("language-member"), leaf));
}
