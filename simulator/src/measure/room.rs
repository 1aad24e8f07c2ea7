//! Room: the largest job that could have started, over time.

use serde::{Deserialize, Serialize};

use super::books::{Books, hours};
use super::number::{count, real};
use super::spans::by_gpu;
use crate::record::Record;

/// So many moments are looked at, or up to twice as many: a year's are further apart than a day's.
const MOMENTS: u64 = 800;

/// GPUs of the largest job that there was room for at a moment: on one node, or with as many GPUs on each of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Room {
    /// On idle GPUs.
    pub idle: u64,
    /// On GPUs that were not protected: the most that any job could have taken.
    pub now: u64,
    /// On those whose protection ended within an hour.
    pub in_1h: u64,
    /// On those whose protection ended within eight hours.
    pub in_8h: u64,
}

/// Room over the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Rooms {
    /// The mean over time, in GPUs.
    pub mean: Mean,
    /// At nine moments of ten there was at least this.
    pub mostly: Room,
}

/// Means in GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Mean {
    /// See [`Room::idle`].
    pub idle: f64,
    /// See [`Room::now`].
    pub now: f64,
    /// See [`Room::in_1h`].
    pub in_1h: f64,
    /// See [`Room::in_8h`].
    pub in_8h: f64,
}

/// The four measures: none for idle, else so many hours ahead.
const WITHIN: [Option<u64>; 4] = [None, Some(0), Some(1), Some(8)];

/// Returns the moments at which room is looked for: whole hours within the run. At its end nothing is known any more.
pub(crate) fn moments(books: &Books<'_>) -> Vec<u64> {
    let mut hours = hours(books.run()).split_off(1);
    if hours.len() > 1 {
        hours.pop();
    }
    let every = usize::try_from(count(&hours) / MOMENTS).unwrap_or(usize::MAX).max(1);
    hours.into_iter().step_by(every).collect()
}

/// Returns the room at each of `moments`, which are in order.
pub(crate) fn room(record: &Record, moments: &[u64]) -> Vec<Room> {
    // Open GPUs: for each node and moment, by each measure.
    let mut open = vec![vec![[0_u64; 4]; moments.len()]; record.nodes.len()];
    for (node, slots) in by_gpu(record).iter().enumerate() {
        for attempts in slots {
            let first = |at: usize| record.attempts[attempts[at]].placed_at.as_millis();
            let (mut next, mut live) = (0, Vec::new());
            for (place, now) in moments.iter().enumerate() {
                while next < attempts.len() && first(next) <= *now {
                    live.push(attempts[next]);
                    next += 1;
                }
                live.retain(|attempt| is_there(record, *attempt, *now));
                let safe = live.iter().map(|attempt| safe_until(record, *attempt)).max();
                for (within, open) in WITHIN.iter().zip(&mut open[node][place]) {
                    let is_open = match (safe, within) {
                        (None, _) => true,
                        (Some(_), None) => false,
                        (Some(safe), Some(hours)) => safe <= now + hours * 3_600_000,
                    };
                    *open += u64::from(is_open);
                }
            }
        }
    }
    let at = |(place, now): (usize, &u64)| {
        let takes_work = |node: usize| !is_away(record, node, *now);
        let nodes = || (0..record.nodes.len()).filter(|node| takes_work(*node));
        let [idle, now, in_1h, in_8h] =
            [0, 1, 2, 3].map(|measure| largest(nodes().map(|node| open[node][place][measure])));
        Room { idle, now, in_1h, in_8h }
    };
    moments.iter().enumerate().map(at).collect()
}

/// Returns whether an attempt keeps others off its GPUs at a moment after its placing.
fn is_there(record: &Record, attempt: usize, now: u64) -> bool {
    record.attempts[attempt].freed_at.is_none_or(|at| at.as_millis() > now)
}

/// Returns until when an attempt is protected; of one that has not started yet, as it turned out to be.
fn safe_until(record: &Record, attempt: usize) -> u64 {
    let attempt = &record.attempts[attempt];
    let protected = attempt.protected_until.map_or(0, |at| at.as_millis());
    attempt.ended_at.map_or(protected, |at| at.as_millis().min(protected))
}

fn is_away(record: &Record, node: usize, now: u64) -> bool {
    record.nodes[node].away.iter().any(|(from, until)| from.as_millis() <= now && now < until.as_millis())
}

/// Returns the GPUs of the largest job that fits on nodes with so many open GPUs.
fn largest(open: impl Iterator<Item = u64>) -> u64 {
    let mut open: Vec<u64> = open.collect();
    open.sort_unstable_by(|a, b| b.cmp(a));
    open.iter().zip(1..).map(|(gpus, nodes)| gpus * nodes).max().unwrap_or(0)
}

/// Returns room over the whole run.
pub(crate) fn rooms(of: &[Room]) -> Rooms {
    let mean = |part: fn(&Room) -> u64| real(of.iter().map(part).sum()) / real(count(of).max(1));
    let mostly = |part: fn(&Room) -> u64| {
        let mut sorted: Vec<u64> = of.iter().map(part).collect();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 10).copied().unwrap_or(0)
    };
    let parts: [fn(&Room) -> u64; 4] = [|r| r.idle, |r| r.now, |r| r.in_1h, |r| r.in_8h];
    let [idle, now, in_1h, in_8h] = parts.map(mean);
    let mean = Mean { idle, now, in_1h, in_8h };
    let [idle, now, in_1h, in_8h] = parts.map(mostly);
    Rooms { mean, mostly: Room { idle, now, in_1h, in_8h } }
}
