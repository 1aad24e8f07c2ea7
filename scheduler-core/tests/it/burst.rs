//! The burst limit: a budget that has more than so many times its share goes after everybody else that waits.

use scheduler_core::explain;
use scheduler_core::id::{JobId, Term};
use scheduler_core::plan::{Links, plan};
use scheduler_core::queue;
use scheduler_core::state::State;

use crate::lab::{NOW, show, state};
use crate::random::{Random, lab, lab_with_gangs};
use crate::reference::Naive;
use crate::story::{Story, check as live, plant};

fn limited(lines: &str, percent: u32) -> State {
    let mut lab = state(lines);
    lab.meta.settings.burst_limit_pct = percent;
    lab
}

fn made(lab: &State) -> String {
    show(&plan(lab, &Links::all_ready(lab), NOW, Term::new(1)), lab)
}

/// a and b have a tenth and nine tenths of ten GPUs; b has used all so far, and a, just back, has three of them.
const BACK: &str = "budget a 10
     budget b 90
     node n1 10 h100
     runs 90.1 b 10 n1 0-9 for=160h was
     runs 91.1 a 3 n1 0-2 for=1m min=30m
     job 1 a 4 min=1m
     job 2 b 4 min=1m
     job 3 b 1 min=1m";

#[test]
fn a_budget_above_its_limit_goes_after_everybody_else_that_waits_on_idle_gpus_too() {
    let lab = limited(BACK, 0);
    assert!(made(&lab).starts_with("1 on "), "its use is the lowest: {}", made(&lab));
    let lab = limited(BACK, 300);
    assert!(made(&lab).starts_with("1 on "), "three times its share is not more: {}", made(&lab));
    let lab = limited(BACK, 299);
    assert_eq!(made(&lab), "2 on n1:3,4,5,6\n3 on n1:7\n", "and then nothing is left");
    // What nobody else can use is its own.
    let lab = limited(&BACK.replace("job 3", "job 1001 a 2 min=1m\njob 3"), 299);
    assert_eq!(made(&lab), "2 on n1:3,4,5,6\n3 on n1:7\n1001 on n1:8,9\n");
}

#[test]
fn what_a_plan_decides_counts_for_the_limit_at_once() {
    let lines = "budget a 10
         budget b 90
         node n1 10 h100
         runs 90.1 b 10 n1 0-9 for=160h was
         job 1 a 1 min=1m
         job 2 a 1 min=1m
         job 3 a 1 min=1m
         job 4 b 8 min=1m";
    assert_eq!(made(&limited(lines, 0)), "1 on n1:0\n2 on n1:1\n3 on n1:2\n");
    assert_eq!(made(&limited(lines, 100)), "1 on n1:0\n2 on n1:1\n4 on n1:2,3,4,5,6,7,8,9\n");
}

#[test]
fn the_limit_of_any_budget_on_the_path_counts_and_others_below_it_stay_in_order() {
    // x and y are below a, and have half of it each; a as a whole is above its limit through x.
    let lines = "budget a 20
         budget a/x 50
         budget a/y 50
         budget b 80
         node n1 10 h100
         runs 90.1 b 10 n1 0-9 for=160h was
         runs 91.1 a/x 5 n1 0-4 for=1m min=30m
         job 1 a/x 1 min=1m
         job 2 a/y 1 min=1m
         job 3 b 1 min=1m";
    assert_eq!(made(&limited(lines, 0)), "2 on n1:5\n1 on n1:6\n3 on n1:7\n");
    assert_eq!(made(&limited(lines, 200)), "3 on n1:5\n2 on n1:6\n1 on n1:7\n");
    // At three times its share a is within its limit, x is not: y goes first of all, x last.
    assert_eq!(made(&limited(lines, 300)), "2 on n1:5\n3 on n1:6\n1 on n1:7\n");
}

#[test]
fn who_is_above_its_limit_has_no_date_while_others_wait() {
    let lines = "budget a 10
         budget b 90
         node n1 10 h100
         runs 90.1 b 10 n1 0-9 for=160h was
         runs 91.1 a 4 n1 0-3 for=1m min=30m
         job 1 a 10 min=1m
         job 2 b 10 min=1m";
    for (percent, dated) in [(0, 1), (200, 2)] {
        let lab = limited(lines, percent);
        let made = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let jobs: Vec<u32> = made.dates.iter().map(|step| step.job.get()).collect();
        assert_eq!(jobs, [dated], "at {percent} %");
    }
}

