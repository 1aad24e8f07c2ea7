//! What is known of a job that has left is of its time, and it is in state once: as a job or as a result.

use alloc::format;
use alloc::string::String;

use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    let (now, keep) = (state.meta.time, state.meta.settings.keep_results);
    for (id, result) in state.results.iter() {
        if state.jobs.contains(id) || state.arrays.contains(id) || *id >= state.meta.next_job {
            return Err(format!("job {id} has a result and is in state, or was never there"));
        }
        if result.at > now || !state.results_by_end.contains(&(result.at, *id)) {
            return Err(format!("the result of job {id} is of {:?}, now is {now:?}", result.at));
        }
    }
    if state.results.len() != state.results_by_end.len() {
        let (results, ends) = (state.results.len(), state.results_by_end.len());
        return Err(format!("{results} results, {ends} by their end"));
    }
    match state.results_by_end.first() {
        Some(((at, id), ())) if at.plus(keep) <= now => {
            Err(format!("the result of job {id} is of {at:?}, now is {now:?}"))
        }
        Some(_) | None => Ok(()),
    }
}
