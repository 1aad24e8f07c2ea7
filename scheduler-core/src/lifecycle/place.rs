//! A decision takes effect: what gives way is told to leave, the job gets an attempt, the attempt its GPUs, or the
//! promise of them.

use alloc::vec::Vec;

use crate::decision::{Record, Start, Take};
use crate::id::{AttemptId, AttemptNo, DecisionId, Generation, JobId, NodeId, Rank};
use crate::job::{Attempt, Job, Placement, Stop, StopCause, Taken};
use crate::lifecycle::{book, go, gpu, leaving, need, phase, progress, stop};
use crate::mutant::{self, Mutant};
use crate::node::{PORT_FIRST, PORT_LAST};
use crate::spec::Tier;
use crate::state::{State, Timer};
use crate::unit::{MilliGpus, Span, Timestamp};

/// Places a job; every check was made. If nothing has to leave first, and it is on one node, it also goes.
pub fn place(state: &mut State, id: DecisionId, start: &Start, record: Record) {
    let now = record.at;
    let attempt_id = AttemptId { job: start.job, no: start.attempt };
    // Judged before anything leaves: who was not heard of yet has its whole grace.
    let latest_go = leaving::latest_go(state, start, now);
    for take in &start.takes {
        give_way(state, attempt_id, (id, start), take, now);
    }
    let Some(attempt) = attempt_for(state, id, start, (latest_go, now)) else { return };
    for placement in &attempt.placements {
        let held = gpu::claim(state, placement.node, &placement.slots, attempt_id);
        book::handed(state, &attempt.pool, (placement.node, &held), now);
    }
    book::placed(state, &attempt);
    state.timers.insert((attempt.start_by, Timer::StartBy(attempt_id)), ());
    state.attempts.insert(attempt_id, attempt);
    state.decisions.insert(id, record);
    if let Some(job) = state.jobs.get_mut(&start.job) {
        job.next_attempt = AttemptNo::new(start.attempt.get().saturating_add(1));
    }
    phase::go_live(state, start.job, start.attempt);
    go::go_at_once(state, attempt_id, now);
}

/// Tells an attempt to leave for another. What its rank reported and the planner counted is evidence, and kept.
fn give_way(state: &mut State, by: AttemptId, why: (DecisionId, &Start), take: &Take, now: Timestamp) {
    let (decision, start) = why;
    if let Some(saved_at) = take.price.saved_at {
        progress::saved(state, take.attempt, saved_at, now);
    }
    let grace = state.jobs.get(&take.attempt.job).map_or(state.meta.settings.grace, |job| job.terms.grace);
    let taken = Taken {
        by,
        decision,
        right: take.right,
        price: take.price,
        considered: start.why.choice.as_ref().map_or(0, |choice| choice.considered),
    };
    stop::stop(state, take.attempt, Stop { at: now, cause: StopCause::Preempt(taken), grace }, now);
}

fn attempt_for(
    state: &mut State,
    id: DecisionId,
    start: &Start,
    (latest_go, now): (Timestamp, Timestamp),
) -> Option<Attempt> {
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
    let (budget, tier) = (job.budget, job.terms.tier);
    let protection = protection(state, start.job, job);
    let port = if placements.len() > 1 { Some(next_port(state, *first)?) } else { None };
    Some(Attempt {
        budget,
        tier,
        pool,
        placements,
        rate: MilliGpus::new(rate),
        decision: id,
        placed_at: now,
        go_at: None,
        latest_go,
        port,
        start_by: latest_go.plus(state.meta.settings.start_limit),
        protection,
        started_at: None,
        saved_at: None,
        signed_at: None,
        stop: None,
        first_end: None,
        ended: None,
    })
}

/// Returns the port for a rank 0 on `node`. They go round, so that one is not used again soon after.
fn next_port(state: &mut State, node: NodeId) -> Option<u16> {
    let node = state.nodes.get_mut(&node)?;
    let port = node.next_port.clamp(PORT_FIRST, PORT_LAST);
    node.next_port = if port == PORT_LAST { PORT_FIRST } else { port.saturating_add(1) };
    Some(port)
}

/// Returns the length of protection that the job's next attempt gets.
///
/// The first run is protected for the minimum runtime; a later one at least until it has restarted and could save once
/// more than before, at most for the cap, so that no attempt is barren.
#[must_use]
pub fn protection(state: &State, id: JobId, job: &Job) -> Span {
    let terms = &job.terms;
    match terms.tier {
        Tier::Free => Span::ZERO,
        Tier::Funded if has_run(state, id, job) && !mutant::is(Mutant::NoLongerProtection) => {
            let settings = &state.meta.settings;
            let restart = job.progress.usual_restart(settings.restart_guess);
            let interval = job.usual_interval().unwrap_or(Span::ZERO);
            let once_more = restart.plus(interval).plus(terms.grace);
            // A cap that was lowered since doesn't shorten what the job was promised.
            let least = if settings.short_later { Span::ZERO } else { terms.min_runtime };
            least.max(once_more).min(settings.cap.max(terms.min_runtime))
        }
        Tier::Funded => terms.min_runtime,
    }
}

fn has_run(state: &State, id: JobId, job: &Job) -> bool {
    let ran = |id: &AttemptId| state.attempts.get(id).is_some_and(|attempt| attempt.started_at.is_some());
    job.past.iter().any(|past| past.started_at.is_some()) || phase::attempts_of(state, id).any(ran)
}
