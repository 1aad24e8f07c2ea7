//! Who gives way to whom, on small clusters: rights, victims, gangs, nodes that empty.

use scheduler_core::decision::{Basis, Right, Start};
use scheduler_core::id::Term;
use scheduler_core::plan::{Links, plan};
use scheduler_core::state::State;

use crate::lab::{NOW, planned, state};

fn check(lines: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    crate::story::plant();
    let found = planned(&state(lines));
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "\nin\n{lines}");
}

fn starts(lab: &State) -> Vec<Start> {
    plan(lab, &Links::all_ready(lab), NOW, Term::new(1)).decisions
}

/// One node; `b` has used about a tenth of its share and more, `a` nothing.
const TWO: &str = "node n1 8 h100
    budget a 50
    budget b 50\n";

fn two(lines: &str, expected: &str) {
    check(&format!("{TWO}{lines}"), expected);
}

#[test]
fn a_budget_takes_from_one_whose_use_is_higher_by_the_margin() {
    // A tenth of b's share is 67 GPU-hours.
    two("runs 90.1 b 8 n1 0-7 for=9h\njob 1 a 8", "1 on n1:0,1,2,3,4,5,6,7 takes 90.1");
    two("runs 90.1 b 8 n1 0-7 for=8h\njob 1 a 8", "");
}

#[test]
fn the_set_aside_of_a_decision_counts_for_the_rights_of_the_next() {
    // After the first start a has 4 x 20 = 80 GPU-hours set aside, so that b is above it by less than the margin.
    two(
        "runs 90.1 b 4 n1 0-3 for=18h
         runs 91.1 b 4 n1 4-7 for=18h
         job 1 a 4 min=20h
         job 2 a 4 min=20h",
        "1 on n1:0,1,2,3 takes 90.1",
    );
    two(
        "runs 90.1 b 4 n1 0-3 for=25h
         runs 91.1 b 4 n1 4-7 for=25h
         job 1 a 4 min=10h
         job 2 a 4 min=10h",
        "1 on n1:0,1,2,3 takes 90.1
         2 on n1:4,5,6,7 takes 91.1",
    );
}

#[test]
fn what_is_protected_or_leaves_already_is_never_taken() {
    two("runs 90.1 b 8 n1 0-7 for=9h min=10h\njob 1 a 8", "");
    // What stops comes free, and nobody is taken for it.
    two("runs 90.1 b 8 n1 0-7 for=9h stops\njob 1 a 8", "1 on n1:0,1,2,3,4,5,6,7");
    two("runs 90.1 b 8 n1 0-7 for=9h over\njob 1 a 8", "1 on n1:0,1,2,3,4,5,6,7");
}

#[test]
fn sides_are_compared_where_the_paths_part() {
    // The leaf b/y has used less than a/x, but its side has used more.
    let tree = "node n1 8 h100
         budget a 50
         budget b 50
         budget a/x 50
         budget b/y 50
         budget b/z 50
         runs 80.1 a/x 8 n1 0-7 for=16h was
         runs 81.1 b/z 8 n1 0-7 for=20h was\n";
    check(
        &format!("{tree}runs 90.1 b/y 8 n1 0-7 for=10h\njob 1 a/x 8"),
        "1 on n1:0,1,2,3,4,5,6,7 takes 90.1",
    );
    let lab = state(&format!("{tree}runs 90.1 b/y 8 n1 0-7 for=10h\njob 1 a/x 8"));
    let Right::Share { mine, theirs } = starts(&lab)[0].takes[0].right else { panic!("by its share") };
    let named =
        |used: scheduler_core::decision::UseOf| lab.budgets.get(&used.budget).map(|b| b.name.to_string());
    assert_eq!((named(mine).as_deref(), named(theirs).as_deref()), (Some("a"), Some("b")));
    // Siblings are compared alone, whatever their parent has used.
    check(&format!("{tree}runs 90.1 b/z 8 n1 0-7 for=5h\njob 1 b/y 8"), "1 on n1:0,1,2,3,4,5,6,7 takes 90.1");
}

