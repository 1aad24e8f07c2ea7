//! Flips: a budget takes back what was taken from it. Many of them mean that a margin is too small.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::unit::{Span, Timestamp};

use super::bill::victim;
use crate::record::Record;

/// Taking back within this is a flip.
const WITHIN: Span = Span::from_hours(4);

/// Counts takings of one leaf from another that follow, within four hours, a taking the other way round. Only funded
/// work counts: the free tier always makes way. Several attempts taken for one job at one moment are one taking.
pub(crate) fn flips(record: &Record) -> u64 {
    let takings: BTreeSet<(Timestamp, usize, usize, usize)> = record
        .preemptions
        .iter()
        .filter(|preemption| !victim(record, preemption).is_free)
        .filter_map(|preemption| {
            let job = preemption.taken_for?;
            let (taker, from) = (record.jobs[job].budget, victim(record, preemption).budget);
            (taker != from).then_some((preemption.at, job, taker, from))
        })
        .collect();
    let mut last: BTreeMap<(usize, usize), Timestamp> = BTreeMap::new();
    let mut flips = 0;
    for (at, _, taker, from) in takings {
        let was_taken = last.get(&(from, taker));
        flips += u64::from(was_taken.is_some_and(|before| at.since(*before) <= WITHIN));
        last.insert((taker, from), at);
    }
    flips
}
