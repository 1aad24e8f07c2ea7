//! A date of a job that asks for more cores or memory than its GPUs' part is kept: at it, whoever has them leaves, also
//! who has no GPU that the job needs.

use scheduler_core::explain;
use scheduler_core::id::{JobId, Term};
use scheduler_core::plan::{Links, plan};
use scheduler_core::unit::Span;

use super::issue;
use crate::lab::{NOW, name, show, state};
use crate::story::{Story, check};

/// One node of four GPUs, 32 cores and 256 GiB; b has used more than a.
const ONE: &str = "window 24h
    budget a 50
    budget b 50
    node n1 4\n";

fn one(text: &str) -> Story {
    check(&format!("{ONE}{text}"))
}

#[test]
fn a_date_takes_all_the_cores_from_more_jobs_than_the_job_has_gpus() {
    // Two GPUs and every core; three jobs have these when the date comes, two of them of the free tier, which may come
    // at any time.
    one("submit long b 2 min=3h
         run 10m
         submit wide a 2 cpus=32 min=60m
         run 1m
         wide has-date
         submit one b 1 free
         submit two b 1 free
         run 1h
         one runs
         two runs
         wide waits
         run 115m
         wide runs
         takes 3");
}

#[test]
fn a_date_takes_all_the_memory_from_more_jobs_than_the_job_has_gpus() {
    one("submit long b 2 min=3h
         run 10m
         submit wide a 1 memory=256 min=60m
         run 1m
         wide has-date
         submit one b 1 free
         submit two b 1 free
         run 1h
         one runs
         two runs
         run 115m
         wide runs
         takes 3");
}

#[test]
fn a_date_takes_the_cores_of_backfill_that_runs_on() {
    one("submit long b 1 min=3h
         run 10m
         submit wide a 1 cpus=32 min=60m
         submit one b 1 min=10m
         submit two b 2 min=20m
         run 1h
         one runs
         two runs
         run 115m
         wide runs
         takes 3");
}

#[test]
fn a_gangs_date_takes_all_the_cores_of_its_nodes() {
    check(
        "window 24h
         budget a 50
         budget b 50
         node n1 4
         node n2 4
         submit left b 2 min=3h
         submit right b 3 min=2h
         run 10m
         submit wide a 2x1 cpus=32 min=60m
         run 1m
         wide has-date
         submit one b 1 free
         submit two b 1 free
         submit three b 1 free
         run 1h
         three runs
         run 115m
         wide runs
         takes 5",
    );
}

#[test]
fn who_may_take_takes_cores_as_well_as_gpus() {
    // No date is needed: b's jobs are past their protection, and its use is higher by more than the margin.
    one("submit one b 1 min=10m
         submit two b 1 min=10m
         submit three b 1 min=10m
         run 10h
         submit wide a 1 cpus=32 min=60m
         run 5m
         wide runs
         takes 3");
}

#[test]
fn nobody_leaves_for_cores_that_are_there() {
    one("submit one b 1 min=10m
         submit two b 1 min=10m
         submit three b 1 min=10m
         run 10h
         submit wide a 1 cpus=16 min=60m
         run 5m
         wide runs
         takes 1");
}

/// What is decided so long after dates were issued, nothing else having changed.
fn after(lines: &str, more_dates_ppm: u32, span: Span) -> (usize, String) {
    let mut lab = state(lines);
    lab.meta.settings.more_dates_ppm = more_dates_ppm;
    issue(&mut lab);
    let made = plan(&lab, &Links::all_ready(&lab), NOW.plus(span), Term::new(1));
    (lab.dates.len(), show(&made, &lab))
}

/// Two budgets, of which b has used more.
const USED: &str = "budget a 50
     budget b 50
     node n0 8 h100
     runs 80.1 b 8 n0 0-7 for=90h min=96h\n";

#[test]
fn a_date_takes_the_cores_of_who_has_gpus_of_another_type() {
    let lines = format!(
        "{USED}
         node n1 4 a100,h100 cpus=32
         runs 90.1 b 2 n1 0-1 for=1h min=4h
         job 1 a 1 type=h100 cpus=32 pool=main"
    );
    assert_eq!(after(&lines, 0, Span::from_hours(3)), (1, String::from("1 on n1:2 takes 90.1\n")));
}

#[test]
fn who_has_only_cores_that_a_date_needs_is_named_and_has_its_price() {
    // Job 1 needs all cores of a node. On n1 they are with GPUs of another type, and cost four; on n2 they cost one.
    let nodes = [
        "node n1 4 a100,h100 cpus=32\n runs 90.1 b 2 n1 0-1 for=1h min=4h cpus=32",
        "node n2 4 h100 cpus=32\n runs 91.1 b 1 n2 0 for=1h min=4h",
    ];
    let awaited = |nodes: &str| {
        let mut lab = state(&format!("{USED}{nodes}\n job 1 a 1 type=h100 cpus=32"));
        issue(&mut lab);
        let date = lab.dates.values().next().expect("it has one").promise.clone();
        assert_eq!(date.at, NOW.plus(Span::from_hours(3)));
        let node = lab.nodes.get(&date.on[0].0).expect("known").name.to_string();
        let named = date.awaits.iter().map(|one| format!("{} {} {:?}", one.attempt, one.gpus, one.how));
        let shown = explain::job(&lab, &Links::all_ready(&lab), JobId::new(1), NOW).expect("it waits");
        let facts = shown.facts.iter().filter(|group| group.title == "its date");
        let told: Vec<String> = facts
            .flat_map(|group| &group.facts)
            .map(|fact| format!("{}: {}", fact.what, fact.value))
            .collect();
        (node, named.collect::<Vec<_>>(), told)
    };
    let (node, named, _) = awaited(&nodes.join("\n"));
    assert_eq!((node.as_str(), named), ("n2", vec![String::from("91.1 1 Protection")]));
    let (node, named, told) = awaited(nodes[0]);
    assert_eq!((node.as_str(), named), ("n1", vec![String::from("90.1 0 Protection")]));
    let line = "with 90.1 (b): its cores and memory: protected until then at the latest";
    assert!(told.iter().any(|fact| fact == line), "{told:?}");
}

#[test]
fn a_date_takes_the_cores_of_who_has_gpus_of_a_later_date() {
    // Job 1 waits for n2, and has three GPUs of n1 by then: that of 90, which is cheaper than 91, and the idle ones. Job 2
    // comes three hours before it, on the GPU of 91; the cores that it lacks are with 90.
    let lines = format!(
        "{USED}
         node n1 4 h100 cpus=32
         node n2 4 h100 cpus=32
         runs 90.1 b 1 n1 0 for=1h min=4h cpus=24
         runs 91.1 b 1 n1 1 for=1h min=4h cpus=2 pre=2
         runs 92.1 b 4 n2 0-3 for=1h min=7h
         job 1 a 2x3 cpus=8 min=1h
         job 2 a 1 cpus=12 min=8h"
    );
    let expected = String::from("2 on n1:1 takes 90.1,91.1\n");
    assert_eq!(after(&lines, 1_000_000, Span::from_hours(3)), (2, expected));
}

#[test]
fn cores_of_who_leaves_for_an_earlier_date_count_until_its_own_time() {
    // Job 1 takes 90 at 2 h, if it comes there. Nobody can count on that, and before job 2 goes 90 first: it may stay for
    // the cap after the issue.
    let mut lab = state(
        "budget a 50
         budget b 25
         budget c 25
         node n1 4 h100 cpus=32
         runs 80.1 a 4 n1 0-3 for=99h was
         runs 90.1 b 2 n1 0-1 for=9h min=11h cpus=20
         job 1 c 4 cpus=8 min=1h
         job 2 a 1 cpus=20 min=1h",
    );
    lab.meta.settings.more_dates_ppm = 1_000_000;
    issue(&mut lab);
    let dates: Vec<(u32, Span)> =
        lab.dates.iter().map(|((job, _), date)| (job.get(), date.promise.at.since(NOW))).collect();
    assert_eq!(dates, [(1, Span::from_hours(2)), (2, Span::from_hours(8))]);
    // Job 1 is gone, and 90 runs on: the date is kept.
    let place = lab.line.keys().find(|place| place.job.get() == 1).cloned().expect("it waits");
    lab.line.remove(&place);
    lab.dates.remove(&(place.job, name("main")));
    let made = plan(&lab, &Links::all_ready(&lab), NOW.plus(Span::from_hours(8)), Term::new(1));
    assert_eq!(show(&made, &lab), "2 on n1:0 takes 90.1\n");
}
