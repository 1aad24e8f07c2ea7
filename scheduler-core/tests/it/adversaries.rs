//! Whoever tries to get more than its share, or to bring the planner to a stop: what comes of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use scheduler_core::budget::{COUNT_MAX, DEPTH_MAX};
use scheduler_core::id::Term;
use scheduler_core::plan::{Links, plan};
use scheduler_core::unit::Span;

use crate::lab::{NOW, state};
use crate::story::{Story, check};

/// GPU-hours that a budget occupied so far, and those of all.
fn occupied(story: &Story, path: &str) -> (f64, f64) {
    let state = &story.world.state;
    let id = scheduler_core::budget::find(state, path).expect("a known budget");
    let (mut mine, mut all) = (0, 0);
    for (_, pool) in state.books.pools().iter() {
        for (class, tally) in pool.by_class(state.meta.time) {
            if let scheduler_core::ledger::Class::Occupied { budget, .. } = class {
                all += tally.time.get();
                mine += if budget == id { tally.time.get() } else { 0 };
            }
        }
    }
    let hours = |time: u64| u32::try_from(time / 3_600_000).map_or(f64::MAX, f64::from);
    (hours(mine), hours(all))
}

/// Lives a story in which every plan is the slow planner's too: nobody who is protected gives way, and whoever does is
/// needed.
fn lawful(text: &str) -> Story {
    let mut story = Story::new();
    story.seen = Some(crate::lives::seen);
    story.tell(text);
    story.replay();
    assert!(story.broken.is_empty(), "{:?}", story.broken);
    story
}

fn per_cent(story: &Story, path: &str) -> f64 {
    let (mine, all) = occupied(story, path);
    100.0 * mine / all.max(1.0)
}

#[test]
fn a_budget_that_is_back_after_days_takes_what_is_its_own_and_nobody_loses_protection() {
    let jobs = |of: &str, from: u32| -> String {
        (from..from + 8).map(|n| format!("submit {of}{n} {of} 1 min=2h saves=30m lasts=200h\n")).collect()
    };
    let story = lawful(&format!(
        "window 48h
         budget a 50
         budget b 50
         node n1 4
         node n2 4
         {}
         run 96h
         {}
         run 48h",
        jobs("b", 0),
        jobs("a", 0)
    ));
    // It runs ahead of its share for a while, and no further than the window allows.
    let (a, b) = (occupied(&story, "a").0, occupied(&story, "b").0);
    assert!(a > 150.0, "it gets its half of two days, 192 GPU-hours, at least by and by: {a}");
    assert!(b > 96.0 * 8.0 + 50.0, "and the other one is not shut out: {b}");
    let each: BTreeMap<_, usize> = story.taken().iter().fold(BTreeMap::new(), |mut sums, id| {
        *sums.entry(id.job).or_default() += 1;
        sums
    });
    assert!(each.values().all(|count| *count <= 24), "no more than once in two hours: {each:?}");
}

#[test]
fn when_everybody_asks_for_the_cap_shares_are_delivered_all_the_same() {
    let mut text = String::from("window 48h\nbudget a 50\nbudget b 30\nbudget c 20\nnode n1 4\nnode n2 4\n");
    for n in 0..12 {
        for of in ["a", "b", "c"] {
            let _ = writeln!(text, "submit {of}{n} {of} 1 min=8h saves=1h lasts=400h");
        }
    }
    let story = check(&format!("{text}run 96h by=30m"));
    for (of, share) in [("a", 50.0), ("b", 30.0), ("c", 20.0)] {
        let got = per_cent(&story, of);
        assert!((got - share).abs() < 6.0, "{of} got {got} % of what was used, its share is {share} %");
    }
}

#[test]
fn a_minimum_of_one_minute_a_thousand_times_gains_next_to_nothing() {
    let mut text = String::from("window 24h\nbudget a 50\nbudget b 50\nnode n1 4\nnode n2 4\n");
    for n in 0..6 {
        let _ = writeln!(text, "submit b{n} b 2 min=2h saves=30m lasts=300h");
    }
    for n in 0..1_000 {
        let _ = writeln!(text, "submit a{n} a 1 min=1m lasts=20m");
    }
    let story = check(&format!("{text}run 36h by=10m"));
    let got = per_cent(&story, "a");
    assert!((40.0..58.0).contains(&got), "half is its share, and it got {got} %");
}

#[test]
fn a_share_of_nothing_runs_unprotected_on_what_is_idle_and_takes_from_nobody() {
    let mut story = check(
        "window 24h
         budget a 100
         budget none 0
         node n1 4",
    );
    assert!(!story.try_submit("submit wants none 1 min=60m"), "protection needs a share");
    story.tell(
        "submit idle none 4 free
         run 5m
         idle runs
         submit mine a 4 min=60m
         run 5m
         mine runs
         idle waits
         run 20h
         idle waits
         takes 1",
    );
    story.replay();
}

