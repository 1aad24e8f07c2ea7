//! What was kept to be looked at leaves state.

use alloc::vec::Vec;

use crate::id::{DecisionId, JobId, SpecHash};
use crate::job::{End, Exit, JobResult, Phase};
use crate::state::State;
use crate::unit::Timestamp;

/// Takes an ended job out of state, with its decisions and its part in what nodes read. How it ended stays known.
pub fn forget(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.remove(&id) else { return };
    let decisions: Vec<DecisionId> = job.past.iter().map(|past| past.decision).collect();
    for decision in decisions {
        state.decisions.remove(&decision);
    }
    release_launch(state, job.launch);
    if let Phase::Ended { at, end, exit } = job.phase {
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

/// Returns how a job ended: none if it has not, or if that is not known any more.
#[must_use]
pub fn result(state: &State, id: JobId) -> Option<(End, Option<Exit>)> {
    match state.jobs.get(&id).map(|job| &job.phase) {
        Some(Phase::Ended { end, exit, .. }) => Some((*end, *exit)),
        Some(Phase::Held { .. } | Phase::Waiting { .. } | Phase::Live(_)) => None,
        None => state.results.get(&id).map(|result| (result.end, result.exit)),
    }
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
