//! A committed stop.

use crate::id::AttemptId;
use crate::job::Stop;
use crate::lifecycle::ending::next_generation;
use crate::state::State;

/// Orders the stop of a live attempt, or shortens the grace of one that was ordered.
pub fn stop(state: &mut State, id: AttemptId, stop: Stop) {
    let Some(attempt) = state.attempts.get_mut(&id) else { return };
    if attempt.ended.is_some() {
        return;
    }
    match &mut attempt.stop {
        Some(before) if before.grace <= stop.grace => return,
        Some(before) => before.grace = stop.grace,
        None => attempt.stop = Some(stop),
    }
    for placement in &mut attempt.placements {
        placement.generation = next_generation(placement.generation);
    }
}