#[test]
fn ten_thousand_budgets_at_depth_sixteen_are_ordered_in_one_round() {
    // A chain of budgets, and at its end as many leaves as there may be.
    let depth = DEPTH_MAX;
    let leaves = COUNT_MAX - depth - 2;
    let mut text = String::from("node n1 8 h100\nnode n2 8 h100\n");
    let mut path = String::from("c");
    let _ = writeln!(text, "budget c 90");
    for _ in 2..depth {
        path += "/c";
        let _ = writeln!(text, "budget {path} 90");
    }
    for leaf in 0..leaves.min(99) {
        let _ = writeln!(text, "budget {path}/l{leaf} 1");
    }
    for leaf in 0..leaves.saturating_sub(99) {
        // Worth nothing: they go after everybody else.
        let _ = writeln!(text, "budget {path}/z{leaf} 0");
    }
    let _ = writeln!(text, "runs 5000000.1 {path}/l0 1 n1 0 for=10h was");
    for leaf in 0..leaves.saturating_sub(99) {
        let _ = writeln!(text, "job {} {path}/z{leaf} 1 free", 100 + leaf);
    }
    for leaf in 0..20 {
        let _ = writeln!(text, "job {} {path}/l{leaf} 1 min=1h", 1 + leaf);
    }
    let lab = state(&text);
    let made = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
    let started: Vec<u32> = made.decisions.iter().map(|start| start.job.get()).collect();
    // Sixteen GPUs: the leaves that have used nothing, in order of their ids; l0 has used something.
    assert_eq!(started, (2..18).collect::<Vec<u32>>());
    assert!(made.decisions.iter().all(|start| start.why.levels.len() == depth));
}

#[test]
fn a_thousand_attempts_on_one_node_are_chosen_from_exactly() {
    let mut text = String::from("node n1 1000 h100 cpus=8000\nbudget a 50\nbudget b 50\n");
    for n in 0..1_000 {
        let saved = 1 + n % 50;
        let _ = writeln!(text, "runs {}.1 b 1 n1 {n} for=60h min=1h every=1h saved={saved}m", 2_000 + n);
    }
    let lab = state(&format!("{text}job 1 a 500 min=1h"));
    let made = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
    let takes = &made.decisions[0].takes;
    assert_eq!((made.decisions.len(), takes.len()), (1, 500));
    // The cheapest 500: those who saved up to 25 minutes ago.
    assert!(takes.iter().all(|take| take.price.lost <= Span::from_mins(25)));
}

#[test]
fn a_thousand_free_jobs_that_want_one_node_do_not_wear_it_out() {
    let mut text = String::from("window 24h\nbudget a 50\nbudget b 50\nnode n1 8\n");
    for n in 0..1_000 {
        let _ = writeln!(text, "submit f{n} b 1 free lasts=10h");
    }
    let story = check(&format!("{text}run 1m\nsubmit one a 8 min=30m lasts=30m\nrun 3h by=15m"));
    let each: BTreeMap<_, usize> = story.taken().iter().fold(BTreeMap::new(), |mut sums, id| {
        *sums.entry(id.job).or_default() += 1;
        sums
    });
    assert_eq!(each.len(), 8, "one funded job, eight GPUs: {each:?}");
}

#[test]
fn victims_that_never_confirm_cost_their_node_and_no_more() {
    let story = check(
        "window 24h
         budget a 50
         budget b 50
         node n1 4
         node n2 4
         node n3 4
         submit hangs b 4 min=30m stubborn
         submit two b 4 min=30m
         submit three b 4 min=30m
         run 10h
         submit new a 4 min=60m
         run 2h
         new runs",
    );
    let takes = story.taken().len();
    assert!(takes <= 3, "each of them is asked once: {takes}");
    let mut story = story;
    story.tell("run 6h");
    story.replay();
}

#[test]
fn a_minimum_below_restart_and_checkpoint_still_makes_progress() {
    // Five minutes are not enough to save once; later attempts are protected until they could.
    let story = check(
        "window 24h
         budget a 50
         budget b 50
         node n1 4
         submit short b 4 min=5m every=30m saves=30m lasts=10h
         submit rival a 4 min=5m every=30m saves=30m lasts=10h",
    );
    let mut story = story;
    for _ in 0..72 {
        story.tell("run 1h by=10m");
        for (id, attempt) in story.world.state.attempts.iter().filter(|(id, _)| id.no.get() > 1) {
            // Restart and interval; the grace comes on top.
            assert!(
                attempt.protection >= Span::from_mins(35),
                "{id} is protected for {}",
                attempt.protection
            );
        }
    }
    for job in ["short", "rival"] {
        let stands = story.stands(job);
        assert!(stands.starts_with("ended"), "{job} {stands}");
    }
}

