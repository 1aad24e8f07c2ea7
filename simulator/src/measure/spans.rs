//! What each GPU did from the beginning of a run to its end: every millisecond in exactly one class (DESIGN 4).

use crate::record::{AttemptEnd, AttemptRecord, GpuPlace, Record};

/// What a GPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// With an attempt, from its go to its end.
    Occupied {
        /// Which.
        attempt: usize,
    },
    /// After an attempt, until proven free; a launch that failed.
    Overhead,
    /// Kept for an attempt that has no go yet.
    Handover,
    /// With nobody, on a node that takes no work.
    Unavailable,
    /// With nobody.
    Idle,
}

/// A stretch of one GPU's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GpuSpan {
    /// From when, in milliseconds.
    pub from: u64,
    /// Until when.
    pub until: u64,
    /// In which class.
    pub class: Class,
    /// Whether two attempts occupied it: nothing that decides may ever do that.
    pub is_held_twice: bool,
}

impl GpuSpan {
    /// Returns its length.
    pub(crate) fn ms(&self) -> u64 {
        self.until - self.from
    }
}

/// The parts of an attempt's time, cut to the run; empty ones have equal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Before its go.
    pub handover: (u64, u64),
    /// From go to end.
    pub occupied: (u64, u64),
    /// From its end until its GPUs are proven free.
    pub overhead: (u64, u64),
}

impl Parts {
    pub(crate) fn of(attempt: &AttemptRecord, record: &Record) -> Self {
        let (begin, end) = (record.begin.as_millis(), record.end.as_millis());
        let cut = |at: u64| at.clamp(begin, end.max(begin));
        let placed = cut(attempt.placed_at.as_millis());
        let ended = attempt.ended_at.map_or(end, |at| cut(at.as_millis())).max(placed);
        let freed = match (attempt.freed_at, attempt.ended_at) {
            (Some(at), _) => cut(at.as_millis()).max(ended),
            // It still is on its GPUs, or they are not proven free.
            (None, _) => end.max(ended),
        };
        let go = attempt.go_at.map_or(ended, |at| cut(at.as_millis()).clamp(placed, ended));
        // The time of a launch that failed is nobody's work.
        let worked = if attempt.end == Some(AttemptEnd::NotLaunched) { go } else { ended };
        Self { handover: (placed, go), occupied: (go, worked), overhead: (worked, freed) }
    }
}

/// Calls `visit` with each GPU, as node and slot, and its spans: in order, without gaps, from the beginning of the run to
/// its end.
///
/// Where several claims overlap, the strongest counts: the GPUs of an attempt that gives way are its own until it ended,
/// and overhead until they are free, however long the next one has been placed on them.
pub(crate) fn each_gpu(record: &Record, mut visit: impl FnMut(usize, u16, &[GpuSpan])) {
    let (begin, end) = (record.begin.as_millis(), record.end.as_millis());
    let on = by_gpu(record);
    let mut claims = Vec::new();
    let mut spans = Vec::new();
    for (place, node) in record.nodes.iter().enumerate() {
        for slot in 0..u16::try_from(node.gpus).unwrap_or(u16::MAX) {
            claims.clear();
            let away = node.away.iter().map(|(from, until)| (from.as_millis(), until.as_millis()));
            claims.extend(away.map(|(from, until)| (from.max(begin), until.min(end), Class::Unavailable)));
            for attempt in &on[place][usize::from(slot)] {
                let parts = Parts::of(&record.attempts[*attempt], record);
                let classed = [
                    (parts.handover, Class::Handover),
                    (parts.occupied, Class::Occupied { attempt: *attempt }),
                    (parts.overhead, Class::Overhead),
                ];
                claims.extend(classed.map(|((from, until), class)| (from, until, class)));
            }
            claims.retain(|(from, until, _)| from < until);
            resolve(&mut claims, (begin, end), &mut spans);
            visit(place, slot, &spans);
        }
    }
}

/// Returns, for each node and slot, the attempts that were placed there, in order.
pub(crate) fn by_gpu(record: &Record) -> Vec<Vec<Vec<usize>>> {
    let slots = |gpus: u32| vec![0; usize::try_from(gpus).unwrap_or(0)];
    let mut counts: Vec<Vec<usize>> = record.nodes.iter().map(|node| slots(node.gpus)).collect();
    for gpu in record.attempts.iter().flat_map(|attempt| &attempt.gpus) {
        if let Some(count) = of_gpu(&mut counts, *gpu) {
            *count += 1;
        }
    }
    let lists = |counts: Vec<usize>| counts.into_iter().map(Vec::with_capacity).collect();
    let mut on: Vec<Vec<Vec<usize>>> = counts.into_iter().map(lists).collect();
    for (place, attempt) in record.attempts.iter().enumerate() {
        for gpu in &attempt.gpus {
            if let Some(list) = of_gpu(&mut on, *gpu) {
                list.push(place);
            }
        }
    }
    on
}

fn of_gpu<T>(all: &mut [Vec<T>], gpu: GpuPlace) -> Option<&mut T> {
    all.get_mut(gpu.node())?.get_mut(usize::from(gpu.slot()))
}

type Claim = (u64, u64, Class);

/// Turns claims into spans without overlaps and gaps.
fn resolve(claims: &mut [Claim], (begin, end): (u64, u64), spans: &mut Vec<GpuSpan>) {
    claims.sort_unstable();
    spans.clear();
    let mut live: Vec<Claim> = Vec::new();
    let mut next = 0;
    let mut at = begin;
    while at < end {
        live.retain(|claim| claim.1 > at);
        while let Some(claim) = claims.get(next).filter(|claim| claim.0 <= at) {
            live.push(*claim);
            next += 1;
        }
        let soonest = live.iter().map(|claim| claim.1).min().unwrap_or(end);
        let until = claims.get(next).map_or(soonest, |claim| claim.0.min(soonest)).min(end);
        let class = live.iter().map(|claim| claim.2).min().unwrap_or(Class::Idle);
        let holders = live.iter().filter(|claim| matches!(claim.2, Class::Occupied { .. })).count();
        push(spans, GpuSpan { from: at, until, class, is_held_twice: holders > 1 });
        at = until;
    }
}

fn push(spans: &mut Vec<GpuSpan>, span: GpuSpan) {
    match spans.last_mut() {
        Some(last) if last.class == span.class && last.is_held_twice == span.is_held_twice => {
            last.until = span.until;
        }
        Some(_) | None => spans.push(span),
    }
}
