//! The short lane of a pool, where a setting opens one (DESIGN 6): a part of its GPUs that longer jobs leave unprotected,
//! and that short jobs may take from whoever is past its protection.

use crate::id::{JobId, Name};
use crate::job::{Attempt, Terms};
use crate::spec::{Shape, Tier};
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// The longest minimum runtime of a short job.
pub const SHORT_MINIMUM: Span = Span::from_mins(15);
/// The longest time limit of a short job.
pub const SHORT_LIMIT: Span = Span::from_mins(30);
/// The most GPUs of a job of the lane.
pub const LANE_GPUS_MAX: u32 = 8;

/// Whether a job with these is short: soon past its protection, and soon over.
#[must_use]
pub fn is_short(min_runtime: Span, time_limit: Option<Span>) -> bool {
    min_runtime <= SHORT_MINIMUM && time_limit.is_some_and(|limit| limit <= SHORT_LIMIT)
}

/// What a job is to the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// One of those that the lane is for: short and small.
    Lane,
    /// It neither has rights by the lane nor leaves it anything: a short gang, the free tier.
    Beside,
    /// It leaves the lane unprotected.
    Longer,
}

impl Part {
    /// Returns what a job with these terms is.
    #[must_use]
    pub fn of(terms: &Terms) -> Self {
        match (terms.tier, is_short(terms.min_runtime, terms.time_limit)) {
            (Tier::Free, _) => Self::Beside,
            (Tier::Funded, false) => Self::Longer,
            (Tier::Funded, true) if gpus(&terms.shape) <= LANE_GPUS_MAX => Self::Lane,
            (Tier::Funded, true) => Self::Beside,
        }
    }
}

/// Returns all GPUs of a shape.
#[must_use]
pub fn gpus(shape: &Shape) -> u32 {
    shape.nodes.saturating_mul(shape.gpus_per_node.get())
}

/// The lane of one pool at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Its GPUs: that part of all of the pool's, rounded down.
    pub part: u32,
    /// GPUs that jobs of the lane have.
    pub occupied: u32,
    /// How many GPUs longer jobs may protect at once.
    pub rest: u32,
    /// How many they do.
    pub protected: u32,
}

impl Lane {
    /// Returns a pool's; none where it has none.
    #[must_use]
    pub fn of(state: &State, pool: &Name, now: Timestamp) -> Option<Self> {
        let ppm = state.meta.settings.short_lane_ppm;
        if ppm == 0 {
            return None;
        }
        let nodes = state.nodes.values().filter(|node| node.pool == *pool);
        let whole = count(nodes.map(|node| node.gpus.len()).sum());
        let part = u64::from(whole).saturating_mul(ppm.into()) / 1_000_000;
        let part = u32::try_from(part).unwrap_or(whole).min(whole);
        let mut lane = Self { part, occupied: 0, rest: whole.saturating_sub(part), protected: 0 };
        for (id, attempt) in state.attempts.iter().filter(|(_, attempt)| attempt.pool == *pool) {
            let Some(job) = state.jobs.get(&id.job).filter(|_| attempt.ended.is_none()) else { continue };
            match Part::of(&job.terms) {
                Part::Lane => lane.occupied = lane.occupied.saturating_add(size(attempt)),
                Part::Longer if attempt.stop.is_none() && attempt.is_protected(now) => {
                    lane.protected = lane.protected.saturating_add(size(attempt));
                }
                Part::Longer | Part::Beside => {}
            }
        }
        Some(lane)
    }

    /// Whether a job of the lane may take whoever is past its protection.
    #[must_use]
    pub const fn gives_right(&self) -> bool {
        self.occupied < self.part
    }

    /// Whether a job leaves the lane unprotected if it starts. One that alone is larger than all the rest cannot, and
    /// is not held to it.
    #[must_use]
    pub fn lets(&self, terms: &Terms) -> bool {
        self.lets_some(Part::of(terms), gpus(&terms.shape))
    }

    /// The same, of one with so many GPUs.
    #[must_use]
    pub const fn lets_some(&self, part: Part, own: u32) -> bool {
        match part {
            Part::Lane | Part::Beside => true,
            Part::Longer => own > self.rest || self.protected.saturating_add(own) <= self.rest,
        }
    }

    /// Somebody starts.
    pub fn starts(&mut self, terms: &Terms) {
        let own = gpus(&terms.shape);
        match Part::of(terms) {
            Part::Lane => self.occupied = self.occupied.saturating_add(own),
            Part::Longer => self.protected = self.protected.saturating_add(own),
            Part::Beside => {}
        }
    }
}

/// Whether a job has a date in a pool that has come: it is a right, and the lane no bar to it.
#[must_use]
pub fn is_due(state: &State, job: JobId, pool: &Name, now: Timestamp) -> bool {
    state.dates.get(&(job, pool.clone())).is_some_and(|date| date.promise.at <= now)
}

fn size(attempt: &Attempt) -> u32 {
    count(attempt.placements.iter().map(|placement| placement.slots.len()).sum())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
