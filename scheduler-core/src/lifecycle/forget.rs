//! What was kept to be looked at leaves state.

use alloc::vec::Vec;

use crate::id::{DecisionId, JobId, SpecHash};
use crate::job::{End, Exit, Job, JobResult, Phase};
use crate::lifecycle::array;
use crate::state::State;
use crate::unit::Timestamp;

/// Takes an ended job out of state, with its decisions and its part in what nodes read. How it ended stays known.
pub fn forget(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.remove(&id) else { return array::forget(state, id) };
    let decisions: Vec<DecisionId> = job.past.iter().map(|past| past.decision).collect();
    for decision in decisions {
        state.decisions.remove(&decision);
    }
    left(state, id, &job);
}

/// What a job or an array needed of what nodes read is not needed any more; how it ended stays known. Of a task its array
/// knows it.
pub(super) fn left(state: &mut State, id: JobId, job: &Job) {
    release_launch(state, job.launch);
    if let (Phase::Ended { at, end, exit }, None) = (&job.phase, job.array) {
        let (at, end, exit) = (*at, *end, *exit);
        state.results.insert(id, JobResult { at, end, exit });
        state.results_by_end.insert((at, id), ());
    }
}

/// Lets results go that nobody may depend on any more, and the oldest of too many.
pub fn thin_results(state: &mut State, now: Timestamp) {
    let settings = &state.meta.settings;
    let (keep, max) = (settings.keep_results, bound(settings.keep_results_max));
    while let Some(oldest) = state.results_by_end.first().map(|(key, ())| *key)
        && (oldest.0.plus(keep) <= now || state.results.len() > max)
    {
        state.results_by_end.remove(&oldest);
        state.results.remove(&oldest.1);
    }
}

/// Returns how a job, an array or a task ended: none if it has not, or if that is not known any more. Of a task that has
/// left only that it completed is known, or that it did not, which counts as failed.
#[must_use]
pub fn result(state: &State, id: JobId) -> Option<(End, Option<Exit>)> {
    let job = state.jobs.get(&id).or_else(|| state.arrays.get(&id).map(|array| &array.job));
    match job.map(|job| &job.phase) {
        Some(Phase::Ended { end, exit, .. }) => Some((*end, *exit)),
        Some(Phase::Held { .. } | Phase::Waiting { .. } | Phase::Live(_)) => None,
        None => match array::of(state, id) {
            Some((_, array, place)) if array.skipped.contains(place) => Some((End::Cancelled, None)),
            Some((_, array, place)) if array.bad.contains(place) => Some((End::Failed, None)),
            Some((_, array, place)) => (place < array.made).then_some((End::Completed, None)),
            None => state.results.get(&id).map(|result| (result.end, result.exit)),
        },
    }
}

/// Whether a number is that of a job, an array or a task that state knows.
#[must_use]
pub fn is_known(state: &State, id: JobId) -> bool {
    state.jobs.contains(&id) || state.arrays.contains(&id) || array::of(state, id).is_some()
}

/// Returns a bound of the settings as a number of records.
#[must_use]
pub fn bound(max: u32) -> usize {
    usize::try_from(max).unwrap_or(usize::MAX)
}

/// One job less needs what nodes read under `hash`.
fn release_launch(state: &mut State, hash: SpecHash) {
    let Some(launch) = state.launches.get_mut(&hash) else { return };
    launch.jobs = launch.jobs.saturating_sub(1);
    if launch.jobs == 0 {
        let bytes = launch.size();
        state.launches.remove(&hash);
        state.meta.spec_bytes = state.meta.spec_bytes.saturating_sub(bytes);
    }
}
