use std::format;
use std::vec;
use std::vec::Vec;

use super::{at, founded, lab, name, node, who, with_lab};
use crate::budget::{COUNT_MAX, DEPTH_MAX, TreeNode, apply_tree, diff, find};
use crate::command::Code;
use crate::id::{AttemptNo, JobId, Label, SpecHash};
use crate::job::{Job, Phase, Terms};
use crate::principal::AccountName;
use crate::spec::{Shape, TermSource, Tier, Turn};
use crate::unit::{ChargeMillis, GpuCount, Share, Span, Timestamp};

fn check(file: &TreeNode, code: Code, what: &str) {
    let refusal = diff(&founded(), file).expect_err("the file is wrong");
    assert_eq!((refusal.code, refusal.what.as_str()), (code, what));
    assert!(!refusal.fix.is_empty(), "{what} has a way out");
}

#[test]
fn siblings_above_the_whole_are_named_with_their_sum() {
    let mut file = lab();
    at(&mut file, "language/posttrain").share = Share::from_ppm(400_001).expect("a share");
    let what = "the budgets below `lab/language` add up to 110.0001%: posttrain 40.0001%, pretrain 70%";
    check(&file, Code::OverWhole, what);
    let refusal = diff(&founded(), &file).expect_err("the file is wrong");
    assert_eq!(refusal.fix, "take 10.0001% away from them");
}

#[test]
fn a_path_names_one_budget() {
    let mut file = lab();
    file.children.push(node("robotics", 10, vec![]));
    check(&file, Code::BadTree, "two budgets below `lab` are called `robotics`");
}

#[test]
fn the_root_is_the_whole() {
    check(&node("lab", 90, vec![]), Code::BadTree, "the root `lab` has a share of 90%");
}

#[test]
fn a_file_never_takes_the_root_from_its_owner_by_silence() {
    let file = TreeNode { owner: None, ..node("lab", 100, vec![]) };
    check(&file, Code::BadTree, "the root `lab` has no owner");
}

#[test]
fn a_tree_has_a_depth_and_a_size() {
    let chain =
        |depth: usize| (0..depth).fold(node("x", 100, vec![]), |below, _| node("x", 100, vec![below]));
    assert!(diff(&founded(), &chain(DEPTH_MAX)).is_ok());
    let path = vec!["x"; DEPTH_MAX + 2].join("/");
    check(
        &chain(DEPTH_MAX + 1),
        Code::BadTree,
        &format!("budget `{path}` is more than 16 levels below the root"),
    );

    let wide = |count: usize| {
        let children: Vec<TreeNode> = (1..count).map(|n| node(&format!("b{n}"), 0, vec![])).collect();
        node("lab", 100, children)
    };
    assert!(diff(&founded(), &wide(COUNT_MAX)).is_ok());
    check(&wide(COUNT_MAX + 1), Code::BadTree, "the tree has more than 10000 budgets");
}

#[test]
fn before_the_founding_there_is_no_tree() {
    let refusal = diff(&crate::state::State::default(), &lab()).expect_err("nothing is founded");
    assert_eq!(refusal.code, Code::Founding);
}

#[test]
fn a_leaf_with_live_jobs_gets_no_budgets_below_it() {
    let mut state = with_lab();
    let mut file = lab();
    at(&mut file, "language/pretrain").children.push(node("long", 50, vec![]));
    let leaf = find(&state, "language/pretrain").expect("it is there");
    state.jobs.insert(JobId::new(7), job(leaf));
    let refusal = apply_tree(&mut state, &file, &who("op")).expect_err("the leaf is busy");
    assert_eq!(refusal.code, Code::BadTree);
    assert!(refusal.what.contains("`language/pretrain`"), "{}", refusal.what);
    if let Some(job) = state.jobs.get_mut(&JobId::new(7)) {
        let at = Timestamp::from_millis(5);
        job.phase = Phase::Ended { at, end: crate::job::End::Completed, exit: None };
    }
    assert!(apply_tree(&mut state, &file, &who("op")).is_ok());
}

fn job(budget: crate::id::BudgetId) -> Job {
    let gpus_per_node = GpuCount::new(1);
    let shape = Shape {
        nodes: 1,
        gpus_per_node,
        gpu_type: None,
        or_types: Vec::new(),
        within: None,
        cpus: None,
        memory: None,
    };
    Job {
        name: Label::new("train").expect("a label"),
        user: name("ada"),
        account: AccountName::new("ada").expect("an account"),
        budget,
        launch: SpecHash::new([0; 32]),
        terms: Terms {
            cluster: None,
            shape,
            tier: Tier::Free,
            exclude: std::collections::BTreeSet::new(),
            tier_source: TermSource::Submission,
            min_runtime: Span::ZERO,
            time_limit: None,
            resumable: false,
            resumable_source: TermSource::Submission,
            grace: Span::from_secs(15),
            signal: 10,
            checkpoint_every: None,
            requeue_code: None,
            retries: 0,
            turn: Turn::Normal,
        },
        submitted_at: Timestamp::ZERO,
        phase: Phase::Waiting { since: Timestamp::ZERO },
        next_attempt: AttemptNo::new(1),
        retries_used: 0,
        failed_on: Default::default(),
        past: vec![],
        charged: ChargeMillis::ZERO,
        progress: crate::job::Progress::default(),
        before: crate::job::Before::default(),
        array: None,
        wants: Vec::new(),
    }
}
