//! What changes by time alone.

use crate::budget;
use crate::id::JobId;
use crate::lifecycle::{billing, drain, ending, forget, phase};
use crate::state::{State, Timer};
use crate::unit::Timestamp;

/// Brings state to `to`: everything that time alone changes up to then happens, in order. Goes never back.
pub fn advance(state: &mut State, to: Timestamp) {
    while let Some(due) = next(state).filter(|due| due.at() <= to) {
        match due {
            Due::Timer(at, timer) => fire(state, at, timer),
            Due::Leaves { since, job, .. } => leave(state, (since, job)),
        }
    }
    let max = forget::bound(state.meta.settings.keep_ended_max);
    while let Some(oldest) = state.ended.first().map(|(key, ())| *key).filter(|_| state.ended.len() > max) {
        leave(state, oldest);
    }
    let before = state.meta.time;
    state.meta.time = before.max(to);
    let settings = &state.meta.settings;
    state.books.thin(settings.window, forget::bound(settings.curve_points_max), (before, state.meta.time));
    billing::thin(state, state.meta.time);
    forget::thin_results(state, state.meta.time);
}

/// Returns when time alone changes something next; nothing does before the next entry, if there is nothing.
#[must_use]
pub fn next_change(state: &State) -> Option<Timestamp> {
    next(state).map(|due| due.at())
}

enum Due {
    Timer(Timestamp, Timer),
    /// An ended job leaves state.
    Leaves {
        at: Timestamp,
        since: Timestamp,
        job: JobId,
    },
}

impl Due {
    fn at(&self) -> Timestamp {
        match self {
            Self::Timer(at, _) | Self::Leaves { at, .. } => *at,
        }
    }
}

fn next(state: &State) -> Option<Due> {
    let timer = state.timers.first().map(|((at, timer), ())| Due::Timer(*at, *timer));
    let leaves = state.ended.first().map(|((since, job), ())| Due::Leaves {
        at: since.plus(state.meta.settings.keep_ended),
        since: *since,
        job: *job,
    });
    match (timer, leaves) {
        (Some(timer), Some(leaves)) => Some(if timer.at() <= leaves.at() { timer } else { leaves }),
        (timer, leaves) => timer.or(leaves),
    }
}

fn leave(state: &mut State, key: (Timestamp, JobId)) {
    state.ended.remove(&key);
    forget::forget(state, key.1);
}

fn fire(state: &mut State, at: Timestamp, timer: Timer) {
    state.timers.remove(&(at, timer));
    match timer {
        // The books know the end of each protection themselves. The moment still counts: who may be stopped changes,
        // and who is on a node that is drained leaves.
        Timer::ProtectionOver(attempt) => drain::leave_if_due(state, attempt, at),
        Timer::StartBy(attempt) => ending::no_go_in_time(state, attempt, at),
        Timer::Release(job) => phase::release_if_due(state, job, at),
        Timer::Drain(node) => drain::due(state, node, at),
        Timer::BackoffOver(node) => {
            if let Some(node) = state.nodes.get_mut(&node) {
                node.backoff_until = None;
            }
        }
        Timer::JoinToken(token) => {
            state.join_tokens.remove(&token);
        }
        Timer::Request(id) => {
            state.requests.remove(&id);
        }
        Timer::Grant(id) => budget::pass(state, id, at),
        Timer::Edit(id) => budget::due_edit(state, id, at),
    }
}
