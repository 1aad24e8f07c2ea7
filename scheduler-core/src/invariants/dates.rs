//! A date is of a job that waits, on GPUs that exist; no GPU is reserved twice for overlapping times; and a date only
//! moves with a node that failed, or is wanted empty.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::Change;
use crate::date::Date;
use crate::id::{JobId, Name, NodeId, Slot};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

pub(super) fn full(state: &State) -> Result<(), String> {
    for ((job, pool), date) in state.dates.iter() {
        check(state, (*job, pool), date)?;
    }
    check_apart(state)
}

pub(super) fn step(change: &Change<'_>) -> Result<(), String> {
    let (before, after) = (change.before, change.after);
    let mut changed = false;
    for ((job, pool), date) in after.dates.touched_since(&before.dates) {
        check(after, (*job, pool), date)?;
        changed = true;
        let Some(was) = before.dates.get(&(*job, pool.clone())) else { continue };
        let is_same = was.decision == date.decision;
        if is_same && was.promise.at < date.promise.at && was.moved == date.moved {
            return Err(format!("the date of job {job} moved from {:?} for nothing", was.promise.at));
        }
    }
    for (id, job) in &change.jobs {
        let is_dated = || after.dates.keys().any(|(of, _)| of == *id);
        if !job.phase.is_waiting() && !after.dates.is_empty() && is_dated() {
            return Err(format!("job {id} has a date and does not wait"));
        }
    }
    if changed { check_apart(after) } else { Ok(()) }
}

fn check(state: &State, (id, pool): (JobId, &Name), date: &Date) -> Result<(), String> {
    let waits = |job: &&crate::job::Job| job.phase.is_waiting() && job.terms.tier == Tier::Funded;
    let Some(job) = state.jobs.get(&id).filter(waits) else {
        return Err(format!("job {id} has a date and does not wait as a funded job"));
    };
    let (shape, on) = (&job.terms.shape, &date.promise.on);
    if u32::try_from(on.len()) != Ok(shape.nodes) {
        return Err(format!("job {id} of {} nodes has {} reserved", shape.nodes, on.len()));
    }
    for (node_id, slots) in on {
        let Some(node) = state.nodes.get(node_id).filter(|node| node.pool == *pool) else {
            return Err(format!("the date of job {id} is on node {node_id}, which is not in {pool}"));
        };
        let exists = |slot: &Slot| usize::from(slot.get()) < node.gpus.len();
        if u32::try_from(slots.len()) != Ok(shape.gpus_per_node.get()) || !slots.iter().all(exists) {
            return Err(format!("the date of job {id} reserves {slots:?} of node {node_id}"));
        }
    }
    Ok(())
}

/// The time for which a job has a GPU by its date.
type Stay = (Timestamp, Timestamp, JobId);

fn check_apart(state: &State) -> Result<(), String> {
    let mut stays: BTreeMap<(NodeId, Slot), Vec<Stay>> = BTreeMap::new();
    for ((id, _), date) in state.dates.iter() {
        let stay = (date.promise.at, date.promise.until, *id);
        for (node, slots) in &date.promise.on {
            for slot in slots {
                stays.entry((*node, *slot)).or_default().push(stay);
            }
        }
    }
    for ((node, slot), mut stays) in stays {
        stays.sort_unstable();
        for (one, next) in stays.iter().zip(stays.iter().skip(1)) {
            if next.0 < one.1 {
                let (one, next) = (one.2, next.2);
                return Err(format!(
                    "GPU {slot} of node {node} is reserved for jobs {one} and {next} at once"
                ));
            }
        }
    }
    Ok(())
}