#[test]
fn a_budget_that_never_checkpoints_is_not_spared_for_it() {
    // Both have the same; the one whose jobs save is taken from no more often.
    let mut text = String::from("window 24h\nbudget a 40\nbudget b 30\nbudget c 30\nnode n1 4\nnode n2 4\n");
    for n in 0..6 {
        let _ = writeln!(text, "submit b{n} b 1 min=30m every=30m saves=30m lasts=100h");
        let _ = writeln!(text, "submit c{n} c 1 min=30m lasts=100h");
        let _ = writeln!(text, "submit a{n} a 1 min=30m lasts=2h");
    }
    for _ in 0..6 {
        text += "run 6h by=10m\n";
    }
    for n in 6..12 {
        let _ = writeln!(text, "submit a{n} a 1 min=30m lasts=2h");
    }
    let story = check(&format!("{text}run 24h by=10m"));
    let gave_way = |of: &str| -> u32 {
        let jobs = (0..6).map(|n| story.id(&format!("{of}{n}")));
        jobs.map(|id| u32::from(story.world.job(id).progress.preemptions)).sum()
    };
    let (saves, silent) = (gave_way("b"), gave_way("c"));
    assert!(silent > 0 && silent >= saves, "who saves gave way {saves} times, who never does {silent} times");
}

/// From the first in order to its start: cap, start limit and twice the longest grace.
const BOUND: &str = "run 8h by=10m\nrun 30m by=1m\n";

/// Jobs of one GPU, each protected for between `least` minutes and as much more, and over soon after: there is never a
/// moment at which none of those that run is protected.
fn stream(budget: &str, count: usize, (least, more): (usize, usize)) -> String {
    let mins = (0..count).map(|n| least + n * 37 % more);
    mins.enumerate()
        .map(|(n, mins)| format!("submit {budget}{n} {budget} 1 min={mins}m lasts={}m\n", mins + 3))
        .collect()
}

/// A gang that gets a date, and starts within the bound; and that would not without dates.
fn starts_by_its_date(budgets: &str, story: &str, bound: &str) {
    let lives =
        |dates: &str, then: &str| check(&format!("window 24h\n{dates}\n{budgets}\n{story}\nrun 1m\n{then}"));
    lives("", &format!("gang has-date\n{bound}\ngang started 1 times"));
    lives("dates off", &format!("{bound}\ngang waits"));
}

#[test]
fn many_small_jobs_before_one_gang_do_not_keep_it_waiting() {
    // Those after it would be protected far beyond its date, and go first once it is set aside for.
    let long: String = (0..12).map(|n| format!("submit l{n} b 1 first min=8h lasts=8h\n")).collect();
    starts_by_its_date(
        "budget a 30\nbudget b 70",
        &format!(
            "node n1 4
             node n2 4
             {}
             run 3h
             submit gang a 2x4 min=2h lasts=2h
             {long}",
            stream("b", 200, (40, 13))
        ),
        BOUND,
    );
}

#[test]
fn one_per_cent_gets_a_gang_as_large_as_the_cluster_started_within_the_bound() {
    let story = format!(
        "node n1 4
         node n2 4
         {}
         run 1h
         submit gang a 2x4 min=60m lasts=60m",
        stream("b", 80, (120, 240))
    );
    // The first of b that had to wait has a date since the beginning, in 8 h: then a protection of 2 h 56 min and 20 min
    // for its notice and its start. A gang of all nodes comes after that, 10 h 16 min from now.
    let bound = "run 10h by=10m\nrun 30m by=1m\n";
    starts_by_its_date("budget a 1\nbudget b 99", &story, bound);
    // What one more like it would cost is far beyond the share: that one waits for the window.
    check(&format!(
        "window 24h\nbudget a 1\nbudget b 99\n{story}\nsubmit again a 2x4 min=60m lasts=60m
         run 1m\n{bound}\ngang started 1 times\nagain waits"
    ));
}

#[test]
fn two_per_cent_gets_a_gang_of_half_the_pool_started_within_the_bound() {
    starts_by_its_date(
        "budget a 2\nbudget b 98",
        &format!(
            "node n1 4
             node n2 4
             node n3 4
             node n4 4
             {}
             run 1h
             submit gang a 2x4 min=8h lasts=20h",
            stream("b", 120, (240, 240))
        ),
        BOUND,
    );
}

#[test]
fn an_endless_job_of_its_own_budget_does_not_keep_a_gang_waiting() {
    let story = "node n1 4
         node n2 4
         submit endless a 4 min=60m
         run 5h
         submit gang a 2x4 min=60m lasts=2h";
    starts_by_its_date("budget a 100", story, BOUND);
    check(&format!("window 24h\nbudget a 100\n{story}\nrun 1m\n{BOUND}\nrun 3h\nendless runs"));
}
