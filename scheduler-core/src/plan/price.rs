//! What taking an attempt would cost (DESIGN 6).
//!
//! A truthful report can only make a job dearer to take: who never reported counts as saved just now, and what is lost
//! is bounded by the usual interval, so that silence and stale reports gain nothing.

use core::iter::Sum;
use core::ops::Add;

use super::Links;
use crate::decision::{Basis, Price};
use crate::id::AttemptId;
use crate::job::{Attempt, Job};
use crate::mutant::{self, Mutant};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// Returns what taking `attempt` would cost at `now`.
pub(super) fn price(
    state: &State,
    links: &Links,
    id: AttemptId,
    of: (&Attempt, &Job),
    now: Timestamp,
) -> Price {
    let (attempt, job) = of;
    let progress = &job.progress;
    let saved_at = attempt.saved_at.max(links.saved_at(id)).map(|at| at.min(now));
    let has_reported = progress.saved.is_some() || saved_at.is_some();
    let basis = match (has_reported, job.terms.checkpoint_every) {
        (true, _) => Basis::Reported,
        (false, Some(_)) => Basis::Declared,
        (false, None) => Basis::Unknown,
    };
    let occupied =
        attempt.go_at.map_or(Span::ZERO, |go| now.since(saved_at.map_or(go, |saved| saved.max(go))));
    let usual = job.usual_interval().unwrap_or(Span::ZERO);
    let lost = match has_reported {
        true => occupied.min(usual.plus(usual)),
        false if mutant::is(Mutant::SilenceIsDear) => occupied,
        false => Span::ZERO,
    };
    Price {
        rate: attempt.rate,
        lost,
        restart: progress.usual_restart(state.meta.settings.restart_guess),
        preemptions: progress.preemptions,
        saved_at,
        basis,
    }
}

/// What a set of victims costs. Compared from the first part on: what does not resume and is funded is taken only if
/// nothing else does, then funded work, then what does not resume in the free tier, then the rest of the free tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Cost([u128; 4]);

impl Cost {
    /// More than any set costs.
    pub(super) const NEVER: Self = Self([u128::MAX; 4]);

    /// Returns what one attempt costs; never nothing, so that a cheapest set has nobody who could be left out.
    pub(super) fn of(tier: Tier, is_resumable: bool, price: &Price) -> Self {
        let part = match (tier, is_resumable) {
            (Tier::Funded, false) => 0,
            (Tier::Funded, true) => 1,
            (Tier::Free, false) => 2,
            (Tier::Free, true) => 3,
        };
        let mut parts = [0; 4];
        parts[part] = price.amount().max(1);
        Self(parts)
    }

    /// Returns what each of `count` GPUs costs if they cost this together, rounded down.
    pub(super) fn each(self, count: usize) -> Self {
        let count = u128::try_from(count).unwrap_or(u128::MAX).max(1);
        Self(self.0.map(|part| part / count))
    }

    /// Returns what `count` GPUs cost if one costs this.
    pub(super) fn times(self, count: usize) -> Self {
        let count = u128::try_from(count).unwrap_or(u128::MAX);
        Self(self.0.map(|part| part.saturating_mul(count)))
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let mut sum = self.0;
        for (part, more) in sum.iter_mut().zip(other.0) {
            *part = part.saturating_add(more);
        }
        Self(sum)
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}
