//! Decisions, and the past attempts that they placed, are bounded over all jobs: a few that start over and over cannot
//! fill state.

use crate::decision::Record;
use crate::id::AttemptId;
use crate::lifecycle::forget::bound;
use crate::lifecycle::phase;
use crate::state::State;

/// Of too many decisions the oldest leave, with the attempts that they placed, a few more than needed so that this is
/// seldom done. Those of attempts that have GPUs stay, and of each job its last attempt, and the last that ran.
pub fn decisions(state: &mut State) {
    let max = bound(state.meta.settings.decisions_max);
    if state.decisions.len() <= max {
        return;
    }
    let aim = max - max / 64;
    let all = state.decisions.clone();
    for (id, record) in all.iter() {
        if state.decisions.len() <= aim {
            return;
        }
        if leave_past(state, record) {
            state.decisions.remove(id);
        }
    }
}

/// Takes the attempt of a decision out of its job's past, if a later one says what has to be known of the job.
fn leave_past(state: &mut State, record: &Record) -> bool {
    let (id, no) = (record.start.job, record.start.attempt);
    let has_started = |id: &AttemptId| state.attempts.get(id).is_some_and(|other| other.started_at.is_some());
    let (mut later, mut later_ran) = (false, false);
    for other in phase::attempts_of(state, id).filter(|other| other.no > no) {
        later = true;
        later_ran |= has_started(other);
    }
    let Some(job) = state.jobs.get_mut(&id) else { return false };
    let Some(at) = job.past.iter().position(|past| past.no == no) else { return false };
    let rest = &job.past[at + 1..];
    later |= !rest.is_empty();
    later_ran |= rest.iter().any(|past| past.started_at.is_some());
    let is_needed = !later || (job.past[at].started_at.is_some() && !later_ran);
    if !is_needed {
        job.past.remove(at);
    }
    !is_needed
}
