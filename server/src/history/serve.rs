//! What other replicas ask of this one's history.

use proto::v1;
use scheduler_core::id::ClusterId;
use tonic::Status;

use super::error::Error;
use super::handle::History;
use super::pages;
use super::query::Query;
use super::shape::Range;

/// Bytes of a reply, about.
const REPLY: usize = 1 << 20;
/// Records of a page at most, whatever is asked.
const MOST: usize = 10_000;

/// Says what is here.
#[must_use]
pub fn coverage(history: &History) -> v1::HistoryCoverageReply {
    let coverage = history.coverage();
    v1::HistoryCoverageReply {
        cluster: coverage.cluster.map(|cluster| cluster.as_bytes().to_vec()).unwrap_or_default(),
        floor: coverage.floor,
        ranges: coverage.ranges.iter().map(|range| range.to_wire()).collect(),
    }
}

/// Returns a part as it is stored. Reads files.
///
/// # Errors
/// When the asker is of another control plane, or the disk fails.
pub fn fetch(history: &History, asked: &v1::FetchHistoryRequest) -> Result<v1::FetchHistoryReply, Status> {
    let inner = history.inner();
    let ours = inner.shape().cluster;
    if ClusterId::from_slice(&asked.cluster) != ours {
        return Err(Status::failed_precondition("history of another control plane was asked for"));
    }
    let range = Range::new(asked.from, asked.through);
    let skip = usize::try_from(asked.skip).unwrap_or(usize::MAX);
    let raw = pages::frames(inner, range, skip, REPLY).map_err(|cause| failed(&cause))?.unwrap_or_default();
    let digest = blake3::hash(&raw.frames).as_bytes().to_vec();
    Ok(v1::FetchHistoryReply { frames: raw.frames, through: raw.through, digest })
}

/// Returns a page. Reads files.
///
/// # Errors
/// When the disk fails.
pub fn read(history: &History, asked: &v1::HistoryQuery) -> Result<v1::HistoryPage, Status> {
    let mut query = Query::of_wire(asked);
    query.most = query.most.min(MOST);
    let page = history.read(&query).map_err(|cause| failed(&cause))?;
    Ok(v1::HistoryPage {
        records: page.records,
        next: page.next.map(|next| next.get()),
        hole: page.hole.map(Range::to_wire),
    })
}

pub(super) fn failed(cause: &Error) -> Status {
    tracing::error!(cause = cause.report(), "history could not be read");
    Status::internal(format!("history could not be read here: {cause}"))
}
