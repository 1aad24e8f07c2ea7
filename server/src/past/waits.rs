//! How long jobs waited that left state.

use std::time::Duration;

use proto::state::v1::record::Record as Kept;
use proto::{snapshot, v1};
use scheduler_core::report::{self, Wait};
use scheduler_core::unit::Timestamp;
use tonic::Status;

use super::Walk;
use crate::history::{Direction, Query, Wants};
use crate::shared::{Read, Shared};

/// It is one answer, not a page: it may look longer.
const RECORDS: usize = 500_000;
const TIME: Duration = Duration::from_secs(15);

/// Returns the waits of the jobs that left state since a moment, and from when on they are complete.
///
/// # Errors
/// When the history cannot be read.
pub async fn left_since(
    shared: &Shared,
    read: &Read,
    since: Timestamp,
) -> Result<(Vec<Wait>, v1::Reach), Status> {
    let state = &read.view.state;
    let query = Query {
        through: read.view.index,
        // Nothing leaves before it has started.
        from_time: since,
        direction: Direction::Backward,
        ..Query::all(Wants { jobs: true, ..Wants::default() })
    };
    let mut walk = Walk::new(shared, read.view.index, query).within(RECORDS, TIME);
    let mut found = Vec::new();
    while let Some(records) = walk.page().await? {
        for kept in records.into_iter().flat_map(|record| record.left).filter_map(|kept| kept.record) {
            let Kept::Job(kept) = kept else { continue };
            let (id, job) = snapshot::read_job_record(kept).map_err(|cause| super::unreadable(&cause))?;
            if !state.jobs.contains(&id) {
                found.extend(report::wait(state, id, &job, state.meta.time));
            }
        }
    }
    let reach = walk.reach(Some(since.as_millis()), state.meta.time.as_millis()).await?;
    Ok((found, reach))
}
