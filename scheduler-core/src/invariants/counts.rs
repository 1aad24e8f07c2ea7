//! Counters count what they count, and neither they nor time ever go back.

use alloc::format;
use alloc::string::String;

use super::Change;
use crate::lifecycle::array::places;
use crate::state::{Launch, State};

pub(super) fn full(state: &State) -> Result<(), String> {
    let live = state.jobs.values().filter(|job| !job.phase.is_ended() && job.array.is_none()).count();
    let arrays = state.arrays.values().filter(|array| !array.job.phase.is_ended());
    let live = arrays
        .fold(u64::try_from(live).unwrap_or(u64::MAX), |sum, array| sum.saturating_add(places(array).into()));
    if live != u64::from(state.meta.live_jobs) {
        return Err(format!("{live} jobs are live, counted {}", state.meta.live_jobs));
    }
    let tasks: u64 = state.arrays.values().map(|array| u64::from(array.indexes.count())).sum();
    if tasks != u64::from(state.meta.array_tasks) {
        return Err(format!("arrays have {tasks} tasks, counted {}", state.meta.array_tasks));
    }
    let bytes: u64 = state.launches.values().map(Launch::size).sum();
    if bytes != state.meta.spec_bytes {
        return Err(format!("nodes read {bytes} bytes, counted {}", state.meta.spec_bytes));
    }
    if state.jobs.keys().next_back().is_some_and(|last| *last >= state.meta.next_job) {
        return Err(format!("a job has a number that was not given yet: {}", state.meta.next_job));
    }
    if state.nodes.keys().next_back().is_some_and(|last| *last >= state.meta.next_node) {
        return Err(format!("a node has a number that was not given yet: {}", state.meta.next_node));
    }
    Ok(())
}

pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    let (before, after) = (change.before, change.after);
    let of = |state: &State| {
        let meta = &state.meta;
        (meta.time, meta.index, meta.next_job, meta.next_node, meta.next_budget, meta.tree)
    };
    let (was, is) = (of(before), of(after));
    let has_fallen = is.0 < was.0
        || is.1 < was.1
        || is.2 < was.2
        || is.3 < was.3
        || is.4 < was.4
        || is.5 < was.5
        || after.meta.live_jobs > after.meta.next_job.get();
    if has_fallen { Err(format!("from {was:?} to {is:?}")) } else { Ok(()) }
}