#[test]
fn an_allocation_of_nothing_takes_from_nobody_and_gives_way_to_everybody() {
    let tree = "node n1 8 h100\nbudget a 100\nbudget none 0\n";
    check(&format!("{tree}runs 90.1 none 8 n1 0-7 for=2h\njob 1 a 8"), "1 on n1:0,1,2,3,4,5,6,7 takes 90.1");
    check(&format!("{tree}runs 90.1 a 8 n1 0-7 for=100h\njob 1 none 8"), "");
}

#[test]
fn the_free_tier_gives_way_to_every_funded_job() {
    two("runs 90.1 b 8 n1 0-7 for=1h free\njob 1 b 8", "1 on n1:0,1,2,3,4,5,6,7 takes 90.1");
    two("runs 90.1 b 8 n1 0-7 for=1h free\njob 1 a 8 free", "");
}

#[test]
fn the_free_tier_waits_for_nobody_and_takes_nobody() {
    two("runs 90.1 b 8 n1 0-7 for=9h stops\njob 1 a 1 free", "");
    two("runs 90.1 b 8 n1 0-7 for=9h\njob 1 a 1 free", "");
}

#[test]
fn within_a_budget_only_a_later_turn_gives_way() {
    two("runs 90.1 a 8 n1 0-7 for=90h\njob 1 a 8", "");
    two("runs 90.1 a 8 n1 0-7 for=90h\njob 1 a 8 last", "");
    two("runs 90.1 a 8 n1 0-7 for=9h last\njob 1 a 8", "1 on n1:0,1,2,3,4,5,6,7 takes 90.1");
    two("runs 90.1 a 8 n1 0-7 for=9h\njob 1 a 8 first", "1 on n1:0,1,2,3,4,5,6,7 takes 90.1");
    two("runs 90.1 a 8 n1 0-7 for=9h min=10h last\njob 1 a 8 first", "");
}

#[test]
fn the_least_loss_gives_way() {
    // 90 would lose an hour of 4 GPUs; 91 and 92 lose ten minutes of 2 each.
    two(
        "runs 90.1 b 4 n1 0-3 for=20h every=1h saved=60m
         runs 91.1 b 2 n1 4-5 for=20h every=1h saved=10m
         runs 92.1 b 2 n1 6-7 for=20h every=1h saved=10m
         job 1 a 4",
        "1 on n1:4,5,6,7 takes 91.1,92.1",
    );
    // Together they would have lost more than 90.
    two(
        "runs 90.1 b 4 n1 0-3 for=20h every=1h saved=20m
         runs 91.1 b 2 n1 4-5 for=20h every=1h saved=30m
         runs 92.1 b 2 n1 6-7 for=20h every=1h saved=30m
         job 1 a 4",
        "1 on n1:0,1,2,3 takes 90.1",
    );
}

#[test]
fn who_gave_way_before_is_dearer() {
    two(
        "runs 90.1 b 4 n1 0-3 for=20h pre=1
         runs 91.1 b 4 n1 4-7 for=20h
         job 1 a 4",
        "1 on n1:4,5,6,7 takes 91.1",
    );
}

#[test]
fn the_free_tier_goes_before_funded_work_and_what_does_not_resume_goes_last() {
    let jobs = [
        ("90.1 b 2 n1 0-1 for=40h once", "1 on n1:0,1 takes 90.1"),
        ("91.1 b 2 n1 2-3 for=40h", "1 on n1:2,3 takes 91.1"),
        ("92.1 b 2 n1 4-5 for=40h free once", "1 on n1:4,5 takes 92.1"),
        ("93.1 b 2 n1 6-7 for=40h free every=5h saved=8h", "1 on n1:6,7 takes 93.1"),
    ];
    let filler = |at: usize| format!("runs 8{at}.1 b 2 n1 {}-{} for=40h min=50h\n", at * 2, at * 2 + 1);
    for n in 0..jobs.len() {
        let runs = jobs[..=n].iter().map(|(job, _)| format!("runs {job}\n"));
        let fillers = (n + 1..jobs.len()).map(filler);
        let lines: String = runs.chain(fillers).collect();
        two(&format!("{lines}job 1 a 2"), jobs[n].1);
    }
}

