//! One job, or one decision, that left state: put back into a clone of it.

use std::collections::BTreeSet;

use proto::state::v1::record::Record as Kept;
use proto::{snapshot, v1};
use scheduler_core::id::{DecisionId, JobId};
use scheduler_core::job::StopCause;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;
use tonic::Status;

use super::Walk;
use crate::history::{self, Coverage, Direction, Gone, Query, Wants};
use crate::refusal;
use crate::shared::{Read, Shared};

/// Other jobs of a preemption that are read too, for their names.
const OTHERS: usize = 8;

/// A state that has what had left it.
#[derive(Debug, Clone)]
pub struct Revived {
    /// The state and its index.
    pub read: Read,
    /// When the job left.
    pub left_at: Timestamp,
}

/// Returns a state that has a job again; `with_others`, also those that it took GPUs from or gave them to.
///
/// # Errors
/// When there never was such a job, it is older than what is kept, its part of the history is missing, or the history
/// cannot be read.
pub async fn job(shared: &Shared, read: &Read, id: JobId, with_others: bool) -> Result<Revived, Status> {
    let mut state = read.view.state.clone();
    if id >= state.meta.next_job || id.get() == 0 {
        return Err(never(id, &state));
    }
    let Some(gone) = found(shared, read, id).await? else {
        let missing = missing(shared, read, id).await?;
        return Err(lost(id, &missing, &shared.history.coverage()));
    };
    gone.put_into(&mut state);
    if with_others {
        for other in others(&state, id) {
            if let Some(gone) = found(shared, read, other).await? {
                gone.put_into(&mut state);
            }
        }
    }
    Ok(Revived { read: super::with(read, state), left_at: gone.at })
}

async fn found(shared: &Shared, read: &Read, id: JobId) -> Result<Option<Gone>, Status> {
    let _turn = super::turn(shared).await?;
    history::job(shared, read.view.index, id).await
}

/// Returns what nobody within reach has of the history, where a job's records may be.
async fn missing(shared: &Shared, read: &Read, id: JobId) -> Result<Vec<v1::Missing>, Status> {
    let wants = Wants { jobs: true, ..Wants::default() };
    let query = Query { job: Some(id), direction: Direction::Backward, ..Query::all(wants) };
    let mut walk = Walk::new(shared, read.view.index, query);
    while walk.page().await?.is_some() {}
    walk.missing().await
}

/// Returns the jobs that a job's preemptions and decisions name and state does not have.
fn others(state: &State, id: JobId) -> Vec<JobId> {
    let Some(job) = state.jobs.get(&id) else { return Vec::new() };
    let takers = job.past.iter().filter_map(|past| match &past.stop.as_ref()?.cause {
        StopCause::Preempt(taken) => Some(taken.by.job),
        StopCause::Cancel { .. }
        | StopCause::Unwanted
        | StopCause::Drain { .. }
        | StopCause::Requeue { .. }
        | StopCause::Rank { .. } => None,
    });
    let decisions = job.past.iter().filter_map(|past| state.decisions.get(&past.decision));
    let victims = decisions.flat_map(|record| record.start.takes.iter().map(|take| take.attempt.job));
    let named: BTreeSet<JobId> = takers.chain(victims).collect();
    named.into_iter().filter(|other| !state.jobs.contains(other)).take(OTHERS).collect()
}

/// Returns a state that has a decision again, with its job; none if the history does not have it either.
///
/// # Errors
/// When the history cannot be read.
pub async fn decision(shared: &Shared, read: &Read, id: DecisionId) -> Result<Option<Read>, Status> {
    let query =
        Query { from: id.index, through: id.index, ..Query::all(Wants { events: true, ..Wants::default() }) };
    let mut walk = Walk::new(shared, read.view.index, query);
    let mut placed = Vec::new();
    while let Some(records) = walk.page().await? {
        let events = records.into_iter().flat_map(|record| record.events);
        let said = id.to_string();
        placed.extend(events.filter(|event| event.sentence.contains(&said)).filter_map(|event| event.job));
    }
    for job in placed.into_iter().map(JobId::new) {
        if let Some(state) = with_decision(shared, read, job, id).await? {
            return Ok(Some(super::with(read, state)));
        }
    }
    Ok(None)
}

async fn with_decision(
    shared: &Shared,
    read: &Read,
    job: JobId,
    id: DecisionId,
) -> Result<Option<State>, Status> {
    let wants = Wants { jobs: true, ..Wants::default() };
    let query = Query { job: Some(job), direction: Direction::Backward, ..Query::all(wants) };
    let mut state = read.view.state.clone();
    let mut walk = Walk::new(shared, read.view.index, query);
    while let Some(records) = walk.page().await? {
        for kept in records.into_iter().flat_map(|record| record.left).filter_map(|kept| kept.record) {
            match kept {
                Kept::Decision(kept) => {
                    let read = snapshot::read_decision_record(kept);
                    let (key, record) = read.map_err(|cause| super::unreadable(&cause))?;
                    state.decisions.insert(key, record);
                }
                Kept::Job(kept) if !state.jobs.contains(&job) => {
                    let read = snapshot::read_job_record(kept);
                    let (key, record) = read.map_err(|cause| super::unreadable(&cause))?;
                    state.jobs.insert(key, record);
                }
                _ => {}
            }
        }
    }
    Ok(state.decisions.contains(&id).then_some(state))
}

fn never(id: JobId, state: &State) -> Status {
    refusal::not_found(format!(
        "there never was a job {id}: the next one gets the number {}",
        state.meta.next_job
    ))
}

fn lost(id: JobId, missing: &[v1::Missing], coverage: &Coverage) -> Status {
    if !missing.is_empty() {
        let parts: Vec<String> = missing.iter().map(part).collect();
        return refusal::missing_history(
            format!("job {id} left the present state, and its part of the history is missing"),
            format!("nobody who answers has what happened in the entries {}", parts.join(", nor ")),
        );
    }
    let from = coverage
        .first_ms
        .map_or_else(String::new, |at| format!(": the history goes back to {}", proto::json::rfc3339(at)));
    refusal::not_found(format!("job {id} is older than what is kept{from}"))
}

fn part(missing: &v1::Missing) -> String {
    let at = |at: Option<u64>| at.map_or_else(|| "?".to_owned(), proto::json::rfc3339);
    let (from, to) = (at(missing.from_at), at(missing.to_at));
    format!("{} to {} ({from} to {to})", missing.first_index, missing.last_index)
}

#[cfg(test)]
mod tests {
    use scheduler_core::id::JobId;
    use scheduler_core::state::State;

    use super::*;

    #[test]
    fn an_unknown_number_is_told_apart_from_an_old_one() {
        let mut state = State::default();
        state.meta.next_job = JobId::new(9);
        let said = |status: Status| status.message().to_owned();
        assert!(
            said(never(JobId::new(9), &state)).contains("never was a job 9: the next one gets the number 9")
        );
        let coverage = Coverage { floor: 100, first_ms: Some(1_795_972_127_001), ..Coverage::default() };
        let old = said(lost(JobId::new(3), &[], &coverage));
        assert!(
            old.contains("older than what is kept: the history goes back to 2026-11-29T17:08:47.001Z"),
            "{old}"
        );
        let hole = v1::Missing { first_index: 120, last_index: 180, ..v1::Missing::default() };
        let missing = lost(JobId::new(3), &[hole], &coverage);
        assert!(missing.message().contains("its part of the history is missing"), "{}", missing.message());
    }
}
