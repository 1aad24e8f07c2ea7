//! What changes over a run, sampled: for pictures.

use serde::{Deserialize, Serialize};

use super::bill::{tier, victim, word};
use super::books::Books;
use super::classes::classes;
use super::owed::{Hour, of_hours};
use super::room::Room;
use super::usage::Point;
use crate::record::Record;

/// A day in milliseconds.
const DAY_MS: u64 = 86_400_000;

/// Everything that is drawn over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// The moments of `used`, in milliseconds: each hour, and the end.
    pub used_at_ms: Vec<u64>,
    /// For each budget, in the record's order.
    pub used: Vec<Vec<Point>>,
    /// For each budget, in the record's order: its hours; none of inner ones.
    pub hours: Vec<Vec<Hour>>,
    /// The moments of `rooms`, in milliseconds.
    pub rooms_at_ms: Vec<u64>,
    /// Room at each of them.
    pub rooms: Vec<Room>,
    /// What preemptions lost, by day, cause and tier.
    pub lost: Vec<Lost>,
}

/// What was lost on one day for one cause in one tier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The day of the run, from 0.
    pub day: u64,
    /// What it was for.
    pub cause: String,
    /// Whose attempts gave way.
    pub tier: String,
    /// How many.
    pub preemptions: u64,
    /// What they lost.
    pub lost_gpu_ms: u64,
}

/// Returns the series of a run.
#[must_use]
pub fn series(record: &Record) -> Series {
    let (_, in_service) = classes(record);
    let books = Books::of(record, in_service);
    let used_at_ms = super::usage::moments(&books);
    let rooms_at_ms = super::room::moments(&books);
    let (mut used, mut hours) = (Vec::new(), Vec::new());
    for account in books.accounts() {
        used.push(super::usage::points(&books, &account, &used_at_ms));
        let is_leaf = record.budgets[account.budget].is_leaf;
        hours.push(if is_leaf { of_hours(&books, &account) } else { Vec::new() });
    }
    Series {
        used,
        hours,
        rooms: super::room::room(record, &rooms_at_ms),
        lost: lost(record),
        used_at_ms,
        rooms_at_ms,
    }
}

fn lost(record: &Record) -> Vec<Lost> {
    let mut sums = std::collections::BTreeMap::new();
    for preemption in &record.preemptions {
        let day = preemption.at.since(record.begin).as_millis() / DAY_MS;
        let is_free = victim(record, preemption).is_free;
        let sum: &mut (u64, u64) = sums.entry((day, preemption.cause, is_free)).or_default();
        *sum = (sum.0 + 1, sum.1 + preemption.lost_gpu_ms);
    }
    let rows = sums.into_iter().map(|((day, cause, is_free), (preemptions, lost_gpu_ms))| Lost {
        day,
        cause: word(cause).to_owned(),
        tier: tier(is_free).to_owned(),
        preemptions,
        lost_gpu_ms,
    });
    rows.collect()
}