#[test]
fn of_equal_prices_the_highest_use_gives_way_then_the_lowest_number() {
    let tree = "node n1 4 h100
         node n2 4 h100
         budget a 40
         budget b 30
         budget c 30\n";
    check(
        &format!(
            "{tree}runs 80.1 c 4 n1 0-3 for=20h was
             runs 90.1 b 4 n1 0-3 for=40h
             runs 91.1 c 4 n2 0-3 for=40h
             job 1 a 4"
        ),
        "1 on n2:0,1,2,3 takes 91.1",
    );
    check(
        &format!("{tree}runs 91.1 b 4 n1 0-3 for=40h\nruns 90.1 b 4 n2 0-3 for=40h\njob 1 a 4"),
        "1 on n2:0,1,2,3 takes 90.1",
    );
}

#[test]
fn gpus_that_do_not_help_are_not_taken() {
    // Another type, and a node on which too much is protected.
    check(
        "node n1 4 a100
         node n2 4 h100
         budget a 50
         budget b 50
         runs 90.1 b 4 n1 0-3 for=40h
         runs 91.1 b 2 n2 0-1 for=40h
         runs 92.1 b 2 n2 2-3 for=40h min=50h
         job 1 a 4 type=h100
         job 2 a 3 type=h100",
        "",
    );
}

#[test]
fn idle_gpus_and_what_comes_free_are_used_before_anybody_is_taken() {
    two(
        "runs 90.1 b 4 n1 0-3 for=40h
         runs 91.1 b 2 n1 4-5 for=40h stops
         job 1 a 4",
        "1 on n1:4,5,6,7",
    );
    two(
        "runs 90.1 b 2 n1 0-1 for=40h
         runs 92.1 b 2 n1 2-3 for=40h
         runs 91.1 b 2 n1 4-5 for=40h stops
         job 1 a 6",
        "1 on n1:0,1,4,5,6,7 takes 90.1",
    );
}

#[test]
fn the_surplus_of_a_victim_goes_to_the_next_in_line() {
    two(
        "runs 90.1 b 8 n1 0-7 for=40h
         job 1 a 3
         job 2 a 2
         job 3 a 4",
        "1 on n1:0,1,2 takes 90.1
         2 on n1:3,4",
    );
    // Also to one that was passed over: 2 may take nobody itself.
    check(
        "node n1 8 h100
         budget a 40
         budget b 30
         budget c 30
         runs 80.1 c 8 n1 0-7 for=20h was
         runs 90.1 b 8 n1 0-7 for=24h
         job 2 c 2
         job 1 a 3",
        "1 on n1:0,1,2 takes 90.1
         2 on n1:3,4",
    );
}

#[test]
fn cores_come_back_with_who_leaves() {
    // One GPU is idle, but its cores are with 90; 91 is cheaper and has too few.
    check(
        "node n1 8 h100 cpus=64
         budget a 50
         budget b 50
         runs 90.1 b 4 n1 0-3 for=40h cpus=48
         runs 91.1 b 1 n1 4 for=40h cpus=4
         runs 92.1 b 2 n1 5-6 for=40h cpus=12 min=50h
         job 1 a 1 cpus=20",
        "1 on n1:0 takes 90.1",
    );
    // What leaves anyway gives its cores back too; the go waits for them. The free tier waits for nothing.
    check(
        "node n1 8 h100 cpus=64
         budget a 50
         budget b 50
         runs 90.1 b 4 n1 0-3 for=40h cpus=60 stops
         job 1 a 2 cpus=20
         job 2 a 1 cpus=5 free",
        "1 on n1:4,5",
    );
}

#[test]
fn a_job_that_cannot_start_takes_nobody() {
    two("runs 90.1 b 4 n1 0-3 for=40h\nruns 91.1 b 4 n1 4-7 for=40h min=50h\njob 1 a 8", "");
    check(
        "node n1 8 h100
         node n2 8 h100
         budget a 50
         budget b 50
         runs 90.1 b 8 n1 0-7 for=40h
         runs 91.1 b 1 n2 0 for=40h min=50h
         job 1 a 2x8",
        "",
    );
}

#[test]
fn nodes_that_empty_get_no_work_and_give_nobody_up() {
    for word in ["cordoned", "drains", "backoff", "gone"] {
        check(
            &format!(
                "node n1 4 h100 {word}\nbudget a 50\nbudget b 50\nruns 90.1 b 2 n1 0-1 for=40h\njob 1 a 4\njob 2 a 1"
            ),
            "",
        );
    }
}

