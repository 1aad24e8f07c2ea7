//! Policies of others on the engine: each does what its documentation says, and nobody goes around `apply`.

use scheduler_core::unit::{Span, Timestamp};
use simulator::policy::NAMES;
use simulator::record::{GpuPlace, JobEnd, Record};
use simulator::scenario::Scenario;
use simulator::sweep::{Case, one};
use tempfile::tempdir;

/// Runs jobs, given as rows of `job,submit_s,duration_s,gpus,team,min_runtime,time_limit`, on two machines of 8 GPUs that
/// two teams share equally.
fn run(policy: &str, rows: &str) -> Record {
    let folder = tempdir().expect("a folder");
    let csv = format!("job,submit_s,duration_s,gpus,team,min_runtime,time_limit\n{rows}");
    std::fs::write(folder.path().join("jobs.csv"), csv).expect("the trace is written");
    let text = "\
name: two-teams
length: 40h
nodes: [{ count: 2, gpus: 8 }]
budgets: [{ name: a, share: 50 }, { name: b, share: 50 }]
jobs: { trace: { file: jobs.csv } }
teams: { map: { a: a, b: b } }
rules: { free: 0, not_resumable: 0 }
models: { checkpoints: { at_notice: true, leave_early: true } }
";
    let scenario = Scenario::parse("two-teams.yaml", text).expect("it is a scenario");
    let case = Case {
        scenario: &scenario,
        folder: folder.path(),
        seed: 1,
        policy: policy.into(),
        variant: Vec::new(),
    };
    one(&case, &mut |_| ()).expect("it runs").record
}

/// Returns when a job started first, in seconds after the first submission.
fn start(record: &Record, name: &str) -> Option<u64> {
    let first = record.jobs.iter().map(|job| job.submitted_at).min()?;
    let job = record.jobs.iter().position(|job| *job.name == *name)?;
    let attempts = record.attempts.iter().filter(|attempt| attempt.job == job);
    let started: Option<Timestamp> = attempts.filter_map(|attempt| attempt.started_at).min();
    started.map(|at| at.since(first).as_millis() / 1000)
}

fn starts_between(record: &Record, name: &str, from: u64, until: u64) {
    let at = start(record, name);
    assert!(
        at.is_some_and(|at| (from..=until).contains(&at)),
        "{name} started at {at:?}, not {from} to {until}"
    );
}

/// Returns who was taken for whom.
fn preemptions(record: &Record) -> Vec<(&str, Option<&str>)> {
    let name = |job: usize| &*record.jobs[job].name;
    let all = record.preemptions.iter();
    all.map(|p| (name(record.attempts[p.victim].job), p.taken_for.map(name))).collect()
}

/// A holds a machine for an hour; B needs both; C is short and would fit beside A.
const GAP: &str = "A,0,3600,8,a,1h,1h\nB,60,3600,16,b,1h,1h\nC,120,600,1,a,10m,15m\n";

#[test]
fn fifo_starts_nobody_before_who_came_earlier() {
    let record = run("fifo", GAP);
    starts_between(&record, "B", 3600, 3800);
    starts_between(&record, "C", 7200, 7500);
    assert!(record.preemptions.is_empty());
}

#[test]
fn slurm_backfills_who_is_over_before_the_next_in_order_begins() {
    let record = run("slurm", GAP);
    starts_between(&record, "C", 120, 300);
    starts_between(&record, "B", 3600, 3800);
    // The same C with a limit beyond A's end would delay B, and has to wait for it.
    let record = run("slurm", &GAP.replace("15m", "4h"));
    starts_between(&record, "B", 3600, 3800);
    starts_between(&record, "C", 7200, 7600);
}

#[test]
fn slurm_puts_the_user_with_less_use_first() {
    let rows = "a0,0,14400,16,a,1h,4h\na1,100,3600,16,a,1h,1h\nb1,200,3600,16,b,1h,1h\n";
    let record = run("slurm", rows);
    starts_between(&record, "b1", 14_400, 14_700);
    starts_between(&record, "a1", 18_000, 18_600);
    starts_between(&run("fifo", rows), "a1", 14_400, 14_700);
}

#[test]
fn slurm_takes_the_lower_class_only_after_its_exempt_time() {
    let rows = "low,0,36000,16,a,0s,12h\nhigh,600,3600,8,b,1h,1h\n";
    let record = run("slurm", rows);
    starts_between(&record, "high", 7200, 7600);
    assert_eq!(preemptions(&record), [("low", Some("high"))]);
    let record = run("slurm-without-preemption", rows);
    starts_between(&record, "high", 36_000, 36_400);
    assert!(record.preemptions.is_empty());
}

#[test]
fn slurm_never_takes_a_normal_job_for_another() {
    let record = run("slurm", "a0,0,36000,16,a,15m,12h\nb0,600,3600,8,b,1h,1h\n");
    starts_between(&record, "b0", 36_000, 36_400);
    assert!(record.preemptions.is_empty());
}

#[test]
fn levels_take_who_is_beyond_the_limit_and_nobody_who_opted_out() {
    // The limit of each team is 8 GPUs: `in` opts out, `over` cannot any more.
    let rows = "in,0,36000,8,a,1h,12h\nover,10,36000,8,a,1h,12h\nfirst,600,7200,8,b,1h,2h\nsecond,700,7200,8,b,1h,2h\n";
    let record = run("levels", rows);
    starts_between(&record, "first", 600, 900);
    assert_eq!(preemptions(&record), [("over", Some("first"))]);
    let second = start(&record, "second").expect("it starts in the end");
    assert!(second >= 7800, "nobody is taken for a job beyond the limit of its team: {second}");
}

#[test]
fn every_policy_keeps_the_laws_of_apply() {
    let row = |at: u64| {
        let (team, minimum) =
            (if at.is_multiple_of(3) { "a" } else { "b" }, ["0s", "15m", "2h"][(at % 3) as usize]);
        let (gpus, length) = ([1, 2, 8, 16][(at % 4) as usize], 600 + 700 * (at % 5));
        format!("j{at},{},{length},{gpus},{team},{minimum},\n", at * 180)
    };
    let rows: String = (0..60_u64).map(row).collect();
    for name in NAMES {
        let record = run(name, &rows);
        assert_eq!(record.policy, *name);
        let ended = |job: &&simulator::record::JobRecord| matches!(job.ended, Some((_, JobEnd::Completed)));
        assert_eq!(record.jobs.iter().filter(ended).count(), 60, "{name}: everything is done in the end");
        for preemption in &record.preemptions {
            let victim = &record.attempts[preemption.victim];
            let is_protected = victim.protected_until.is_some_and(|until| preemption.at < until);
            assert!(!is_protected, "{name}: {victim:?}");
        }
        let mut held: Vec<(GpuPlace, Timestamp, Timestamp)> = Vec::new();
        for attempt in &record.attempts {
            let Some(go_at) = attempt.go_at else { continue };
            let until = attempt.freed_at.unwrap_or(record.end);
            held.extend(attempt.gpus.iter().map(|gpu| (*gpu, go_at, until)));
        }
        held.sort_unstable();
        let is_twice = |pair: &[(GpuPlace, Timestamp, Timestamp)]| {
            let (one, other) = (pair[0], pair[1]);
            one.0 == other.0 && other.1.plus(Span::from_millis(1)) < one.2
        };
        assert!(!held.windows(2).any(is_twice), "{name}: a GPU was with two at once");
    }
}
