//! What a page can carry: of very large runs the spans that nobody could see are left out, and counted.

use serde::Serialize;

use crate::record::{AttemptRecord, Record};

/// Pieces of attempts, one a node, that a page carries: about what a browser draws in half a second.
const PIECES: usize = 60_000;

/// The whole run is drawn about so wide.
const PIXELS: u64 = 1200;

/// What was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct LeftOut {
    /// How many attempts.
    pub attempts: u64,
    /// Their time on their GPUs.
    pub gpu_ms: u64,
    /// All of them were at most so long.
    pub upto_ms: u64,
    /// How much of the run is one pixel.
    pub pixel_ms: u64,
}

/// Returns the attempts to draw, in order, and what was left out: the shortest first, as few as it takes.
pub(super) fn thin(record: &Record) -> (Vec<usize>, LeftOut) {
    thin_to(record, PIECES)
}

fn thin_to(record: &Record, pieces_max: usize) -> (Vec<usize>, LeftOut) {
    let pixel_ms = record.end.since(record.begin).as_millis() / PIXELS;
    let mut left_out = LeftOut { pixel_ms, ..LeftOut::default() };
    let mut pieces: usize = record.attempts.iter().map(nodes).sum();
    let mut by_length: Vec<usize> = (0..record.attempts.len()).collect();
    by_length.sort_by_key(|attempt| length(record, &record.attempts[*attempt]));
    let mut first = 0;
    while pieces > pieces_max && first < by_length.len() {
        let attempt = &record.attempts[by_length[first]];
        let ms = length(record, attempt);
        pieces -= nodes(attempt);
        left_out.attempts += 1;
        left_out.upto_ms = ms;
        let gpus = u64::try_from(attempt.gpus.len()).unwrap_or(u64::MAX);
        left_out.gpu_ms = left_out.gpu_ms.saturating_add(ms.saturating_mul(gpus));
        first += 1;
    }
    let mut kept = by_length.split_off(first);
    kept.sort_unstable();
    (kept, left_out)
}

fn length(record: &Record, attempt: &AttemptRecord) -> u64 {
    attempt.freed_at.unwrap_or(record.end).min(record.end).since(attempt.placed_at).as_millis()
}

fn nodes(attempt: &AttemptRecord) -> usize {
    let mut nodes: Vec<usize> = attempt.gpus.iter().map(|gpu| gpu.node()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.len()
}

#[cfg(test)]
mod tests {
    use scheduler_core::unit::{Span, Timestamp};

    use super::*;
    use crate::record::GpuPlace;

    #[test]
    fn the_shortest_are_left_out_first_and_counted() {
        let at = |secs| Timestamp::ZERO.plus(Span::from_secs(secs));
        let attempt = |from, until, gpus: u16| AttemptRecord {
            job: 0,
            number: 1,
            gpus: (0..gpus).map(|slot| GpuPlace::new(u32::from(slot / 4), slot % 4)).collect(),
            placed_at: at(from),
            go_at: None,
            started_at: None,
            protected_until: None,
            noticed_at: None,
            ended_at: None,
            freed_at: Some(at(until)),
            end: None,
        };
        let record = Record {
            end: at(1200),
            attempts: vec![attempt(0, 9, 8), attempt(9, 10, 1), attempt(10, 12, 4), attempt(12, 1200, 1)],
            ..Record::default()
        };
        assert_eq!(thin(&record).0, [0, 1, 2, 3]);
        let (kept, left_out) = thin_to(&record, 3);
        assert_eq!(kept, [0, 3]);
        let expected = LeftOut { attempts: 2, gpu_ms: 1000 + 4 * 2000, upto_ms: 2000, pixel_ms: 1000 };
        assert_eq!(left_out, expected);
    }
}
