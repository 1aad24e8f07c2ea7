//! One attempt, whether it is live, has ended with GPUs not yet proven empty, or is past.

use alloc::vec::Vec;

use crate::id::{AttemptId, AttemptNo, DecisionId, JobId, NodeId};
use crate::job::{Attempt, Ended, Job, PastAttempt, Phase, Stop};
use crate::lifecycle::{book, phase};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{ChargeMillis, Timestamp};

/// What is known of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Run<'a> {
    pub id: AttemptId,
    pub job: &'a Job,
    pub nodes: Vec<NodeId>,
    pub gpus: u32,
    pub decision: DecisionId,
    pub placed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub saved_at: Option<Timestamp>,
    /// When its protection was over; of one that is past, when its minimum runtime was, which is not later.
    pub protected_until: Option<Timestamp>,
    pub stop: Option<&'a Stop>,
    pub ended: Option<&'a Ended>,
    pub charged: ChargeMillis,
    /// Not all its GPUs are proven empty.
    pub has_gpus: bool,
}

impl<'a> Run<'a> {
    /// Returns what state has of an attempt.
    pub(super) fn of(state: &'a State, id: AttemptId, now: Timestamp) -> Option<Self> {
        let job = state.jobs.get(&id.job)?;
        match state.attempts.get(&id) {
            Some(attempt) => Some(Self::present(id, job, attempt, now)),
            None => Some(Self::past(id, job, job.past.iter().find(|past| past.no == id.no)?)),
        }
    }

    /// Returns the job's latest attempt.
    pub(super) fn latest(state: &'a State, id: JobId, job: &'a Job, now: Timestamp) -> Option<Self> {
        let live = match job.phase {
            Phase::Live(no) => Some(no),
            Phase::Held { .. } | Phase::Waiting { .. } | Phase::Ended { .. } => None,
        };
        let present = phase::attempts_of(state, id).map(|id| id.no).last();
        let last: AttemptNo =
            [live, present, job.past.last().map(|past| past.no)].into_iter().flatten().max()?;
        Self::of(state, AttemptId { job: id, no: last }, now)
    }

    fn present(id: AttemptId, job: &'a Job, attempt: &'a Attempt, now: Timestamp) -> Self {
        let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
        Self {
            id,
            job,
            nodes: attempt.placements.iter().map(|placement| placement.node).collect(),
            gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
            decision: attempt.decision,
            placed_at: attempt.placed_at,
            started_at: attempt.started_at,
            saved_at: attempt.saved_at,
            protected_until: attempt.protected_until(),
            stop: attempt.stop.as_ref(),
            ended: attempt.ended.as_ref(),
            charged: book::charge_so_far(attempt, now),
            has_gpus: true,
        }
    }

    fn past(id: AttemptId, job: &'a Job, past: &'a PastAttempt) -> Self {
        let protected_until = match job.terms.tier {
            Tier::Funded => past.started_at.map(|at| at.plus(job.terms.min_runtime)),
            Tier::Free => None,
        };
        Self {
            id,
            job,
            nodes: past.nodes.clone(),
            gpus: past.gpus,
            decision: past.decision,
            placed_at: past.placed_at,
            started_at: past.started_at,
            saved_at: past.saved_at,
            protected_until,
            stop: past.stop.as_ref(),
            ended: Some(&past.ended),
            charged: past.charged,
            has_gpus: false,
        }
    }
}
