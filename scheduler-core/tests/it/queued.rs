//! The queue, which looks at a pool once for all who see it alike, against each job's own explanation, which looks for that
//! job alone.

use std::collections::BTreeSet;

use scheduler_core::explain::{Token, job};
use scheduler_core::id::JobId;
use scheduler_core::plan::Links;
use scheduler_core::queue::rows;
use scheduler_core::unit::Span;

use crate::dates::issue;
use crate::lab::{NOW, state, undated};
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

#[test]
fn who_may_take_whom_is_asked_for_each_budget_though_jobs_ask_for_the_same() {
    // Both ask for one GPU and five of eight cores. a may take from b, who has six; c, who has used more than b, may take
    // from d alone, who has one. c has run 5 h, b 2 h, d 9 h, of 12 GPU-h a day each.
    let mut lab = undated(
        "node n1 2 h100 cpus=8
         budget a 25
         budget b 25
         budget c 25
         budget d 25
         runs 1.1 c 1 n1 0 for=5h was
         runs 90.1 b 1 n1 0 for=2h min=1h cpus=6
         runs 91.1 d 1 n1 1 for=9h min=1h cpus=1
         job 2 a 1 cpus=5
         job 3 c 1 cpus=5",
    );
    lab.meta.settings.window = Span::from_hours(24);
    let links = Links::all_ready(&lab);
    let rows = rows(&lab, &links, NOW);
    let told =
        |id: u32| job(&lab, &links, JobId::new(id), NOW).expect("a job of the queue").reasons[0].clone();
    let said = |id: u32| rows.iter().find(|row| row.job == JobId::new(id)).expect("a row").reason.clone();
    assert_eq!(said(2), told(2));
    assert_eq!(said(3), told(3));
}
