//! placed <= go <= started <= ended <= freed, none later than now; each rank between its start and its end likewise.

use alloc::format;
use alloc::string::String;

use super::Change;
use crate::id::AttemptId;
use crate::job::Attempt;
use crate::state::State;
use crate::unit::Timestamp;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.attempts.iter().try_for_each(|(id, attempt)| check(*id, attempt, state.meta.time))
}

pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    change.attempts.iter().try_for_each(|(id, attempt)| check(**id, attempt, change.after.meta.time))
}

fn check(id: AttemptId, attempt: &Attempt, now: Timestamp) -> Result<(), String> {
    let ended = attempt.ended.as_ref().map(|ended| ended.at);
    // Before the end of the attempt, a rank's GPUs are only remembered to be empty.
    let freed = attempt.placements.iter().filter(|_| attempt.ended.is_some());
    let freed = freed.filter_map(|placement| placement.freed_at).min();
    let points = [Some(attempt.placed_at), attempt.go_at, attempt.started_at, ended, freed, Some(now)];
    if !are_in_order(&points) {
        return Err(format!("attempt {id} at {now:?}: {points:?}"));
    }
    for rank in &attempt.placements {
        let exited = rank.exited.map(|(at, _)| at);
        let runs = [attempt.go_at, rank.started_at, exited, rank.freed_at, Some(now)];
        let waits = [Some(attempt.placed_at), rank.ready_at, attempt.go_at, Some(now)];
        if !are_in_order(&runs) || !are_in_order(&waits) {
            return Err(format!("rank {} of attempt {id} at {now:?}: {waits:?}, {runs:?}", rank.rank));
        }
    }
    if attempt.started_at.is_some() && attempt.go_at.is_none() {
        return Err(format!("attempt {id} has started without a go"));
    }
    Ok(())
}

fn are_in_order(points: &[Option<Timestamp>]) -> bool {
    points.iter().flatten().is_sorted()
}
