//! Bills that left state.

use std::time::Duration;

use proto::state::v1::record::Record as Kept;
use proto::{snapshot, v1};
use scheduler_core::unit::Timestamp;
use tonic::Status;

use super::Walk;
use crate::history::{Direction, Query, Wants};
use crate::shared::{Read, Shared};

/// A bill is one answer, not a page: it may look longer.
const RECORDS: usize = 500_000;
const TIME: Duration = Duration::from_secs(15);

/// Puts the bills that left state since a moment back into a clone of it, and says from when on they are complete.
///
/// # Errors
/// When the history cannot be read.
pub async fn put_back(shared: &Shared, read: &Read, since: Timestamp) -> Result<(Read, v1::Reach), Status> {
    let mut state = read.view.state.clone();
    let query = Query {
        through: read.view.index,
        // No bill leaves before the end of the attempt that it is for.
        from_time: since,
        direction: Direction::Backward,
        ..Query::all(Wants { bills: true, ..Wants::default() })
    };
    let mut walk = Walk::new(shared, read.view.index, query).within(RECORDS, TIME);
    while let Some(records) = walk.page().await? {
        for kept in records.into_iter().flat_map(|record| record.left).filter_map(|kept| kept.record) {
            let Kept::Bill(kept) = kept else { continue };
            let (key, bill) = snapshot::read_bill_record(kept).map_err(|cause| super::unreadable(&cause))?;
            if !state.bills.contains(&key) {
                state.bills.insert(key, bill);
            }
        }
    }
    let reach = walk.reach(Some(since.as_millis()), state.meta.time.as_millis()).await?;
    Ok((super::with(read, state), reach))
}
