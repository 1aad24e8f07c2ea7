//! The queue, which looks at a pool once for all who see it alike, against each job's own explanation, which looks for that
//! job alone.

use std::collections::BTreeSet;

use scheduler_core::explain::{Token, job};
use scheduler_core::plan::Links;
use scheduler_core::queue::rows;

use crate::dates::issue;
use crate::lab::{NOW, state};
use crate::random::{Random, lab, lab_with_gangs, spread};

#[test]
fn row_of_the_queue_says_what_its_job_is_told_alone() {
    let mut tokens: BTreeSet<Token> = BTreeSet::new();
    let mut dated = 0;
    for seed in 9000..9040 {
        let random = &mut Random::new(seed);
        let mut lab = state(&spread(seed, if random.one_in(2) { lab } else { lab_with_gangs }));
        lab.meta.settings.burst_limit_pct = *random.pick(&[0, 50, 100, 200]);
        lab.meta.settings.short_lane_ppm = *random.pick(&[0, 0, 250_000]);
        lab.meta.settings.dates = random.one_in(2);
        if lab.meta.settings.dates {
            issue(&mut lab);
        }
        let links = Links::all_ready(&lab);
        for row in rows(&lab, &links, NOW) {
            let what = format!("seed {seed}: job {}", row.job);
            let told = job(&lab, &links, row.job, NOW).expect("a job of the queue");
            assert_eq!(row.reason, told.reasons[0], "{what}");
            assert_eq!(row.place, told.place.as_ref().map(|place| place.place), "{what}");
            assert_eq!(row.date, told.date.as_ref().map(|date| date.promise.at), "{what}");
            tokens.insert(row.reason.token);
            dated += usize::from(row.date.is_some());
        }
    }
    assert!(dated > 0 && tokens.len() >= 5, "inconclusive: {dated} dates, {tokens:?}");
}
