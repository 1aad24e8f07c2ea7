//! Logs of jobs, read over the links of the nodes that have them.

use std::time::Duration;

use proto::v1;
use scheduler_core::id::NodeId;
use tokio::sync::oneshot;

use crate::shared::Shared;

/// An agent that does not answer a log request within this time has not answered.
pub const LOG_PATIENCE: Duration = Duration::from_secs(5);

/// Reads a part of a log through whichever replica has the node's link: `None` if none has, or the agent does not
/// answer in time.
pub async fn read_log(shared: &Shared, node: NodeId, request: v1::LogRequest) -> Option<v1::LogChunk> {
    if let Some(chunk) = local(shared, node, request.clone()).await {
        return Some(chunk);
    }
    let leader = shared.standing().leader?;
    if leader.id.get() == shared.replica().get() {
        return None;
    }
    let mut client = shared.peers.at(&leader.peer_addr)?;
    let call = client.read_log(v1::PeerLogRequest { node: node.get(), request: Some(request) });
    tokio::time::timeout(LOG_PATIENCE, call).await.ok()?.ok()?.into_inner().chunk
}

/// Reads a part of a log over a link of this replica.
pub async fn local(shared: &Shared, node: NodeId, request: v1::LogRequest) -> Option<v1::LogChunk> {
    let link = shared.links.get(node)?;
    let (answer, answered) = oneshot::channel();
    link.asks.try_send((request, answer)).ok()?;
    tokio::time::timeout(LOG_PATIENCE, answered).await.ok()?.ok()
}
