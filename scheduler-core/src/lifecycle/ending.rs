//! An attempt ends: the books close, the job moves on at once by the table of ends, the GPUs stay with the attempt
//! until they are proven empty. One without go never had a process: its GPUs are free at once.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{AttemptId, Generation, NodeId};
use crate::job::{Attempt, AttemptEnd, Ended};
use crate::lifecycle::end::{self, Next};
use crate::lifecycle::{billing, book, freed, gpu, phase, progress, watch};
use crate::state::{State, Timer};
use crate::unit::{Span, Timestamp};

/// Ends a live attempt and moves its job on. The moment is clamped to what was reported before and to `now`.
pub fn end(state: &mut State, id: AttemptId, ended: Ended, now: Timestamp) {
    let Some(attempt) = state.attempts.get(&id).cloned() else { return };
    if attempt.ended.is_some() {
        return;
    }
    let at = match attempt.started_at.or(attempt.go_at) {
        Some(began) => ended.at.max(began).min(now),
        None => now,
    };
    let ended = Ended { at, ..ended };
    remove_timers(state, id, &attempt);
    let charged = book::ended(state, &attempt, &ended, now);
    if let Some(job) = state.jobs.get_mut(&id.job) {
        job.charged = job.charged.checked_add(charged).unwrap_or(job.charged);
    }
    watch::changing(state, id, |state| {
        let Some(attempt) = state.attempts.get_mut(&id) else { return };
        for placement in &mut attempt.placements {
            placement.generation = next_generation(placement.generation);
        }
        attempt.ended = Some(ended.clone());
    });
    if attempt.go_at.is_none() {
        hand_back(state, id, &attempt, now);
    }
    freed::freed_before(state, id, now);
    progress::note_preemption(state, id, &attempt, &ended);
    billing::ended(state, id, &attempt, &ended);
    move_on(state, id, &attempt, &ended, now);
    freed::leave_if_over(state, id, now);
}

/// Returns the generation after a change of meaning.
#[must_use]
pub fn next_generation(generation: Generation) -> Generation {
    Generation::new(generation.get().saturating_add(1))
}

fn remove_timers(state: &mut State, id: AttemptId, attempt: &Attempt) {
    if let Some(until) = attempt.protected_until() {
        state.timers.remove(&(until, Timer::ProtectionOver(id)));
    }
    state.timers.remove(&(attempt.start_by, Timer::StartBy(id)));
}

/// An attempt without go gives back what it has: GPUs that it never used, and promises.
fn hand_back(state: &mut State, id: AttemptId, attempt: &Attempt, now: Timestamp) {
    for placement in &attempt.placements {
        gpu::unpromise(state, placement.node, &placement.slots, id);
        let released = gpu::release(state, placement.node, &placement.slots, id);
        let slots: Vec<_> = released.into_iter().map(|(slot, _)| slot).collect();
        book::handed_back(state, &attempt.pool, (placement.node, &slots), now);
    }
    if let Some(attempt) = state.attempts.get_mut(&id) {
        for placement in &mut attempt.placements {
            placement.freed_at = Some(now);
        }
    }
}

/// Returns how many launches in a row failed by their nodes' fault, the one that ends now included.
fn failed_launches(state: &State, id: AttemptId) -> usize {
    let failed = |cause: &AttemptEnd| matches!(cause, AttemptEnd::LaunchFailedNode(_));
    let past = state.jobs.get(&id.job).map(|job| job.past.as_slice()).unwrap_or_default();
    let over = past.iter().rev().take_while(|past| failed(&past.ended.cause)).count();
    // The GPUs of some are not proven empty yet; this one is among them.
    let held = phase::attempts_of(state, id.job).filter_map(|id| state.attempts.get(id)?.ended.as_ref());
    over + held.filter(|ended| failed(&ended.cause)).count()
}

