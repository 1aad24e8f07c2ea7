//! One rank of an attempt ends; with the last one the attempt does.

use crate::id::{AttemptId, Rank};
use crate::job::{Attempt, AttemptEnd, Ended, Exit, Stop, StopCause};
use crate::lifecycle::{ending, stop};
use crate::state::State;
use crate::unit::Timestamp;

/// Takes the end of a rank, once. The first one that ended wrongly gives the attempt its cause, and makes the others
/// end soon; if all end well, the attempt has.
pub fn ended(state: &mut State, id: AttemptId, rank: Rank, ended: Ended, now: Timestamp) {
    let Some(attempt) = state.attempts.get_mut(&id).filter(|attempt| attempt.ended.is_none()) else { return };
    let Some(go) = attempt.go_at else { return };
    let stopped_at = attempt.stop.as_ref().map(|stop| stop.at);
    let Some(placement) = attempt.placements.iter_mut().find(|placement| placement.rank == rank) else {
        return;
    };
    if placement.exited.is_some() {
        return;
    }
    let began = placement.started_at.unwrap_or(go);
    // What a stop brought about came after it.
    let after = match ended.cause {
        AttemptEnd::Preempted | AttemptEnd::Stopped => stopped_at.unwrap_or(began).max(began),
        _ => began,
    };
    let ended = Ended { at: ended.at.max(after).min(now), ..ended };
    placement.exited = Some((ended.at, ended.exit.unwrap_or(Exit::Unknown)));
    if !is_good(&ended) {
        note_wrong_end(attempt, &ended);
    }
    match over(attempt) {
        Some(whole) => ending::end(state, id, whole, now),
        None if !is_good(&ended) => stop_others(state, id, rank, now),
        None => {}
    }
}

fn is_good(ended: &Ended) -> bool {
    ended.cause == AttemptEnd::Exited && ended.exit == Some(Exit::Code(0))
}

/// The first wrong end counts. Only a notice goes before what looks like a failure after it was committed: a rank often
/// falls because another one has already left.
fn note_wrong_end(attempt: &mut Attempt, ended: &Ended) {
    let stopped_at = attempt.stop.as_ref().filter(|stop| stop.has_notice()).map(|stop| stop.at);
    let gives_way = |first: &Ended| {
        ended.cause == AttemptEnd::Preempted
            && first.cause == AttemptEnd::Exited
            && stopped_at.is_some_and(|stopped_at| stopped_at <= first.at)
    };
    if attempt.first_end.as_ref().is_none_or(gives_way) {
        attempt.first_end = Some(ended.clone());
    }
}

/// Returns how the attempt ended, if all its ranks have: at the last one's end.
fn over(attempt: &Attempt) -> Option<Ended> {
    let mut last = Timestamp::ZERO;
    for placement in &attempt.placements {
        last = last.max(placement.exited?.0);
    }
    let good = Ended { at: last, cause: AttemptEnd::Exited, exit: Some(Exit::Code(0)) };
    Some(attempt.first_end.clone().map_or(good, |first| Ended { at: last, ..first }))
}

fn stop_others(state: &mut State, id: AttemptId, rank: Rank, now: Timestamp) {
    let grace = state.meta.settings.rank_grace;
    stop::stop(state, id, Stop { at: now, cause: StopCause::Rank { rank }, grace }, now);
}