#[test]
fn before_a_maintenance_window_only_work_that_is_over_by_then_is_let_in() {
    let node = "node n1 4 h100 closes=3h\nbudget a 50\nbudget b 50\n";
    // 10 min to start and 2 h 50 min of protection.
    check(&format!("{node}job 1 a 1 min=170m\njob 2 a 1 min=171m\njob 3 a 1 free"), "1 on n1:0\n3 on n1:1");
    // What waits for others may have to wait for the longest grace there is: 10 min.
    let full = format!("{node}runs 90.1 b 4 n1 0-3 for=80h\n");
    check(&format!("{full}job 1 a 4 min=160m"), "1 on n1:0,1,2,3 takes 90.1");
    check(&format!("{full}job 1 a 4 min=161m"), "");
}

#[test]
fn a_gang_has_whole_nodes_of_one_pool_or_none() {
    let nodes = "node n1 8 h100\nnode n2 8 h100\nnode n3 8 h100 pool=west\nbudget a 100\n";
    check(&format!("{nodes}job 1 a 2x8"), "1 on n1:0,1,2,3,4,5,6,7 n2:0,1,2,3,4,5,6,7");
    check(&format!("{nodes}job 1 a 3x8"), "");
    check(&format!("{nodes}job 1 a 2x8 pool=west"), "");
    check(&format!("{nodes}job 1 a 2x8 free"), "1 on n1:0,1,2,3,4,5,6,7 n2:0,1,2,3,4,5,6,7");
}

#[test]
fn a_gang_of_parts_of_nodes_keeps_whole_nodes_whole() {
    check(
        "node n1 8 h100
         node n2 8 h100
         node n3 8 h100
         budget a 100
         runs 90.1 a 4 n2 0-3 for=1h min=2h
         runs 91.1 a 4 n3 0-3 for=1h min=2h
         job 1 a 2x2
         job 2 a 8",
        "1 on n2:4,5 n3:4,5
         2 on n1:0,1,2,3,4,5,6,7",
    );
}

#[test]
fn a_rank_stays_on_the_node_it_had_before() {
    let nodes = "node n1 1 h100\nnode n2 1 h100\nnode n3 1 h100\nbudget a 100\n";
    check(&format!("{nodes}job 1 a 3x1 ran=n3,n1,n2"), "1 on n3:0 n1:0 n2:0");
    let taken = format!("{nodes}runs 90.1 a 1 n1 0 for=1h min=2h\n");
    check(&format!("{taken}job 1 a 2x1 ran=n3,n1"), "1 on n3:0 n2:0");
    check(&format!("{taken}job 1 a 2x1 ran=n1,n3"), "1 on n2:0 n3:0");
}

#[test]
fn a_gang_takes_the_cheapest_nodes_and_counts_a_job_on_several_once() {
    let nodes = "node n1 2 h100
         node n2 2 h100
         node n3 2 h100
         budget a 50
         budget b 50\n";
    // 90 is on two of them for the price of one.
    check(
        &format!(
            "{nodes}runs 90.1 b 2x2 n1,n2 0-1 for=40h every=1h saved=10m
             runs 91.1 b 2 n3 0-1 for=40h every=1h saved=14m
             job 1 a 2x2"
        ),
        "1 on n1:0,1 n2:0,1 takes 90.1",
    );
    // On one node 91 alone is cheaper.
    check(
        &format!(
            "{nodes}runs 90.1 b 2x2 n1,n2 0-1 for=40h every=1h saved=10m
             runs 91.1 b 2 n3 0-1 for=40h every=1h saved=14m
             job 1 a 2"
        ),
        "1 on n3:0,1 takes 91.1",
    );
}

