//! The scenarios that come with the program.

use std::path::Path;

use simulator::record::{JobEnd, Record};
use simulator::scenario::{SHIPPED, Scenario, prepare, shipped};
use simulator::sweep::{Case, Ran, one};

/// A scenario by name, cut to a size that a debug build runs in seconds: it checks every invariant after every entry.
fn small(name: &str) -> Scenario {
    let mut scenario = shipped(name).expect("it ships").expect("it is a scenario");
    scenario.length = Some("10h".parse().expect("a length"));
    for nodes in &mut scenario.nodes {
        nodes.count = nodes.count.min(6);
    }
    scenario.load = simulator::scenario::Load::AsIs;
    if let simulator::scenario::Jobs::Made(streams) = &mut scenario.jobs {
        for made in streams {
            made.count = made.count.min(25);
            (made.from, made.until) = (None, None);
        }
    }
    scenario
}

fn run(scenario: &Scenario, seed: u64) -> Ran {
    let case = Case { scenario, folder: Path::new("."), seed, policy: "bursar".into(), variant: Vec::new() };
    one(&case, &mut |_| ()).expect("it runs")
}

/// What holds in every run of ours, whatever the scenario.
fn check(name: &str, record: &Record) {
    assert!(record.attempts.iter().any(|attempt| attempt.started_at.is_some()), "{name}: somebody runs");
    let refused = |job: &&simulator::record::JobRecord| matches!(job.ended, Some((_, JobEnd::Refused)));
    assert_eq!(record.jobs.iter().filter(refused).count(), 0, "{name}");
    for attempt in &record.attempts {
        let points =
            [Some(attempt.placed_at), attempt.go_at, attempt.started_at, attempt.ended_at, attempt.freed_at];
        let points: Vec<_> = points.into_iter().flatten().collect();
        assert!(points.is_sorted(), "{name}: {attempt:?}");
    }
    for preemption in &record.preemptions {
        let victim = &record.attempts[preemption.victim];
        let is_protected = victim.protected_until.is_some_and(|until| preemption.at < until);
        assert!(!is_protected, "{name}: {victim:?} is protected at {:?}", preemption.at);
        assert!(!preemption.is_wasted, "{name}: {preemption:?}");
    }
    for head in &record.heads {
        assert!(head.until.since(head.since) <= record.head_bound, "{name}: {head:?}");
    }
    assert!(record.dates.iter().all(|date| date.moves_otherwise == 0), "{name}: dates stand");
}

#[test]
fn every_shipped_scenario_runs_and_keeps_the_promises() {
    for (name, _) in SHIPPED {
        let scenario = small(name);
        if matches!(scenario.jobs, simulator::scenario::Jobs::Trace(_)) {
            // Its trace is somebody else's, and not here.
            continue;
        }
        let ran = run(&scenario, 1);
        check(name, &ran.record);
    }
}

#[test]
fn the_same_seed_is_the_same_run_and_another_one_is_another() {
    let scenario = small("week-of-a-lab");
    let (one, same, other) = (run(&scenario, 7), run(&scenario, 7), run(&scenario, 8));
    assert_eq!(one.record, same.record);
    assert_eq!(one.measures, same.measures);
    assert_ne!(one.record.attempts, other.record.attempts);
}

#[test]
fn every_job_of_a_quiet_cluster_completes_after_its_own_length() {
    let text = "
name: quiet
length: 3d
nodes: [{ count: 4, gpus: 8 }]
budgets: [{ name: a, share: 100 }]
rules: { free: 0, not_resumable: 0 }
jobs:
  made: [{ count: 12, until: 1d, sizes: [{ gpus: 1 }], runs: 2h }]
";
    let scenario = Scenario::parse("quiet", text).expect("a scenario");
    let ran = run(&scenario, 1);
    assert_eq!(ran.record.jobs.len(), 12);
    for attempt in &ran.record.attempts {
        let (started, ended) = (attempt.started_at.expect("it ran"), attempt.ended_at.expect("it ended"));
        // Saves after 30, 60 and 90 minutes, 20 s each; what is finished is not saved.
        let saves = 3 * 20;
        let exact = 2 * 3_600 + saves;
        assert_eq!(ended.since(started).as_millis() / 1_000, exact, "{attempt:?}");
    }
    assert!(ran.record.jobs.iter().all(|job| matches!(job.ended, Some((_, JobEnd::Completed)))));
    assert!(ran.record.preemptions.is_empty() && ran.record.dates.is_empty());
}

#[test]
fn what_is_wrong_with_a_scenario_is_said_with_its_place() {
    let good = "{name: x, nodes: [{count: 1, gpus: 8}], budgets: [{name: a, share: 100}], jobs: {made: [{count: 1, sizes: [{gpus: 1}], runs: 1h}]}}";
    let cases = [
        ("gpus: 8", "gpus: 0", "nodes[0].gpus"),
        ("share: 100", "share: 120", "budgets.a.share"),
        ("runs: 1h", "runs: 1h, budget: b", "jobs.made[0].budget: there is no leaf `b`; the leaves are a"),
        ("runs: 1h", "runs: 90", "no unit"),
        ("runs: 1h", "run: 1h", "unknown field `run`"),
        ("gpus: 1}", "gpus: 1, wieght: 2}", "wieght"),
        ("name: x", "name: x, settings: {cap: 8}", "settings.cap"),
        ("name: x", "name: x, settings: {capp: 8h}", "there is no such setting"),
        ("name: x", "name: x, load: {offered: -1}", "load.offered"),
    ];
    let said = |text: &str| match Scenario::parse("x.yaml", text) {
        Err(error) => error.to_string(),
        Ok(scenario) => prepare(&scenario, Path::new("."), 1, &[]).map(|_| ()).expect_err(text).to_string(),
    };
    assert!(prepare(&Scenario::parse("x", good).expect("good"), Path::new("."), 1, &[]).is_ok());
    for (from, to, expected) in cases {
        let text = good.replace(from, to);
        assert!(said(&text).contains(expected), "{to}: {}", said(&text));
    }
}
