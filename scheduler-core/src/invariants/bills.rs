//! Bills are of the window, and few; whether somebody gave way for nothing is open only while who it was for may still
//! start.

use alloc::format;
use alloc::string::String;

use super::Change;
use crate::id::AttemptId;
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    let (now, window) = (state.meta.time, state.meta.settings.window);
    for ((ended_at, id), bill) in state.bills.iter() {
        if *ended_at > now || ended_at.plus(window) <= now || *ended_at < bill.noticed_at {
            return Err(format!("the bill of {id} is of {ended_at:?}, now is {now:?}"));
        }
        let may_start = |by: AttemptId| {
            let attempt = state.attempts.get(&by);
            attempt.is_some_and(|attempt| attempt.started_at.is_none() && attempt.ended.is_none())
        };
        let is_open = bill.taken_for.is_some_and(may_start);
        if bill.is_wasted.is_none() != is_open {
            return Err(format!("the bill of {id} says {:?} of {:?}", bill.is_wasted, bill.taken_for));
        }
    }
    Ok(())
}

/// A bill is only ever settled: what was lost stays lost.
pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    let (before, after) = (change.before, change.after);
    for (key, bill) in after.bills.touched_since(&before.bills) {
        let Some(was) = before.bills.get(key) else { continue };
        let is_settled = was.is_wasted.is_some() && was.is_wasted != bill.is_wasted;
        if is_settled || (was.age, was.gpus, was.cause) != (bill.age, bill.gpus, bill.cause) {
            return Err(format!("the bill of {} was {was:?}, is {bill:?}", key.1));
        }
    }
    Ok(())
}