fn move_on(state: &mut State, id: AttemptId, attempt: &Attempt, ended: &Ended, now: Timestamp) {
    let failed_launches = failed_launches(state, id);
    let Some(job) = state.jobs.get_mut(&id.job) else { return };
    let case = end::Case {
        terms: &job.terms,
        progress: &job.progress,
        settings: &state.meta.settings,
        retries_used: job.retries_used,
        // A gang that lost many nodes at once failed once.
        failed_nodes: job.failed_on.len().min(failed_launches),
        recent: job.past.iter().filter(|past| now.since(past.placed_at) < end::RECENT).count(),
        attempt: id.no,
        had_go: attempt.go_at.is_some(),
        stop: attempt.stop.as_ref(),
        ended,
    };
    match end::next(&case) {
        Next::Wait { is_retry } => {
            job.retries_used = job.retries_used.saturating_add(u16::from(is_retry));
            phase::wait(state, id.job, now);
        }
        Next::Hold(by) => {
            job.failed_on.clear();
            phase::hold(state, id.job, by, now);
            // Its time may be over already, if its end was reported late.
            phase::release_if_due(state, id.job, now);
        }
        Next::End(how) => phase::end(state, id.job, (how, ended.exit), ended.at, now),
    }
}

/// Backs a node off after a failed launch: twice as long each time, up to a bound; and remembers it for the job.
pub fn launch_failed_on(state: &mut State, attempt: AttemptId, id: NodeId, now: Timestamp) {
    if let Some(job) = state.jobs.get_mut(&attempt.job) {
        job.failed_on.insert(id);
    }
    let (first, longest) = (state.meta.settings.launch_backoff, state.meta.settings.launch_backoff_max);
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let wait = doubled(first, longest, u32::from(node.failed_launches));
    node.failed_launches = node.failed_launches.saturating_add(1);
    let until = now.plus(wait);
    if let Some(before) = node.backoff_until.replace(until) {
        state.timers.remove(&(before, Timer::BackoffOver(id)));
    }
    state.timers.insert((until, Timer::BackoffOver(id)), ());
}

/// Ends an attempt that had no go when its time was up: the nodes that it still waits for are to blame.
pub fn no_go_in_time(state: &mut State, id: AttemptId, now: Timestamp) {
    let is_open = |attempt: &&Attempt| attempt.go_at.is_none() && attempt.ended.is_none();
    if state.attempts.get(&id).filter(is_open).is_none() {
        return;
    }
    let missing = crate::lifecycle::go::missing(state, id);
    let names = missing.iter().filter_map(|node| state.nodes.get(node)).map(|node| node.name.as_str());
    let what = alloc::format!("not ready in time: {}", names.collect::<Vec<_>>().join(", "));
    for node in missing {
        launch_failed_on(state, id, node, now);
    }
    let cause = AttemptEnd::LaunchFailedNode(told(&what));
    end(state, id, Ended { at: now, cause, exit: None }, now);
}

/// Ends the attempts that wait for their go on a node that is not heard of: other nodes may have room for them before
/// its GPUs are proven empty. None of them has a process.
pub fn unreachable_before_go(state: &mut State, node: NodeId, now: Timestamp) {
    let Some(known) = state.nodes.get(&node) else { return };
    let what = alloc::format!("{} cannot be reached", known.name);
    let on_node = known.gpus.iter().flat_map(|gpu| [gpu.holder, gpu.next]).flatten();
    let is_open = |id: &AttemptId| {
        state.attempts.get(id).is_some_and(|attempt| attempt.go_at.is_none() && attempt.ended.is_none())
    };
    let waiting: BTreeSet<AttemptId> = on_node.filter(is_open).collect();
    for id in waiting {
        launch_failed_on(state, id, node, now);
        let cause = AttemptEnd::LaunchFailedNode(told(&what));
        end(state, id, Ended { at: now, cause, exit: None }, now);
    }
}

/// Returns `first`, doubled so many times, at most `longest`.
#[must_use]
pub fn doubled(first: Span, longest: Span, times: u32) -> Span {
    let doubled = first.as_millis().saturating_mul(1u64 << times.min(32));
    Span::from_millis(doubled).min(longest)
}

/// Returns `what` for the record, cut to what a record holds.
#[must_use]
pub fn told(what: &str) -> String {
    what.chars().filter(|c| !c.is_control()).take(256).collect()
}
