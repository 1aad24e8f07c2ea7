//! What a job was charged is what its attempts were charged.

use alloc::format;
use alloc::string::String;

use super::Change;
use crate::id::JobId;
use crate::job::Job;
use crate::lifecycle::{book, phase};
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    state.jobs.iter().try_for_each(|(id, job)| check(state, *id, job))
}

pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    change.jobs.iter().try_for_each(|(id, job)| check(change.after, **id, job))
}

fn check(state: &State, id: JobId, job: &Job) -> Result<(), String> {
    let ended = phase::attempts_of(state, id).filter_map(|id| {
        let attempt = state.attempts.get(id)?;
        Some(book::charge(attempt, attempt.ended.as_ref()?))
    });
    let sum: u128 = job.past.iter().map(|past| past.charged).chain(ended).map(|charge| charge.get()).sum();
    // Attempts that are not shown any more were charged too.
    let shown = job.past.len() + phase::attempts_of(state, id).count();
    let is_whole = shown + 1 == usize::from(job.next_attempt.get());
    if sum > job.charged.get() || is_whole && sum != job.charged.get() {
        return Err(format!("job {id} was charged {}, its attempts {sum}", job.charged.get()));
    }
    Ok(())
}