#[test]
fn nobody_is_taken_for_a_gang_who_can_be_left_out() {
    // Node by node n3 is cheapest; then 90 gives up both others, and 91 need not leave.
    check(
        "node n1 2 h100
         node n2 2 h100
         node n3 2 h100
         budget a 50
         budget b 50
         runs 90.1 b 2x2 n1,n2 0-1 for=40h every=1h saved=30m
         runs 91.1 b 2 n3 0-1 for=40h every=1h saved=14m
         job 1 a 2x2",
        "1 on n1:0,1 n2:0,1 takes 90.1",
    );
    // The same where the node that is not needed would be used first: without a last look both would leave.
    check(
        "node n1 2 h100
         node n2 2 h100
         node n3 2 h100
         budget a 50
         budget b 50
         runs 90.1 b 2x2 n2,n3 0-1 for=40h every=1h saved=30m
         runs 91.1 b 2 n1 0-1 for=40h every=1h saved=14m
         job 1 a 2x2",
        "1 on n2:0,1 n3:0,1 takes 90.1",
    );
    // The idle node is used, and one of the others.
    check(
        "node n1 2 h100
         node n2 2 h100
         node n3 2 h100
         budget a 50
         budget b 50
         runs 90.1 b 2 n1 0-1 for=40h
         runs 91.1 b 2 n2 0-1 for=41h
         job 1 a 2x2",
        "1 on n1:0,1 n3:0,1 takes 90.1",
    );
}

#[test]
fn of_those_who_leave_for_a_gang_everybody_is_needed() {
    // n1 is cheapest, then n2 by 91, who is on n3 too: with it gone these two hold the gang, and 92 stays, who was chosen
    // first. 90 has the rest of n3, and is not even asked.
    check(
        "node n1 2 h100
         node n2 2 h100
         node n3 4 h100
         budget a 50
         budget b 50
         runs 91.1 b 2x2 n2,n3 0-1 for=40h every=1h saved=30m
         runs 92.1 b 2 n1 0-1 for=40h every=1h saved=14m
         runs 90.1 b 2 n3 2-3 for=40h every=1h saved=59m once
         job 1 a 2x2",
        "1 on n2:0,1 n3:0,1 takes 91.1",
    );
}

#[test]
fn a_gang_gives_way_whole_and_what_is_left_of_it_goes_to_the_next() {
    check(
        "node n1 2 h100
         node n2 2 h100
         budget a 50
         budget b 50
         runs 90.1 b 2x2 n1,n2 0-1 for=40h
         job 1 a 1
         job 2 a 2",
        "1 on n1:0 takes 90.1
         2 on n2:0,1",
    );
}

#[test]
fn a_choice_records_what_it_lacked_freed_and_weighed() {
    let lab = state(&format!(
        "{TWO}runs 90.1 b 4 n1 0-3 for=40h every=1h saved=30m
         runs 91.1 b 2 n1 4-5 for=40h every=1h saved=10m
         runs 92.1 b 1 n1 6 for=2h free
         job 1 a 4"
    ));
    let start = &starts(&lab)[0];
    let choice = start.why.choice.as_ref().expect("it takes somebody");
    assert_eq!((choice.lacked, choice.freed, choice.considered), (3, 3, 3));
    let (id, price) = choice.runner_up.as_ref().expect("somebody stays");
    assert_eq!((id.to_string().as_str(), price.basis), ("90.1", Basis::Reported));
    let takes: Vec<(String, Right, u32)> =
        start.takes.iter().map(|take| (take.attempt.to_string(), take.right, take.gpus)).collect();
    assert_eq!(takes[1], ("92.1".to_owned(), Right::FreeTier, 1));
    assert!(matches!(&takes[0], (id, Right::Share { .. }, 2) if id == "91.1"), "{takes:?}");
}

#[test]
fn a_checkpoint_that_only_the_leader_knows_of_counts() {
    let lab = state(&format!(
        "{TWO}runs 90.1 b 4 n1 0-3 for=40h every=1h saved=30m
         runs 91.1 b 4 n1 4-7 for=40h every=1h saved=20m
         job 1 a 4"
    ));
    let plain = &starts(&lab)[0].takes[0];
    assert_eq!(plain.attempt.to_string(), "91.1");
    let (ninety, saved) = (*lab.attempts.keys().next().expect("it runs"), NOW);
    let links = Links::all_ready(&lab).with_saves([(ninety, saved)].into_iter().collect());
    let take = plan(&lab, &links, NOW, Term::new(1)).decisions[0].takes[0].clone();
    assert_eq!((take.attempt, take.price.saved_at), (ninety, Some(saved)));
}
