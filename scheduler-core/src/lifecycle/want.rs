//! Demand: the GPUs that a budget's funded jobs have or want, in the books of each pool where they stand.
//!
//! A job counts from when it is in line until its end, whatever becomes of it in between: waiting, placed, running,
//! waiting again. Held jobs and the free tier do not. In line it stands in every pool that could hold it; with an
//! attempt, in that attempt's alone. Where it counts is kept with the job, so what rose falls again.
//!
//! Of an array only so many tasks are in line at once. Those to come count with its record, where it would stand: an
//! array wants as much as its tasks would, had each been submitted alone.

use alloc::vec::Vec;

use crate::array::JobArray;
use crate::budget;
use crate::id::{AttemptId, JobId, Name};
use crate::job::{Job, Phase};
use crate::lifecycle::need::{could_hold, most_together};
use crate::pool;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// Brings the books up to the phase that a job has just entered.
pub fn update(state: &mut State, id: JobId) {
    update_from(state, id, Timestamp::ZERO);
}

/// Brings the books up to where a job stands, not before a moment.
fn update_from(state: &mut State, id: JobId, not_before: Timestamp) {
    let Some(job) = state.jobs.get(&id) else { return };
    let (wants, at) = (pools(state, id, job), entered(state, id, job).max(not_before));
    if wants == job.wants {
        return;
    }
    let (path, gpus) = (budget::path(state, job.budget), gpus(job));
    let had = state.jobs.get_mut(&id).map(|job| core::mem::replace(&mut job.wants, wants.clone()));
    let had = had.unwrap_or_default();
    for pool in had.iter().filter(|pool| !wants.contains(pool)) {
        state.books.unwanted(pool, &path, gpus, at);
    }
    for pool in wants.iter().filter(|pool| !had.contains(pool)) {
        state.books.wanted(pool, &path, gpus, at);
    }
}

/// A pool has its first GPUs: whoever waits may stand there too.
pub fn pool_opened(state: &mut State) {
    let waiting: Vec<JobId> = state.line.keys().map(|place| place.job).collect();
    for id in waiting {
        update(state, id);
    }
    let now = state.meta.time;
    arrays_stand(state, now);
}

/// Clusters are in other pools since `now`: whoever waits stands where it may stand now.
pub fn pools_changed(state: &mut State, now: Timestamp) {
    let waiting: Vec<JobId> = state.line.keys().map(|place| place.job).collect();
    for id in waiting {
        update_from(state, id, now);
    }
    arrays_stand(state, now);
}

/// Returns the GPUs of an array's tasks that count with its record: of those to come.
#[must_use]
pub fn to_come(array: &JobArray) -> u64 {
    if array.job.terms.tier == Tier::Funded { u64::from(array.to_come()) * gpus(&array.job) } else { 0 }
}

/// Brings the books up to an array's tasks to come, of which `had` GPUs were booked where it stands.
pub fn update_array(state: &mut State, id: JobId, had: u64, now: Timestamp) {
    let Some(array) = state.arrays.get(&id) else { return };
    let has = to_come(array);
    let wants = match has {
        0 => Vec::new(),
        _ if array.job.wants.is_empty() => standing(state, &array.job),
        _ => array.job.wants.clone(),
    };
    book_array(state, id, (had, has), wants, now);
}

/// Arrays stand where their tasks would now.
fn arrays_stand(state: &mut State, now: Timestamp) {
    let ids: Vec<JobId> = state.arrays.keys().copied().collect();
    for id in ids {
        let Some(array) = state.arrays.get(&id) else { continue };
        let has = to_come(array);
        let wants = if has == 0 { Vec::new() } else { standing(state, &array.job) };
        book_array(state, id, (has, has), wants, now);
    }
}

fn book_array(state: &mut State, id: JobId, (had, has): (u64, u64), wants: Vec<Name>, now: Timestamp) {
    let Some(array) = state.arrays.get_mut(&id) else { return };
    if had == has && wants == array.job.wants {
        return;
    }
    let had_in = core::mem::replace(&mut array.job.wants, wants.clone());
    let budget = array.job.budget;
    let path = budget::path(state, budget);
    for pool in &wants {
        state.books.wanted(pool, &path, has, now);
    }
    for pool in &had_in {
        state.books.unwanted(pool, &path, had, now);
    }
}

/// Returns the GPUs of a job.
#[must_use]
pub fn gpus(job: &Job) -> u64 {
    u64::from(job.terms.shape.nodes) * u64::from(job.terms.shape.gpus_per_node.get())
}

/// Returns the pools in which a job's GPUs count as demand now.
fn pools(state: &State, id: JobId, job: &Job) -> Vec<Name> {
    if job.terms.tier != Tier::Funded {
        return Vec::new();
    }
    match &job.phase {
        Phase::Held { .. } | Phase::Ended { .. } => Vec::new(),
        Phase::Live(no) => {
            let attempt = state.attempts.get(&AttemptId { job: id, no: *no });
            attempt.map(|attempt| attempt.pool.clone()).into_iter().collect()
        }
        Phase::Waiting { .. } => standing(state, job),
    }
}

/// Returns the pools in which a job stands in line: those that could hold it if they were empty. Where there is only
/// one pool, it stands in that.
fn standing(state: &State, job: &Job) -> Vec<Name> {
    let pools = state.books.pools();
    if let Some(named) = &job.terms.cluster {
        return pools.keys().filter(|pool| pool::has(state, pool, named)).cloned().collect();
    }
    if pools.len() < 2 {
        return pools.keys().cloned().collect();
    }
    let shape = &job.terms.shape;
    let wanted = usize::try_from(shape.nodes).unwrap_or(usize::MAX);
    let fits = |pool: &&Name| {
        let here = state.nodes.values().filter(|node| node.pool == **pool);
        if wanted > 1 && !state.pools.is_empty() {
            return most_together(shape, &here.collect::<Vec<_>>()) >= shape.nodes;
        }
        here.filter(|node| could_hold(shape, node)).take(wanted).count() >= wanted
    };
    pools.keys().filter(fits).cloned().collect()
}

/// Returns when a job entered its phase.
fn entered(state: &State, id: JobId, job: &Job) -> Timestamp {
    match &job.phase {
        Phase::Held { since, .. } | Phase::Waiting { since } => *since,
        Phase::Ended { at, .. } => *at,
        Phase::Live(no) => {
            let attempt = state.attempts.get(&AttemptId { job: id, no: *no });
            attempt.map_or(state.meta.time, |attempt| attempt.placed_at)
        }
    }
}
