use std::format;
use std::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{founded, name, who};
use crate::budget::{ROOT, TreeNode, apply_tree, diff, find, path, path_of, tree};
use crate::spec::ContractDefaults;
use crate::state::State;
use crate::unit::{Share, Span};

/// A tree whose siblings never add up to more than their parent.
fn file() -> impl Strategy<Value = TreeNode> {
    let plain = || (0..5u8, 0..200_000u32, any::<bool>(), prop::option::of(0..100u64));
    let leaf = plain().prop_map(|(level, ppm, is_owned, mins)| make(level, ppm, is_owned, mins, Vec::new()));
    let below = leaf.prop_recursive(4, 40, 5, move |inner| {
        (plain(), prop::collection::vec(inner, 0..5))
            .prop_map(|((level, ppm, is_owned, mins), children)| make(level, ppm, is_owned, mins, children))
    });
    prop::collection::vec(below, 0..5).prop_map(|children| {
        let mut root = make(0, 0, true, None, children);
        root.name = name("lab");
        root.share = Share::WHOLE;
        root
    })
}

fn make(level: u8, ppm: u32, is_owned: bool, mins: Option<u64>, mut children: Vec<TreeNode>) -> TreeNode {
    children.sort_by(|a, b| a.name.cmp(&b.name));
    children.dedup_by(|a, b| a.name == b.name);
    TreeNode {
        name: name(&format!("b{level}")),
        share: Share::from_ppm(ppm).expect("a fifth at most"),
        pools: (0..level % 2).map(|_| (name("p"), Share::from_ppm(ppm / 2).expect("small"))).collect(),
        owner: is_owned.then(|| name("ada")),
        members: (0..level % 3).map(|n| name(&format!("m{n}"))).collect(),
        defaults: ContractDefaults { min_runtime: mins.map(Span::from_mins), ..ContractDefaults::default() },
        children,
    }
}

fn sorted(mut tree: TreeNode) -> TreeNode {
    tree.children = tree.children.into_iter().map(sorted).collect();
    tree.children.sort_by(|a, b| a.name.cmp(&b.name));
    tree
}

fn check_links(state: &State) -> Result<(), TestCaseError> {
    for (&id, budget) in state.budgets.iter() {
        let open = budget.children.iter().filter_map(|child| state.budgets.get(child)).map(|c| c.share.ppm());
        prop_assert!(open.sum::<u32>() <= 1_000_000);
        for child in &budget.children {
            prop_assert_eq!(state.budgets.get(child).and_then(|child| child.parent), Some(id));
        }
        prop_assert_eq!(path(state, id).first().copied(), Some(ROOT));
        if id != ROOT {
            prop_assert_eq!(find(state, &format!("{}", path_of(state, id))), Some(id));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        rng_seed: RngSeed::Fixed(0x7ee),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_tree_becomes_the_file_whatever_it_was(files in prop::collection::vec(file(), 1..5)) {
        let mut state = founded();
        for file in files {
            let before: Vec<_> = state.budgets.keys().copied().collect();
            let paths: Vec<_> = before.iter().map(|id| path_of(&state, *id)).collect();
            let shown = diff(&state, &file).expect("a good file");
            let made = apply_tree(&mut state, &file, &who("op")).expect("an operator may");
            prop_assert_eq!(shown, made);
            prop_assert_eq!(tree(&state).map(sorted), Some(sorted(file.clone())));
            prop_assert_eq!(diff(&state, &file), Ok(Vec::new()));
            // A budget never moves, and is never another one.
            prop_assert_eq!(before.iter().map(|id| path_of(&state, *id)).collect::<Vec<_>>(), paths);
            check_links(&state)?;
        }
    }
}
