//! What a preemption costs: as it was billed, or as it would be if it came now.

use crate::bill::{Bill, Restart};
use crate::decision::Basis;
use crate::id::AttemptId;
use crate::job::{Attempt, Job};
use crate::lifecycle::billing;
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
        let saved_at = attempt.saved_at.max(links.saved_at(id)).map(|at| at.max(go).min(now));
        let newest = Attempt { saved_at, ..attempt.clone() };
        let (age, basis) = billing::age(job, &newest, (go, now));
        let restart = match job.terms.resumable {
            true => Restart::Expected(job.progress.usual_restart(state.meta.settings.restart_guess)),
            false => Restart::None,
        };
        let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
        Some(Self { gpus: u32::try_from(gpus).unwrap_or(u32::MAX), age, basis, restart })
    }
}
