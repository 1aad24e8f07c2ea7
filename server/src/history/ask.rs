//! Reads for callers of this replica: from here, and where something is missing here, from a peer that has it.

use std::time::Duration;

use proto::v1;
use scheduler_core::id::{JobId, LogIndex};
use tonic::Status;

use super::query::{Direction, Page, Query, Wants};
use super::record::Gone;
use super::serve::failed;
use super::shape::Range;
use crate::clock::Deadline;
use crate::peers::Client;
use crate::refusal;
use crate::shared::Shared;

/// How long what was just applied may take until it can be read.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a part that is missing here is looked for at the others.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one of them may take for a page.
const ONE: Duration = Duration::from_secs(3);
/// Between two rounds of asking.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns a page of history up to the index `seen`, which the caller's state has. What is missing here is read from a
/// peer; a page with a hole says that nobody who answers has that part.
///
/// # Errors
/// When this replica stops, or its disk fails.
pub async fn read(shared: &Shared, seen: LogIndex, query: Query) -> Result<Page, Status> {
    if !shared.history.settle(seen, SETTLE).await {
        tracing::warn!(index = %seen, "history is read before it has all that was applied");
    }
    let deadline = Deadline::after(PATIENCE);
    loop {
        let page = here(shared, query).await?;
        let Some(hole) = page.hole else { return Ok(page) };
        match from_peers(shared, &query, hole).await {
            Asked::Found(page) => return Ok(page),
            Asked::Nowhere => return Ok(page),
            Asked::Unknown if deadline.is_over() => return Ok(page),
            // A replica that has just started may not know the others yet, or they are about to answer.
            Asked::Unknown => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// What the other replicas say about a part that is missing here.
enum Asked {
    Found(Page),
    /// All of them answered, and none has it.
    Nowhere,
    /// Somebody did not answer, or who they are is not known.
    Unknown,
}

async fn here(shared: &Shared, query: Query) -> Result<Page, Status> {
    let history = shared.history.clone();
    let reading = tokio::task::spawn_blocking(move || history.read(&query)).await;
    reading.map_err(|_| refusal::no_leader())?.map_err(|cause| failed(&cause))
}

/// Asks the other replicas for the part that is missing here. What lies behind the hole is read here again.
async fn from_peers(shared: &Shared, query: &Query, hole: Range) -> Asked {
    let is_forward = query.direction == Direction::Forward;
    let from = query.from.get().max(hole.from);
    let through = query.through.get().min(hole.through);
    let within = Query { from: LogIndex::new(from), through: LogIndex::new(through), ..*query };
    let Some(peers) = others(shared) else { return Asked::Unknown };
    let mut has_all_answered = true;
    for mut peer in peers {
        let call = peer.read_history(within.to_wire());
        let Ok(Ok(reply)) = tokio::time::timeout(ONE, call).await else {
            has_all_answered = false;
            continue;
        };
        let reply = reply.into_inner();
        if reply.hole.is_some() {
            continue;
        }
        let behind = if is_forward { hole.through.checked_add(1) } else { hole.from.checked_sub(1) };
        let behind = behind.filter(|next| query.from.get() <= *next && *next <= query.through.get());
        let next = reply.next.or(behind).map(LogIndex::new);
        return Asked::Found(Page { records: reply.records, next, hole: None });
    }
    if has_all_answered { Asked::Nowhere } else { Asked::Unknown }
}

/// Returns clients of the other replicas; none while it is not known who they are.
pub(super) fn others(shared: &Shared) -> Option<Vec<Client>> {
    let own = shared.replica().get();
    let standing = shared.standing();
    let is_known = standing.members.iter().any(|member| member.id.get() == own);
    let others = standing.members.iter().filter(|member| member.id.get() != own);
    is_known.then(|| others.filter_map(|member| shared.peers.at(&member.peer_addr)).collect())
}

/// Looks for a job that left state. Finds what is here, then asks peers if something is missing here that could have
/// it.
///
/// # Errors
/// When this replica stops, or its disk fails.
pub async fn job(shared: &Shared, seen: LogIndex, id: JobId) -> Result<Option<Gone>, Status> {
    let wants = Wants { jobs: true, bills: true, ..Wants::default() };
    let mut query = Query { job: Some(id), direction: Direction::Backward, ..Query::all(wants) };
    let mut records = Vec::new();
    loop {
        let page = read(shared, seen, query).await?;
        records.extend(page.records);
        match page.next {
            Some(next) => query = query.on_from(next),
            None => break,
        }
    }
    Gone::of(id, records).map_err(|cause| refusal::bad(&cause))
}

/// What a peer says it has.
pub(super) async fn coverage_of(peer: &mut Client) -> Option<v1::HistoryCoverageReply> {
    let call = peer.history_coverage(v1::HistoryCoverageRequest {});
    Some(tokio::time::timeout(ONE, call).await.ok()?.ok()?.into_inner())
}
