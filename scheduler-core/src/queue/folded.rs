//! The queue with one row an array.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::rows::{Row, row, rows};
use crate::explain::array_standing;
use crate::id::JobId;
use crate::plan::Links;
use crate::state::State;
use crate::unit::Timestamp;

/// Returns the queue as [`rows`] does, with one row for all tasks of an array: that of the first of them, under the
/// array's number. Arrays with tasks to come of which none waits come last.
#[must_use]
pub fn folded(state: &State, links: &Links, now: Timestamp) -> Vec<Row> {
    let mut seen: BTreeSet<JobId> = BTreeSet::new();
    let mut folded = Vec::new();
    for row in rows(state, links, now) {
        match row.task {
            None => folded.push(row),
            Some(task) if seen.insert(task.of) => folded.push(Row { job: task.of, ..row }),
            Some(_) => {}
        }
    }
    for (id, array) in state.arrays.iter().filter(|(id, _)| !seen.contains(*id)) {
        if array.job.phase.is_ended() || array.rest() == 0 {
            continue;
        }
        if let Some(standing) = array_standing(state, *id, array, now) {
            folded.push(Row { since: standing.since, ..row(*id, &array.job, standing.reason) });
        }
    }
    folded
}
