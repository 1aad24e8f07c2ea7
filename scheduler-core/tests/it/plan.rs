//! The plan on small clusters: order, place, and what is left waiting.

use scheduler_core::id::Term;
use scheduler_core::plan::{Links, plan};

use crate::lab::{NOW, planned, state};

fn check(lines: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let found = planned(&state(lines));
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "\nin\n{lines}");
}

#[test]
fn nothing_is_planned_without_jobs_or_without_nodes() {
    check("node n1 8 h100\nbudget a 100", "");
    check("budget a 100\njob 1 a 1", "");
}

#[test]
fn lower_use_goes_first_level_by_level() {
    // The leaf a/x has used nothing, but its side has: level by level b goes first.
    check(
        "node n1 4 h100
         budget a 50
         budget b 50
         budget a/x 50
         budget a/y 50
         runs 90.1 a/y 3 n1 0-2 for=5h was
         runs 91.1 b 1 n1 3 for=5h was
         job 1 a/x 2
         job 2 b 2",
        "2 on n1:0,1
         1 on n1:2,3",
    );
}

#[test]
fn what_a_start_sets_aside_counts_at_once() {
    check(
        "node n1 4 h100
         budget a 50
         budget b 50
         job 1 a 1
         job 2 a 1
         job 3 a 1
         job 4 b 1
         job 5 b 1",
        "1 on n1:0
         4 on n1:1
         2 on n1:2
         5 on n1:3",
    );
}

#[test]
fn turn_orders_the_jobs_of_one_budget_only() {
    check(
        "node n1 3 h100
         budget a 50
         budget b 50
         runs 90.1 b 1 n1 0 for=30m was
         job 1 a 1 last
         job 2 a 1
         job 3 b 1 first
         job 4 a 1 first",
        "4 on n1:0
         3 on n1:1
         2 on n1:2",
    );
}

#[test]
fn free_tier_takes_only_what_funded_jobs_left() {
    check(
        "node n1 4 h100
         budget a 50
         budget b 50
         job 1 a 1 free
         job 2 b 2
         job 3 b 1
         job 4 b 1 free
         job 5 b 1 free",
        "2 on n1:0,1
         3 on n1:2
         1 on n1:3",
    );
}

#[test]
fn the_fullest_node_that_fits_is_taken() {
    check(
        "node n1 8 h100
         node n2 8 h100
         node n3 8 h100
         budget a 100
         runs 90.1 a 4 n2 0-3 for=1h
         runs 91.1 a 6 n3 0-5 for=1h
         job 1 a 2
         job 2 a 3
         job 3 a 8",
        "1 on n3:6,7
         2 on n2:4,5,6
         3 on n1:0,1,2,3,4,5,6,7",
    );
}

#[test]
fn a_job_that_fits_nowhere_waits_and_the_next_is_tried() {
    check(
        "node n1 8 h100
         node n2 8 h100
         budget a 100
         runs 90.1 a 4 n1 0-3 for=1h
         runs 91.1 a 4 n2 0-3 for=1h
         job 1 a 8
         job 2 a 4",
        "2 on n1:4,5,6,7",
    );
}

#[test]
fn gpu_type_is_a_part_of_the_name_whatever_its_case() {
    check(
        "node n1 1 NVIDIA-A100
         node n2 1 NVIDIA-H100
         budget a 100
         job 1 a 1 type=h100
         job 2 a 1 type=B200
         job 3 a 1",
        "1 on n2:0
         3 on n1:0",
    );
}

#[test]
fn cores_are_counted_with_the_gpus() {
    check(
        "node n1 4 h100 cpus=16
         budget a 100
         job 1 a 1 cpus=10
         job 2 a 1 cpus=10
         job 3 a 1
         job 4 a 1
         job 5 a 1 cpus=1",
        "1 on n1:0
         3 on n1:1
         5 on n1:2",
    );
}

#[test]
fn nodes_that_take_no_work_get_none() {
    check(
        "node n1 1 h100 gone
         node n2 1 h100 backoff
         node n3 1 h100
         budget a 100
         job 1 a 1
         job 2 a 1",
        "1 on n3:0",
    );
    let lab = state("node n1 1 h100\nbudget a 100\njob 1 a 1");
    assert!(plan(&lab, &Links::default(), NOW, Term::new(1)).decisions.is_empty());
}

#[test]
fn a_launch_that_failed_is_tried_elsewhere_as_long_as_there_is_an_elsewhere() {
    check(
        "node n1 1 h100
         node n2 2 h100
         budget a 100
         runs 90.1 a 2 n2 0-1 for=1h
         job 1 a 1 failed=n1",
        "",
    );
    check("node n1 1 h100\nbudget a 100\njob 1 a 1 failed=n1", "1 on n1:0");
    // A node that somebody wants empty, one of a pool that the job does not want, and nodes of a gang in two pools are none.
    let two = |second: &str, job: &str| {
        format!("node n1 2 h100\nnode n2 2 h100 {second}\nbudget a 100\njob 1 a {job} failed=n1")
    };
    check(&two("cordoned", "1"), "1 on n1:0");
    check(&two("drains", "1"), "1 on n1:0");
    check(&two("pool=west", "1 pool=main"), "1 on n1:0");
    let three = two("", "2x1").replace("budget", "node n3 2 h100 pool=west\nbudget");
    check(&three, "1 on n1:0 n2:0");
}

#[test]
fn pools_are_planned_apart() {
    check(
        "node n1 1 h100 pool=east
         node n2 1 a100 pool=west
         node n3 1 h100 pool=west
         budget a 100
         job 1 a 1 pool=west
         job 2 a 1 type=h100
         job 3 a 1",
        "2 on n1:0
         1 on n2:0
         3 on n3:0",
    );
}

#[test]
fn why_has_both_numbers_of_each_level() {
    let lab = state(
        "node n1 2 h100
         budget a 60
         budget b 40
         budget a/x 50
         job 1 a/x 1
         job 2 b 1",
    );
    let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
    let first = &plan.decisions[0].why;
    assert_eq!((first.place, first.levels.len()), (1, 2));
    let next = first.levels[0].next.expect("b waits too");
    assert!(first.levels[0].chosen.cmp_use(&next).is_lt());
    assert_eq!(first.levels[1].next, None);
    let second = &plan.decisions[1].why;
    assert_eq!((second.place, second.levels[0].next), (2, None));
}

#[test]
fn a_plan_has_a_bound() {
    let mut lines = String::from("budget a 100\n");
    for at in 0..40 {
        lines += &format!("node n{at} 8 h100\n");
    }
    for id in 1..=300 {
        lines += &format!("job {id} a 1\n");
    }
    assert_eq!(planned(&state(&lines)).lines().count(), 256);
}
