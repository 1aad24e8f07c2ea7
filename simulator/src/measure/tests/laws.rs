//! Laws that hold for every run.

use proptest::prelude::*;

use super::*;
use crate::measure::{measure, series};

/// Attempts in a drawn order on drawn GPUs, each after the last one there: nothing is held twice.
fn runs() -> impl Strategy<Value = Record> {
    let item = (0..3_usize, 0..4_u16, 1..=4_u16, 0..90_u64, 1..300_u64, 0..7_u64, 1..=3_usize, 0..4_u64);
    let away = (0..3_usize, 0..700_u64, 1..300_u64);
    (prop::collection::vec(item, 0..40), prop::collection::vec(away, 0..3), 300..900_u64).prop_map(
        |(items, away, end)| {
            let mut record = small();
            record.end = at(end);
            record.budgets.push(budget("z", Some(0), 0.2, true));
            record.nodes.push(NodeRecord { name: "n3".to_owned(), gpus: 4, away: Vec::new() });
            record.nodes.iter_mut().for_each(|node| node.away.clear());
            for (node, from, length) in away {
                record.nodes[node].away = vec![(at(from), at(from + length))];
            }
            (record.jobs, record.attempts) = (Vec::new(), Vec::new());
            (record.preemptions, record.dates, record.heads) = (Vec::new(), Vec::new(), Vec::new());
            let mut free = [[0_u64; 4]; 3];
            for (node, first, gpus, gap, length, clear, leaf, min) in items {
                let held = first..(first + gpus).min(4);
                let from = held.clone().map(|slot| free[node][usize::from(slot)]).max().unwrap_or(0) + gap;
                held.clone().for_each(|slot| free[node][usize::from(slot)] = from + length + clear);
                let place = record.jobs.len();
                let width = u32::try_from(held.len()).unwrap();
                record.jobs.push(JobRecord {
                    ended: (from + length <= end).then(|| (at(from + length), JobEnd::Completed)),
                    ..job("j", leaf, width, from.saturating_sub(gap), min * 60, length)
                });
                record.attempts.push(AttemptRecord {
                    protected_until: (min > 0).then(|| at(from + min * 60)),
                    freed_at: Some(at(from + length + clear)),
                    ..attempt(place, slots(u32::try_from(node).unwrap(), held), from, Some(from + length))
                });
            }
            record
        },
    )
}

proptest! {
    #[test]
    fn classes_add_up_to_all_gpus_times_the_time(record in runs()) {
        let classes = measure(&record).classes;
        let sum = classes.funded_gpu_ms + classes.free_gpu_ms + classes.handover_gpu_ms
            + classes.overhead_gpu_ms + classes.idle_gpu_ms + classes.unavailable_gpu_ms;
        let whole = 12 * record.end.since(record.begin).as_millis();
        prop_assert_eq!((sum, classes.total_gpu_ms), (whole, whole));
        prop_assert_eq!(classes.held_twice_gpu_ms, 0);
        prop_assert!(classes.protected_gpu_ms <= classes.funded_gpu_ms);
    }

    #[test]
    fn owed_is_at_most_allocation_and_demand_and_leaves_add_up_to_what_was_occupied(record in runs()) {
        let measures = measure(&record);
        for hours in &series(&record).hours {
            for hour in hours {
                prop_assert_eq!(hour.owed_gpu_ms, hour.allocation_gpu_ms.min(hour.demand_gpu_ms));
                prop_assert!(hour.delivered_gpu_ms <= hour.demand_gpu_ms);
            }
        }
        let leaves = &measures.delivery.leaves;
        let delivered: u64 = leaves.iter().map(|leaf| leaf.delivered_gpu_ms).sum();
        let free: u64 = leaves.iter().map(|leaf| leaf.free_gpu_ms).sum();
        prop_assert_eq!((delivered, free), (measures.classes.funded_gpu_ms, measures.classes.free_gpu_ms));
        for leaf in leaves {
            prop_assert!(leaf.strict_ratio <= leaf.period_ratio, "late delivery never makes less of it");
            prop_assert!(leaf.period_ratio.is_none_or(|ratio| ratio <= 1.0));
        }
    }

    #[test]
    fn demand_in_the_window_is_never_less_than_what_was_charged(record in runs()) {
        let series = series(&record);
        for (budget, points) in series.used.iter().enumerate() {
            for point in points {
                prop_assert!(point.charged <= point.demand, "budget {}: {:?}", budget, point);
            }
        }
    }

    #[test]
    fn room_grows_with_patience(record in runs()) {
        for room in series(&record).rooms {
            prop_assert!(room.idle <= room.now && room.now <= room.in_1h && room.in_1h <= room.in_8h);
            prop_assert!(room.in_8h <= 12);
        }
    }

    #[test]
    fn a_measured_run_survives_json(record in runs()) {
        let measures = measure(&record);
        let json = serde_json::to_string(&measures).unwrap();
        let back: crate::measure::Measures = serde_json::from_str(&json).unwrap();
        prop_assert_eq!((back.classes, back.jobs, back.waits), (measures.classes, measures.jobs, measures.waits));
    }
}
