//! The small record's figures, each computed by hand.

use super::*;
use crate::measure::{Classes, Known, Measures, Room, measure, series};

fn exact(minutes: u64) -> Option<Known> {
    Some(Known { ms: minutes * MINUTE, is_at_least: false })
}

fn at_least(minutes: u64) -> Option<Known> {
    Some(Known { ms: minutes * MINUTE, is_at_least: true })
}

fn is_near(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value - expected).abs() < 1e-12)
}

#[test]
fn every_gpu_millisecond_is_in_one_class() {
    let classes = measure(&small()).classes;
    let expected = Classes {
        total_gpu_ms: 80 * HOUR,
        // long 4 x 3 h and 4 x 4 h, taker 4 x 2.9 h, debug half an hour.
        funded_gpu_ms: 40 * HOUR + 6 * MINUTE,
        free_gpu_ms: 8 * HOUR,
        // The taker waits for GPUs that are overhead until its go.
        handover_gpu_ms: 0,
        overhead_gpu_ms: 24 * MINUTE,
        idle_gpu_ms: 23 * HOUR + 30 * MINUTE,
        unavailable_gpu_ms: 8 * HOUR,
        // 4 x 2 h, 4 x 1 h, 10 min, 4 x 2 h.
        protected_gpu_ms: 20 * HOUR + 10 * MINUTE,
        // The second node from the sixth to the eighth hour, without debug.
        idle_while_head_waits_gpu_ms: 11 * HOUR + 30 * MINUTE,
        held_twice_gpu_ms: 0,
    };
    assert_eq!(classes, expected);
}

#[test]
fn occupancy_is_of_the_time_in_service() {
    let occupancy = measure(&small()).occupancy;
    assert!(is_near(occupancy.occupied_ratio, 48.1 / 72.0));
    assert!(is_near(occupancy.useful_ratio, (48.1 - 2.5) / 72.0));
    assert!(is_near(occupancy.free_ratio, 8.0 / 48.1));
}

#[test]
fn owed_is_the_allocation_at_most_the_demand_hour_by_hour() {
    let delivery = measure(&small()).delivery;
    let [x, y] = delivery.leaves.as_slice() else { panic!("two leaves") };
    // x: 4 of 8 GPUs for eight hours, 2 of 4 for two. It always wanted more.
    assert_eq!((x.owed_gpu_ms, x.delivered_gpu_ms), (36 * HOUR, 28 * HOUR + 30 * MINUTE));
    assert!(is_near(x.period_ratio, 28.5 / 36.0));
    // Of hours 3 to 5 it got only half a GPU-hour; of the last two, at most what was owed counts.
    assert!(is_near(x.strict_ratio, 24.5 / 36.0));
    // y: wanted 4 GPUs from 2:30 to 6:00, is worth 2.
    assert_eq!((y.owed_gpu_ms, y.delivered_gpu_ms), (8 * HOUR, 11 * HOUR + 36 * MINUTE));
    assert_eq!(y.free_gpu_ms, 8 * HOUR);
    assert!(is_near(y.period_ratio, 1.0) && is_near(y.strict_ratio, 0.75));
    assert!(is_near(delivery.period.mean_ratio, (28.5 / 36.0 + 1.0) / 2.0));
    assert_eq!(delivery.period.worst.as_deref(), Some("x"));
    assert_eq!((delivery.period.at_least_95, delivery.period.leaves), (1, 2));
    assert_eq!(delivery.strict.at_least_95, 0);
}

#[test]
fn a_job_that_still_waits_counts_with_its_wait_so_far() {
    let measures = measure(&small());
    let of = |of, gpus| measures.waits_of(of, gpus).expect("there is such a row");
    let all = of("all", "any");
    assert_eq!((all.jobs, all.not_over), (5, 1), "a refused job never waited");
    assert_eq!((all.p50, all.p90), (exact(36), at_least(300)));
    assert_eq!(of("debug", "1-8").p90, exact(60));
    assert_eq!(of("funded", "5-8").longest, at_least(300));
    assert_eq!(of("funded", "2-4").p50, exact(0));
    assert_eq!(of("free tier", "2-4").p50, exact(0));
    assert_eq!((of("funded", "128+").jobs, of("funded", "128+").p50), (0, None));
    assert_eq!(of("y", "any").p50, exact(36));
}

#[test]
fn the_heads_wait_is_from_becoming_first_to_the_go() {
    let heads = measure(&small()).heads;
    assert_eq!((heads.waits, heads.longest), (1, at_least(300)));
    assert_eq!(heads.longest_job.as_deref(), Some("wide"));
    assert_eq!(heads.longest_first_ms, 300 * MINUTE);
    assert_eq!((heads.over, heads.over_with_reason), (1, 1), "a node was away");

    let mut record = small();
    record.nodes[1].away.clear();
    // Somebody else was first for an hour: the promise does not stop for that.
    record.heads =
        [(300, 360), (420, 600)].map(|(a, b)| HeadRecord { job: 4, since: at(a), until: at(b) }).into();
    let heads = measure(&record).heads;
    assert_eq!((heads.waits, heads.longest), (1, at_least(300)));
    assert_eq!(heads.longest_first_ms, 240 * MINUTE);
    assert_eq!((heads.over, heads.over_with_reason), (1, 0), "its own date is no reason");
    // It was first of all when its date was issued; that it could not start is seen in the round after that.
    record.dates[0].issued_at = at(290);
    assert_eq!(measure(&record).heads.longest, at_least(310));
    record.dates[0].issued_at = at(300);
    // Another job's date stood before.
    record.dates.push(DateRecord { job: 2, issued_at: at(299), ..record.dates[0] });
    assert_eq!(measure(&record).heads.over_with_reason, 1);
}

