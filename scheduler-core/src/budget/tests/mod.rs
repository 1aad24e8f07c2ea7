//! The tree's laws: what a file may say, what it changes, who may change it.

mod changes;
mod grants;
mod laws;
mod pools;
mod questions;
mod refusals;
mod rights;
mod timed;
mod usage;

use std::vec::Vec;

use super::{TreeNode, apply_tree, found};
use crate::id::Name;
use crate::principal::{AccountName, Actor, Principal};
use crate::spec::ContractDefaults;
use crate::state::State;
use crate::unit::Share;

fn name(text: &str) -> Name {
    Name::new(text).expect("tests write good names")
}

fn who(text: &str) -> Actor {
    Actor::Principal(name(text))
}

/// A budget with a share in percent, an owner `pi-<name>` and a member `<name>-member`.
fn node(level: &str, percent: u32, children: Vec<TreeNode>) -> TreeNode {
    TreeNode {
        pools: Default::default(),
        name: name(level),
        share: Share::from_ppm(percent * 10_000).expect("at most the whole"),
        owner: Some(name(&std::format!("pi-{level}"))),
        members: [name(&std::format!("{level}-member"))].into(),
        defaults: ContractDefaults::default(),
        children,
    }
}

/// The tree of UX's pictures.
fn lab() -> TreeNode {
    let language = std::vec![node("posttrain", 30, std::vec![]), node("pretrain", 70, std::vec![])];
    let robotics = std::vec![node("sim-rl", 60, std::vec![]), node("grasp", 40, std::vec![])];
    node("lab", 100, std::vec![node("robotics", 30, robotics), node("language", 50, language)])
}

/// A founded state with the operator `op` and no tree but the root.
fn founded() -> State {
    let mut state = State::default();
    found(&mut state, name("lab"), name("pi-lab"));
    let operator = Principal {
        token: crate::id::TokenHash::new([1; 32]),
        account: AccountName::new("op").expect("an account"),
        is_operator: true,
        is_revoked: false,
    };
    state.principals.insert(name("op"), operator);
    state
}

fn with_lab() -> State {
    let mut state = founded();
    apply_tree(&mut state, &lab(), &who("op")).expect("the lab's tree is good");
    state
}

/// Returns the node of a tree at a path below its root.
fn at<'a>(tree: &'a mut TreeNode, path: &str) -> &'a mut TreeNode {
    path.split('/').fold(tree, |node, level| {
        node.children.iter_mut().find(|child| child.name.as_str() == level).expect("tests name what is there")
    })
}
