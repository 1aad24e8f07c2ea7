//! What was kept to be looked at leaves state.

use alloc::vec::Vec;

use crate::id::{DecisionId, JobId, SpecHash};
use crate::state::State;

/// Takes an ended job out of state, with its decisions and its part in what nodes read.
pub fn forget(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.remove(&id) else { return };
    let decisions: Vec<DecisionId> = job.past.iter().map(|past| past.decision).collect();
    for decision in decisions {
        state.decisions.remove(&decision);
    }
    release_launch(state, job.launch);
}

/// One job less needs what nodes read under `hash`.
fn release_launch(state: &mut State, hash: SpecHash) {
    let Some(launch) = state.launches.get_mut(&hash) else { return };
    launch.jobs = launch.jobs.saturating_sub(1);
    if launch.jobs == 0 {
        state.launches.remove(&hash);
    }
}
