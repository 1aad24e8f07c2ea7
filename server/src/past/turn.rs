//! Turns at the history: few read at once, and nobody reads what is not written yet.

use std::time::Duration;

use scheduler_core::command::{Code, Rejection};
use scheduler_core::id::LogIndex;
use tokio::sync::SemaphorePermit;
use tonic::Status;

use crate::refusal;
use crate::shared::Shared;

/// Pages of the history that are read at once: the log's disk has other things to do.
pub const READERS: usize = 2;
/// How long to wait for a turn, and until the history has what state has.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits for a turn to read one page.
pub async fn turn(shared: &Shared) -> Result<SemaphorePermit<'_>, Status> {
    let turn = tokio::time::timeout(PATIENCE, shared.history_reads.acquire()).await;
    let turn = turn.map_err(|_| later("the history is being read by as many as it takes at once"))?;
    turn.map_err(|_| refusal::no_leader())
}

/// Waits until the history can be read up to an index, which is soon after it was applied.
///
/// # Errors
/// When that takes long: its disk is slow or full.
pub async fn settle(shared: &Shared, index: LogIndex) -> Result<(), Status> {
    if shared.history.settle(index, PATIENCE).await {
        return Ok(());
    }
    Err(later("the history of this replica is behind: its disk is slow"))
}

fn later(what: &str) -> Status {
    let rejection =
        Rejection::new(Code::Full, what.to_owned(), "nothing was done", "try again in a moment".to_owned());
    refusal::try_again(&rejection, Duration::from_millis(500))
}
