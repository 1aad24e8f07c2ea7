//! A committed stop.

use crate::id::AttemptId;
use crate::job::{AttemptEnd, Ended, Stop, StopCause};
use crate::lifecycle::ending::{self, next_generation};
use crate::lifecycle::watch;
use crate::state::State;
use crate::unit::Timestamp;

/// Orders the stop of a live attempt. One without go never had a process, and ends at once. A stop that was ordered
/// before stands, and no notice is taken back; only a cancel comes through: it becomes the cause, and the earlier kill
/// of the two holds.
pub fn stop(state: &mut State, id: AttemptId, stop: Stop, now: Timestamp) {
    let Some(attempt) = state.attempts.get(&id).filter(|attempt| attempt.ended.is_none()) else { return };
    let has_go = attempt.go_at.is_some();
    let has_notice = stop.has_notice();
    watch::changing(state, id, |state| {
        let Some(attempt) = state.attempts.get_mut(&id) else { return };
        let is_new = match &mut attempt.stop {
            Some(before) => harden(before, stop),
            None => {
                attempt.stop = Some(stop);
                true
            }
        };
        for placement in attempt.placements.iter_mut().filter(|_| is_new) {
            placement.generation = next_generation(placement.generation);
        }
    });
    if !has_go {
        let cause = if has_notice { AttemptEnd::Preempted } else { AttemptEnd::Stopped };
        ending::end(state, id, Ended { at: now, cause, exit: None }, now);
    }
}

/// Makes a committed stop end sooner, or by a person's word. Says whether that changed anything.
fn harden(before: &mut Stop, new: Stop) -> bool {
    let is_cancel = |stop: &Stop| matches!(stop.cause, StopCause::Cancel { .. });
    let is_sooner = new.killed_at() < before.killed_at();
    if !is_cancel(&new) || is_cancel(before) && !is_sooner {
        return false;
    }
    let killed_at = new.killed_at().min(before.killed_at());
    let cause = if is_cancel(before) { before.cause.clone() } else { new.cause };
    *before = Stop { at: new.at, cause, grace: killed_at.since(new.at) };
    true
}
