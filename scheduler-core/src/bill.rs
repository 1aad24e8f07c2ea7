//! The price of a preemption, as it is known once it happened (DESIGN 5, 6 and 7).

use crate::decision::Basis;
use crate::id::{AttemptId, BudgetId, DecisionId, Name};
use crate::spec::Tier;
use crate::unit::{GpuMillis, Span, Timestamp};

/// What one preemption cost. Lost GPU time = GPUs x (age + restart).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bill {
    /// The leaf that lost it.
    pub budget: BudgetId,
    /// The job's user.
    pub user: Name,
    /// The pool.
    pub pool: Name,
    /// Funded or free.
    pub tier: Tier,
    /// GPUs of the attempt.
    pub gpus: u32,
    /// What it was taken for.
    pub cause: BillCause,
    /// When the notice was committed.
    pub noticed_at: Timestamp,
    /// The attempt's newest durable checkpoint, if one was reported.
    pub saved_at: Option<Timestamp>,
    /// Occupied time since the last durable checkpoint; see [`Basis`] for what stands where none was reported.
    pub age: Span,
    /// How the age is known.
    pub basis: Basis,
    /// What starting again costs.
    pub restart: Restart,
    /// For which attempt its GPUs were taken.
    pub taken_for: Option<AttemptId>,
    /// By which decision.
    pub decision: Option<DecisionId>,
    /// Whether the attempt it was taken for never started; none as long as that is open.
    pub is_wasted: Option<bool>,
}

impl Bill {
    /// Returns the GPU time that was lost.
    #[must_use]
    pub fn lost(&self) -> GpuMillis {
        let time = self.age.as_millis().saturating_add(self.restart.span().as_millis());
        GpuMillis::new(u64::from(self.gpus).saturating_mul(time))
    }
}

/// What a preemption was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BillCause {
    /// A budget further below its share needed the GPUs.
    Share,
    /// A job of the same budget with an earlier turn needed them.
    Turn,
    /// The free tier made way.
    FreeTier,
    /// The date of a job had come.
    Claim,
    /// A short job needed them, and the short lane had room.
    Lane,
    /// Its node was drained.
    Drain,
    /// An operator, or an owner, wanted it: a drain that cut protection, a requeue of somebody else's job.
    Operator,
}

/// The cost of starting again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Restart {
    /// Not seen yet, or never: what the job's others took, or the guess of the settings.
    Expected(Span),
    /// From the start of the next attempt to its first sign of progress.
    Measured(Span),
    /// There is none: the job does not resume.
    None,
}

impl Restart {
    /// Returns how long it takes.
    #[must_use]
    pub const fn span(self) -> Span {
        match self {
            Self::Expected(span) | Self::Measured(span) => span,
            Self::None => Span::ZERO,
        }
    }
}
