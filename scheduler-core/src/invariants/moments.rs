//! placed <= go <= started <= ended <= freed, none later than now.

use alloc::format;
use alloc::string::String;

use crate::id::AttemptId;
use crate::job::Attempt;
use crate::state::State;
use crate::unit::Timestamp;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.attempts.iter().try_for_each(|(id, attempt)| check(*id, attempt, state.meta.time))
}

pub(super) fn step(before: &State, after: &State) -> Result<(), String> {
    let mut attempts = after.attempts.touched_since(&before.attempts);
    attempts.try_for_each(|(id, attempt)| check(*id, attempt, after.meta.time))
}

fn check(id: AttemptId, attempt: &Attempt, now: Timestamp) -> Result<(), String> {
    let ended = attempt.ended.as_ref().map(|ended| ended.at);
    let freed = attempt.placements.iter().filter_map(|placement| placement.freed_at).min();
    let points = [Some(attempt.placed_at), attempt.go_at, attempt.started_at, ended, freed, Some(now)];
    let mut last = Timestamp::ZERO;
    for point in points.into_iter().flatten() {
        if point < last {
            return Err(format!("attempt {id} at {now:?}: {points:?}"));
        }
        last = point;
    }
    if attempt.started_at.is_some() && attempt.go_at.is_none() {
        return Err(format!("attempt {id} has started without a go"));
    }
    Ok(())
}
