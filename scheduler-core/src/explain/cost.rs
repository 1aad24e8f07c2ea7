//! What a preemption costs: as it was billed, or as it would be if it came now.

use crate::bill::{Bill, Restart};
use crate::decision::Basis;
use crate::id::AttemptId;
use crate::job::{Attempt, Job};
use crate::plan::Links;
use crate::state::State;
use crate::unit::{GpuMillis, Span, Timestamp};

/// The cost of one preemption: GPUs x (age + restart).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// GPUs of the attempt.
    pub gpus: u32,
    /// Occupied time that is lost.
    pub age: Span,
    /// How that is known.
    pub basis: Basis,
    /// What starting again takes.
    pub restart: Restart,
}

impl Cost {
    /// Returns the GPU time that is lost.
    #[must_use]
    pub fn lost(&self) -> GpuMillis {
        self.of(self.age.plus(self.restart.span()))
    }

    /// Returns GPUs x `span`.
    pub(super) fn of(&self, span: Span) -> GpuMillis {
        GpuMillis::new(u64::from(self.gpus).saturating_mul(span.as_millis()))
    }

    pub(super) fn billed(bill: &Bill) -> Self {
        Self { gpus: bill.gpus, age: bill.age, basis: bill.basis, restart: bill.restart }
    }

    /// Returns what it would cost if an attempt were gone at `now`, by the rules of the bill; nothing before its go.
    pub(super) fn now(
        state: &State,
        links: &Links,
        id: AttemptId,
        of: (&Attempt, &Job),
        now: Timestamp,
    ) -> Option<Self> {
        let (attempt, job) = of;
        let go = attempt.go_at?;
        let whole = now.since(go);
        let saved_at = attempt.saved_at.max(links.saved_at(id)).map(|at| at.min(now));
        let (age, basis) = match (saved_at, job.progress.saved, job.terms.checkpoint_every) {
            _ if !job.terms.resumable => (whole, Basis::Unknown),
            (Some(saved), _, _) => (now.since(saved.max(go)), Basis::Reported),
            // It reports, but not in this attempt yet: it would go on from where this one began.
            (None, Some(_), _) => (whole, Basis::Reported),
            (None, None, Some(every)) => (whole.min(every), Basis::Declared),
            (None, None, None) => (whole, Basis::Unknown),
        };
        let guess = state.meta.settings.restart_guess;
        let restart = match job.terms.resumable {
            true => Restart::Expected(median(&job.progress.restarts).unwrap_or(guess)),
            false => Restart::None,
        };
        let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
        Some(Self { gpus: u32::try_from(gpus).unwrap_or(u32::MAX), age, basis, restart })
    }
}

fn median(of: &[Span]) -> Option<Span> {
    let mut sorted = of.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}
