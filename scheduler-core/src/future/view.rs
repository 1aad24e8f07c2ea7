//! The part of a state that matters for when one job starts.

use core::ops::ControlFlow;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::id::JobId;
use crate::plan::{pools, walk};
use crate::state::{InLine, State, Timer};
use crate::table::Table;
use crate::unit::Timestamp;

/// So many jobs of a pool stay in line at least, and twice as many as stand before the one that is asked about.
const LINE_LEAST: usize = 64;
/// And at most.
const LINE_MAX: usize = 1_000;

/// Returns the state without who stands far behind the job in line, and without what only answers questions. None if the
/// job does not stand in line, or too many stand before it.
pub(super) fn around(state: &State, job: JobId, now: Timestamp) -> Option<State> {
    let mut kept: BTreeSet<JobId> = state.dates.keys().map(|(job, _)| *job).collect();
    let mut stands = false;
    for pool in pools(state) {
        let mut line: Vec<JobId> = Vec::new();
        let mut place = None;
        walk(state, pool, now, |_, ask| {
            line.push(ask.id);
            if ask.id == job {
                place = Some(line.len());
            }
            let enough = place.map_or(LINE_MAX, |place: usize| place.saturating_mul(2).max(LINE_LEAST));
            if line.len() >= enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if place.is_some() {
            stands = true;
            kept.extend(line);
        }
    }
    if !stands {
        return None;
    }
    let mut view = state.clone();
    let far: Vec<InLine> = view.line.keys().filter(|place| !kept.contains(&place.job)).copied().collect();
    for place in far {
        view.line.remove(&place);
    }
    view.requests = Table::default();
    let idle: Vec<(Timestamp, Timer)> =
        view.timers.keys().filter(|(_, timer)| !is_about_work(*timer)).copied().collect();
    for timer in idle {
        view.timers.remove(&timer);
    }
    Some(view)
}

/// Whether what a timer does may change when anybody starts.
fn is_about_work(timer: Timer) -> bool {
    match timer {
        Timer::ProtectionOver(_)
        | Timer::BackoffOver(_)
        | Timer::StartBy(_)
        | Timer::Release(_)
        | Timer::Drain(_)
        | Timer::Grant(_)
        | Timer::Edit(_) => true,
        Timer::JoinToken(_) | Timer::Request(_) => false,
    }
}