#[test]
fn a_preemption_is_billed_to_its_tier_and_cause() {
    let bill = measure(&small()).bill;
    assert_eq!((bill.total.preemptions, bill.total.lost_gpu_ms), (2, 2 * HOUR + 30 * MINUTE));
    assert!(is_near(bill.total.per_1000_gpu_h, 2000.0 / 48.1));
    let [funded, free] = bill.tiers.as_slice() else { panic!("two tiers") };
    assert!(is_near(funded.cost.lost_ratio, 2.0 / 40.1) && is_near(free.cost.lost_ratio, 0.5 / 8.0));
    let causes: Vec<_> = bill.causes.iter().map(|c| (&*c.cause, &*c.tier, c.cost.preemptions)).collect();
    assert_eq!(causes, [("share", "funded", 1), ("free tier made way", "free tier", 1)]);
    let most = bill.most_funded.expect("one was preempted");
    assert_eq!((&*most.job, &*most.budget, most.times, most.lost_gpu_ms), ("long", "x", 1, 2 * HOUR));
    assert_eq!((bill.wasted, bill.flips), (0, 0));
}

#[test]
fn taking_back_within_four_hours_is_a_flip() {
    let mut record = small();
    // The third attempt is y's: x takes it back.
    let back = |minute| PreemptionRecord {
        at: at(minute),
        victim: 2,
        taken_for: Some(0),
        cause: Cause::Share,
        lost_gpu_ms: 0,
        is_wasted: true,
    };
    for (minutes, flips) in [(vec![181], 1), (vec![420], 1), (vec![421], 0), (vec![300, 300], 1)] {
        record.preemptions.truncate(2);
        record.preemptions.extend(minutes.iter().map(|minute| back(*minute)));
        let bill = measure(&record).bill;
        assert_eq!((bill.flips, bill.wasted), (flips, u64::try_from(minutes.len()).unwrap()), "{minutes:?}");
    }
}

#[test]
fn offered_load_and_demand_at_a_moment_are_two_things() {
    let load = measure(&small()).load;
    assert!(is_near(load.offered_ratio, (24.0 + 11.6 + 16.0 + 0.5 + 8.0) / 72.0));
    assert!(is_near(load.demand_mean_ratio, 1.76875));
    assert!(is_near(load.demand_p50_ratio, 1.375));
    assert!(is_near(load.demand_max_ratio, 3.5));
}

#[test]
fn use_is_what_the_window_was_charged_of_what_it_was_worth() {
    let record = small();
    let Measures { used, .. } = measure(&record);
    // The last four hours: 16 GPU-hours of half of 24.
    assert!(is_near(used[1].last_ratio, 16.0 / 12.0));
    assert!(is_near(used[2].last_ratio, 0.0));
    // At 6:00 y had 11.6 of a quarter of 32.
    assert!(is_near(used[2].max_ratio, 11.6 / 8.0));
    let series = series(&record);
    let first = series.used[1][0];
    // After an hour: 4 of 4, as if the three hours before had been like it, but nothing was charged in them.
    assert!(is_near(first.charged, 4.0 / 16.0) && is_near(first.demand, 4.0 / 16.0));
    assert_eq!(series.used_at_ms.len(), 10);
    assert!(is_near(series.used[0][9].charged, 16.0 / 24.0), "the root has what its leaves have");
}

#[test]
fn dates_count_as_late_from_the_first_one() {
    let dates = measure(&small()).dates;
    assert_eq!((dates.issued, dates.moved_by_node, dates.moved_otherwise), (1, 1, 0));
    assert_eq!(dates.latest, at_least(180));
}

#[test]
fn room_is_the_largest_job_that_fits() {
    let record = small();
    let series = series(&record);
    let room = |hour: usize| series.rooms[hour - 1];
    // Hour 7: the first node protected until 8, the second empty.
    assert_eq!(room(7), Room { idle: 4, now: 4, in_1h: 8, in_8h: 8 });
    // Hour 2: past its protection; two of the second's with the free tier.
    assert_eq!(room(2), Room { idle: 2, now: 8, in_1h: 8, in_8h: 8 });
    // Hour 9: the second is away.
    assert_eq!(room(9), Room { idle: 0, now: 4, in_1h: 4, in_8h: 4 });
    assert_eq!(series.rooms.len(), 9);
    assert_eq!(measure(&record).rooms.mostly.now, 4);
}

#[test]
fn every_job_is_counted_once() {
    let jobs = measure(&small()).jobs;
    assert_eq!((jobs.submitted, jobs.refused, jobs.completed, jobs.running, jobs.waiting), (6, 1, 2, 1, 2));
}

#[test]
fn a_launch_that_failed_is_overhead_and_nobodys_work() {
    let mut record = small();
    record.attempts[3].end = Some(AttemptEnd::NotLaunched);
    record.attempts[3].started_at = None;
    let measures = measure(&record);
    assert_eq!(measures.classes.funded_gpu_ms, 39 * HOUR + 36 * MINUTE);
    assert_eq!(measures.classes.overhead_gpu_ms, 54 * MINUTE);
    assert_eq!(measures.waits_of("debug", "1-8").expect("there is such a row").not_over, 1);
}

#[test]
fn two_attempts_on_one_gpu_are_told() {
    let mut record = small();
    record.attempts[3].gpus = slots(0, 0..1);
    assert_eq!(measure(&record).classes.held_twice_gpu_ms, 30 * MINUTE);
}
