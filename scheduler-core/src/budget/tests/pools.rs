use std::string::ToString;

use super::{at, lab, name, who, with_lab};
use crate::budget::{apply_tree, diff, find, is_worth_nothing, tree, usage};
use crate::command::Code;
use crate::ledger::Class;
use crate::unit::{GpuCount, Share, Span, Timestamp};

const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn percent(percent: u32) -> Share {
    Share::from_ppm(percent * 10_000).expect("a share")
}

#[test]
fn a_budget_has_another_share_in_one_pool() {
    let mut state = with_lab();
    for (pool, gpus) in [("a", 100), ("b", 10)] {
        state.books.gpus_added(&name(pool), GpuCount::new(gpus), Class::Idle, START);
    }
    let mut file = lab();
    at(&mut file, "robotics").pools.insert(name("b"), percent(50));
    at(&mut file, "language").pools.insert(name("b"), Share::default());
    let changes = apply_tree(&mut state, &file, &who("op")).expect("a good file");
    let said: std::vec::Vec<_> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        ["robotics: share as elsewhere in b -> 50% in b", "language: share as elsewhere in b -> 0% in b"]
    );
    assert_eq!(diff(&state, &file), Ok(std::vec![]));
    assert_eq!(tree(&state).map(|tree| tree.children.len()), Some(2));
    let pools = usage(&state, START.plus(Span::from_hours(1)));
    let shares = |n: usize, path: &str| {
        let row = pools[n].rows.iter().find(|row| row.path == path).expect("it has a row");
        (row.share.to_string(), row.funded.allocation.get() * 100 / pools[n].capacity.get())
    };
    assert_eq!(shares(0, "robotics/grasp"), ("12%".into(), 12));
    assert_eq!(shares(1, "robotics/grasp"), ("20%".into(), 20));
    assert_eq!(shares(0, "language/pretrain"), ("35%".into(), 35));
    assert_eq!(shares(1, "language/pretrain"), ("0%".into(), 0));
    // It is worth something somewhere.
    assert!(!is_worth_nothing(&state, find(&state, "language/pretrain").expect("it is there")));
}

#[test]
fn siblings_divide_each_pool() {
    let mut state = with_lab();
    let mut file = lab();
    at(&mut file, "robotics").pools.insert(name("b"), percent(60));
    let over = apply_tree(&mut state, &file, &who("op")).expect_err("60 and 50");
    assert_eq!(over.code, Code::OverWhole);
    assert_eq!(over.what, "the budgets below `lab` add up to 110% in pool b: robotics 60%, language 50%");
    file.pools.insert(name("b"), percent(60));
    assert_eq!(apply_tree(&mut state, &file, &who("op")).map_err(|no| no.code), Err(Code::BadTree));
}
