//! Figures computed by hand on a small record, and laws on drawn ones.

mod by_hand;
mod laws;

use scheduler_core::unit::{Span, Timestamp};

use crate::record::{
    AttemptEnd, AttemptRecord, BudgetRecord, Cause, DateRecord, GpuPlace, HeadRecord, JobEnd, JobRecord,
    NodeRecord, PreemptionRecord, Record,
};

/// One GPU-minute.
const MINUTE: u64 = 60_000;
/// One GPU-hour.
const HOUR: u64 = 60 * MINUTE;

/// A moment, in minutes since the run began.
fn at(minutes: u64) -> Timestamp {
    Timestamp::ZERO.plus(Span::from_hours(1000)).plus(Span::from_mins(minutes))
}

fn budget(path: &str, parent: Option<usize>, share: f64, is_leaf: bool) -> BudgetRecord {
    BudgetRecord { path: path.to_owned(), parent, share, is_leaf }
}

fn job(name: &str, budget: usize, gpus: u32, submitted: u64, min_runtime: u64, work: u64) -> JobRecord {
    JobRecord {
        name: name.into(),
        budget,
        user: "ann".into(),
        submitted_at: at(submitted),
        gpus,
        nodes: 1,
        is_free: min_runtime == 0,
        min_runtime: Span::from_mins(min_runtime),
        work: Span::from_mins(work),
        is_resumable: true,
        ended: None,
    }
}

/// An attempt that goes when it is placed, starts at once, and whose GPUs are free when it ends.
fn attempt(job: usize, gpus: Box<[GpuPlace]>, from: u64, until: Option<u64>) -> AttemptRecord {
    AttemptRecord {
        job,
        number: 1,
        gpus,
        placed_at: at(from),
        go_at: Some(at(from)),
        started_at: Some(at(from)),
        protected_until: None,
        noticed_at: None,
        ended_at: until.map(at),
        freed_at: until.map(at),
        end: until.map(|_| AttemptEnd::ByItself),
    }
}

fn slots(node: u32, slots: std::ops::Range<u16>) -> Box<[GpuPlace]> {
    slots.map(|slot| GpuPlace::new(node, slot)).collect()
}

/// Ten hours of two nodes with four GPUs, of which the second is away from the ninth hour on; `x` has half, `y` a
/// quarter.
fn small() -> Record {
    let mut jobs = vec![
        job("long", 1, 4, 0, 120, 360),
        job("taker", 2, 4, 150, 60, 174),
        job("spare", 2, 2, 60, 0, 480),
        job("debug", 1, 1, 240, 10, 30),
        job("wide", 1, 8, 300, 60, 60),
        job("wrong", 1, 99, 300, 60, 60),
    ];
    jobs[1].ended = Some((at(360), JobEnd::Completed));
    jobs[3].ended = Some((at(330), JobEnd::Completed));
    jobs[5].ended = Some((at(300), JobEnd::Refused));
    let attempts = vec![
        AttemptRecord {
            protected_until: Some(at(120)),
            noticed_at: Some(at(180)),
            freed_at: Some(at(186)),
            end: Some(AttemptEnd::Preempted),
            ..attempt(0, slots(0, 0..4), 0, Some(180))
        },
        AttemptRecord {
            noticed_at: Some(at(300)),
            end: Some(AttemptEnd::Preempted),
            ..attempt(2, slots(1, 0..2), 60, Some(300))
        },
        AttemptRecord {
            placed_at: at(180),
            protected_until: Some(at(246)),
            ..attempt(1, slots(0, 0..4), 186, Some(360))
        },
        AttemptRecord { protected_until: Some(at(310)), ..attempt(3, slots(1, 0..1), 300, Some(330)) },
        AttemptRecord { number: 2, protected_until: Some(at(480)), ..attempt(0, slots(0, 0..4), 360, None) },
    ];
    let preemption = |minute, victim, taken_for, cause, lost| PreemptionRecord {
        at: at(minute),
        victim,
        taken_for: Some(taken_for),
        cause,
        lost_gpu_ms: lost,
        is_wasted: false,
    };
    Record {
        scenario: "small".to_owned(),
        policy: "bursar".to_owned(),
        variant: Vec::new(),
        seed: 1,
        begin: at(0),
        end: at(600),
        window: Span::from_hours(4),
        cap: Span::from_hours(8),
        head_bound: Span::from_hours(2),
        nodes: vec![
            NodeRecord { name: "n1".to_owned(), gpus: 4, away: Vec::new() },
            NodeRecord { name: "n2".to_owned(), gpus: 4, away: vec![(at(480), at(600))] },
        ],
        budgets: vec![
            budget("", None, 1.0, false),
            budget("x", Some(0), 0.5, true),
            budget("y", Some(0), 0.25, true),
        ],
        jobs,
        attempts,
        preemptions: vec![
            preemption(180, 0, 1, Cause::Share, 2 * HOUR),
            preemption(300, 1, 3, Cause::FreeTier, 30 * MINUTE),
        ],
        dates: vec![DateRecord {
            job: 4,
            issued_at: at(300),
            first_at: at(420),
            at: at(540),
            moves_by_node: 1,
            moves_otherwise: 0,
        }],
        heads: vec![HeadRecord { job: 4, since: at(300), until: at(600) }],
        rounds: 9,
        entries: 20,
    }
}
