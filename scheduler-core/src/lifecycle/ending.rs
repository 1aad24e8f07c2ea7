//! An attempt ends: the books close, the job moves on at once by the table of ends, the GPUs stay with the attempt
//! until they are proven empty.

use alloc::string::String;

use crate::id::{AttemptId, Generation, NodeId};
use crate::job::{Attempt, AttemptEnd, Ended};
use crate::lifecycle::end::{self, Next};
use crate::lifecycle::{book, phase};
use crate::state::{State, Timer};
use crate::unit::{Span, Timestamp};

/// Ends a live attempt and moves its job on. The moment is clamped to what was reported before and to `now`.
pub fn end(state: &mut State, id: AttemptId, ended: Ended, now: Timestamp) {
    let Some(attempt) = state.attempts.get(&id).cloned() else { return };
    if attempt.ended.is_some() {
        return;
    }
    let began = attempt.started_at.or(attempt.go_at).unwrap_or(attempt.placed_at);
    let ended = Ended { at: ended.at.max(began).min(now), ..ended };
    // A launch that a person's stop came before says nothing about the node.
    if let (AttemptEnd::LaunchFailedNode(_), None) = (&ended.cause, &attempt.stop) {
        for placement in &attempt.placements {
            launch_failed_on(state, id, placement.node, now);
        }
    }
    if let Some(until) = attempt.protected_until() {
        state.timers.remove(&(until, Timer::ProtectionOver(id)));
    }
    let charged = book::ended(state, &attempt, &ended, now);
    if let Some(job) = state.jobs.get_mut(&id.job) {
        job.charged = job.charged.checked_add(charged).unwrap_or(job.charged);
    }
    if let Some(attempt) = state.attempts.get_mut(&id) {
        for placement in &mut attempt.placements {
            placement.generation = next_generation(placement.generation);
        }
        attempt.ended = Some(ended.clone());
    }
    move_on(state, id, &attempt, &ended, now);
}

/// Returns the generation after a change of meaning.
#[must_use]
pub fn next_generation(generation: Generation) -> Generation {
    Generation::new(generation.get().saturating_add(1))
}

fn move_on(state: &mut State, id: AttemptId, attempt: &Attempt, ended: &Ended, now: Timestamp) {
    let Some(job) = state.jobs.get_mut(&id.job) else { return };
    let case = end::Case {
        terms: &job.terms,
        retries_used: job.retries_used,
        failed_nodes: job.failed_on.len(),
        recent: job.past.iter().filter(|past| now.since(past.placed_at) < end::RECENT).count(),
        attempt: id.no,
        stop: attempt.stop.as_ref(),
        ended,
    };
    match end::next(&case) {
        Next::Wait { is_retry } => {
            job.retries_used = job.retries_used.saturating_add(u16::from(is_retry));
            phase::wait(state, id.job, now);
        }
        Next::Hold(reason) => {
            job.failed_on.clear();
            phase::hold(state, id.job, reason, now);
        }
        Next::End(how) => phase::end(state, id.job, (how, ended.exit), ended.at, now),
    }
}

/// Backs a node off after a failed launch: twice as long each time, up to a bound; and remembers it for the job.
fn launch_failed_on(state: &mut State, attempt: AttemptId, id: NodeId, now: Timestamp) {
    if let Some(job) = state.jobs.get_mut(&attempt.job) {
        job.failed_on.insert(id);
    }
    let (first, longest) = (state.meta.settings.launch_backoff, state.meta.settings.launch_backoff_max);
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let wait = backoff(first, longest, node.failed_launches);
    node.failed_launches = node.failed_launches.saturating_add(1);
    let until = now.plus(wait);
    if let Some(before) = node.backoff_until.replace(until) {
        state.timers.remove(&(before, Timer::BackoffOver(id)));
    }
    state.timers.insert((until, Timer::BackoffOver(id)), ());
}

fn backoff(first: Span, longest: Span, failed_before: u8) -> Span {
    let doubled = first.as_millis().saturating_mul(1u64 << failed_before.min(32));
    Span::from_millis(doubled).min(longest)
}

/// Returns `what` for the record, cut to what a record holds.
#[must_use]
pub fn told(what: &str) -> String {
    what.chars().filter(|c| !c.is_control()).take(256).collect()
}
