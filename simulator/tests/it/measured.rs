//! Figures of runs that really were decided: the laws that no policy may break.

use std::path::Path;

use simulator::measure::{Measures, SCHEMA, measure, series};
use simulator::record::Record;
use simulator::report::page;
use simulator::scenario::{Jobs, shipped};
use simulator::sweep::{Case, one};

/// Half a day of a shipped lab, cut to what a debug build runs in seconds.
fn half_a_day() -> (Record, Measures) {
    let mut scenario = shipped("week-of-a-lab").expect("it ships").expect("it is a scenario");
    scenario.length = Some("12h".parse().expect("a length"));
    scenario.nodes.iter_mut().for_each(|nodes| nodes.count = nodes.count.min(6));
    if let Jobs::Made(streams) = &mut scenario.jobs {
        for made in streams {
            made.count = made.count.min(30);
        }
    }
    let scenario = &scenario;
    let case =
        Case { scenario, folder: Path::new("."), seed: 1, policy: "bursar".into(), variant: Vec::new() };
    let ran = one(&case, &mut |_| ()).expect("it runs");
    (ran.record, ran.measures)
}

#[test]
fn figures_of_a_run_obey_the_laws_and_have_a_page() {
    let (record, measures) = half_a_day();
    assert_eq!(measures.schema, SCHEMA);
    assert_eq!(measures, measure(&record), "measuring twice changes nothing");

    let classes = &measures.classes;
    let gpus: u64 = record.nodes.iter().map(|node| u64::from(node.gpus)).sum();
    let parts = [
        classes.funded_gpu_ms,
        classes.free_gpu_ms,
        classes.handover_gpu_ms,
        classes.overhead_gpu_ms,
        classes.idle_gpu_ms,
        classes.unavailable_gpu_ms,
    ];
    assert_eq!(parts.iter().sum::<u64>(), gpus * record.end.since(record.begin).as_millis());
    assert_eq!(classes.held_twice_gpu_ms, 0, "a GPU is never held twice");

    let leaves = &measures.delivery.leaves;
    let sum = |of: fn(&simulator::measure::Leaf) -> u64| leaves.iter().map(of).sum::<u64>();
    assert_eq!(sum(|leaf| leaf.delivered_gpu_ms), classes.funded_gpu_ms);
    assert_eq!(sum(|leaf| leaf.free_gpu_ms), classes.free_gpu_ms);
    for leaf in leaves {
        assert!(leaf.owed_gpu_ms <= leaf.allocation_gpu_ms.min(leaf.demand_gpu_ms), "{leaf:?}");
        assert!(leaf.delivered_gpu_ms <= leaf.demand_gpu_ms, "{leaf:?}");
        assert!(leaf.strict_ratio <= leaf.period_ratio, "{leaf:?}");
    }
    for hour in series(&record).hours.iter().flatten() {
        assert_eq!(hour.owed_gpu_ms, hour.allocation_gpu_ms.min(hour.demand_gpu_ms), "{hour:?}");
    }

    let jobs = &measures.jobs;
    let ends = [jobs.refused, jobs.completed, jobs.failed, jobs.cancelled, jobs.preempted, jobs.timed_out];
    let ends = ends.iter().sum::<u64>() + jobs.withdrawn + jobs.lost + jobs.running + jobs.waiting;
    assert_eq!(ends, jobs.submitted);
    let all = measures.waits_of("all", "any").expect("there is such a row");
    assert_eq!(all.jobs + jobs.refused, jobs.submitted, "nobody's wait is dropped");

    assert_eq!(measures.bill.total.preemptions, u64::try_from(record.preemptions.len()).unwrap());
    assert_eq!(measures.heads.over, measures.heads.over_with_reason, "{:?}", measures.heads);
    assert!(page(&record).unwrap().contains("week-of-a-lab"));
}