#[test]
fn the_limit_is_explained_to_who_waits_and_in_the_decision() {
    let lab = limited(BACK, 299);
    let links = Links::all_ready(&lab);
    let found = explain::job(&lab, &links, JobId::new(1), NOW).expect("state has it");
    let reason =
        found.reasons.iter().find(|reason| reason.token.as_str() == "waiting.burst").expect("it is told");
    assert!(
        reason.sentence.contains("a has 3 GPUs, more than its burst limit of 2.99, 299 % of its share"),
        "{}",
        reason.sentence
    );
    let other = explain::job(&lab, &links, JobId::new(2), NOW).expect("state has it");
    assert!(other.reasons.iter().all(|reason| reason.token.as_str() != "waiting.burst"), "{other:?}");
    let mut story = live(
        "window 240h
         burst 150
         budget a 10
         budget b 90
         node n1 10
         submit b0 b 10 min=30m lasts=200h saves=1h quick
         run 160h
         cancel b0
         run 5m
         submit a0 a 2 min=8h lasts=20h
         run 5m
         submit a1 a 4 min=1h lasts=1h
         submit b1 b 4 min=1h lasts=1h
         run 5m",
    );
    let job = story.id("b1");
    let found = explain::job(&story.world.state, &Links::all_ready(&story.world.state), job, story.world.now);
    let decided = found.expect("known").decided.expect("it is kept");
    assert!(
        decided.sentence.contains("b went before a: the other had more than its burst limit"),
        "{}",
        decided.sentence
    );
    story.tell("a1 runs");
}

#[test]
fn the_line_says_whom_the_limit_puts_last() {
    let rows = |percent| {
        let lab = limited(BACK, percent);
        let rows = queue::rows(&lab, &Links::all_ready(&lab), NOW);
        let over = |row: &queue::Row| row.over.map(|over| explain::over(&lab, &over));
        rows.iter().map(|row| (row.job.get(), over(row))).collect::<Vec<_>>()
    };
    assert_eq!(rows(0), [(1, None), (2, None), (3, None)]);
    let said = "a has 3 GPUs, more than its burst limit of 2.99, 299 % of its share";
    assert_eq!(rows(299), [(2, None), (3, None), (1, Some(String::from(said)))]);
}

#[test]
fn the_planner_agrees_with_the_slow_one_on_burst_limits() {
    plant();
    let mut differs = 0;
    for seed in 8000..8500 {
        let random = &mut Random::new(seed);
        let lines = if seed % 2 == 0 { lab(random) } else { lab_with_gangs(random) };
        let mut lab = limited(&lines, *random.pick(&[50, 100, 200, 400]));
        lab.meta.settings.dates = false;
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        Naive::agrees(&lab, NOW, &plan, &format!("seed {seed}\n{lines}"));
        lab.meta.settings.burst_limit_pct = 0;
        let without = scheduler_core::plan::plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let jobs = |plan: &scheduler_core::decision::Plan| {
            plan.decisions.iter().map(|start| start.job).collect::<Vec<_>>()
        };
        differs += u32::from(jobs(&plan) != jobs(&without));
    }
    assert!(differs > 20, "the limit makes a difference {differs} times");
}

/// The most GPUs that a budget had at once.
fn peak(text: &str) -> u64 {
    let mut story = Story::new();
    story.tell(text);
    let mut peak = 0;
    for _ in 0..12 {
        story.tell("run 1h by=30m");
        let state = &story.world.state;
        let back = scheduler_core::budget::find(state, "back").expect("a known budget");
        let mine =
            state.attempts.values().filter(|attempt| attempt.budget == back && attempt.ended.is_none());
        peak = peak.max(mine.map(|attempt| attempt.placements[0].slots.len() as u64).sum());
    }
    story.replay();
    peak
}

#[test]
fn a_budget_back_from_silence_does_not_get_everything_where_others_wait() {
    let jobs = |of: &str, count: u32| -> String {
        (0..count).map(|n| format!("submit {of}{n} {of} 1 min=1h saves=30m lasts=400h quick\n")).collect()
    };
    let text = |limit: &str| {
        format!(
            "window 48h
             {limit}
             budget back 12
             budget other 44
             budget third 44
             node n1 8
             node n2 8
             {}{}run 40h by=1h
             {}run 1m",
            jobs("other", 12),
            jobs("third", 12),
            jobs("back", 20)
        )
    };
    let (free, limited) = (peak(&text("")), peak(&text("burst 200")));
    // Twice its share of sixteen GPUs are not quite four.
    assert!(free >= 10, "without a limit it has most of the pool: {free}");
    assert!(limited <= 6, "with one it has {limited}");
}
