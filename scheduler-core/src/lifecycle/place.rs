//! A decision takes effect: the job gets an attempt, the attempt its GPUs.

use alloc::vec::Vec;

use crate::decision::{Record, Start};
use crate::id::{AttemptId, AttemptNo, DecisionId, Generation, JobId, Rank};
use crate::job::{Attempt, Job, Placement};
use crate::lifecycle::{book, gpu, need, phase};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{MilliGpus, Span, Timestamp};

/// Places a job; every check was made. The GPUs are idle, so the placing entry is the go.
pub fn place(state: &mut State, id: DecisionId, start: &Start, record: Record) {
    let now = record.at;
    let Some(attempt) = attempt_for(state, id, start, now) else { return };
    let attempt_id = AttemptId { job: start.job, no: start.attempt };
    for placement in &attempt.placements {
        gpu::take(state, placement.node, &placement.slots, attempt_id);
    }
    book::placed(state, &attempt, now);
    state.attempts.insert(attempt_id, attempt);
    state.decisions.insert(id, record);
    if let Some(job) = state.jobs.get_mut(&start.job) {
        job.next_attempt = AttemptNo::new(start.attempt.get().saturating_add(1));
    }
    phase::go_live(state, start.job, start.attempt);
}

fn attempt_for(state: &State, id: DecisionId, start: &Start, now: Timestamp) -> Option<Attempt> {
    let job = state.jobs.get(&start.job)?;
    let (first, _) = start.on.first()?;
    let pool = state.nodes.get(first)?.pool.clone();
    let mut rate = 0u64;
    let mut placements = Vec::with_capacity(start.on.len());
    for (rank, (node, slots)) in start.on.iter().enumerate() {
        rate = rate.saturating_add(need::rate(&job.terms.shape, state.nodes.get(node)?).get());
        placements.push(Placement {
            rank: Rank::new(u16::try_from(rank).ok()?),
            node: *node,
            slots: slots.clone(),
            generation: Generation::new(1),
            ready_at: None,
            started_at: None,
            exited: None,
            freed_at: None,
        });
    }
    Some(Attempt {
        budget: job.budget,
        tier: job.terms.tier,
        pool,
        placements,
        rate: MilliGpus::new(rate),
        decision: id,
        placed_at: now,
        go_at: Some(now),
        latest_go: now,
        port: None,
        start_by: now.plus(state.meta.settings.start_limit),
        protection: protection(state, start.job, job),
        started_at: None,
        saved_at: None,
        signed_at: None,
        stop: None,
        first_end: None,
        ended: None,
    })
}

/// Returns the length of protection that the job's next attempt gets.
///
/// The first run is protected for the minimum runtime; a later one at least until it has saved once more than before,
/// at most for the cap, so that no attempt is barren.
#[must_use]
pub fn protection(state: &State, id: JobId, job: &Job) -> Span {
    let terms = &job.terms;
    match terms.tier {
        Tier::Free => Span::ZERO,
        Tier::Funded => {
            let has_run = || {
                job.past.iter().any(|past| past.started_at.is_some())
                    || phase::attempts_of(state, id)
                        .any(|id| state.attempts.get(id).is_some_and(|attempt| attempt.started_at.is_some()))
            };
            match terms.checkpoint_every {
                Some(every) if has_run() => terms.min_runtime.max(every.plus(terms.grace)).min(
                    // A cap that was lowered since doesn't shorten what the job was promised.
                    state.meta.settings.cap.max(terms.min_runtime),
                ),
                Some(_) | None => terms.min_runtime,
            }
        }
    }
}
