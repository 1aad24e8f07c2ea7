//! What other replicas ask: take a write, read a log, say how you stand. The listener checked that they are replicas.

use proto::v1;
use proto::v1::forward_reply::Reply;
use proto::v1::peer_server::Peer;
use proto::{Wire as _, decode_entry};
use scheduler_core::id::NodeId;
use tonic::{Request, Response, Status};

use super::{Api, cluster, members};
use crate::history;
use crate::limits::Counted;
use crate::links;
use crate::refusal;
use crate::time;
use crate::write::{self, Tried};

#[tonic::async_trait]
impl Peer for Api {
    async fn forward(
        &self,
        asked: Request<v1::ForwardRequest>,
    ) -> Result<Response<v1::ForwardReply>, Status> {
        let mut place = self.shared.calls.enter()?;
        place.count_for(Counted::Peer)?;
        let entry = decode_entry(&asked.into_inner().entry).map_err(|cause| refusal::bad(&cause))?;
        let reply = match write::here(&self.shared, entry).await {
            Tried::Applied(index, answer) => {
                let answer = proto::encode_answer(&answer);
                Reply::Applied(v1::Applied { answer, index: index.get() })
            }
            Tried::Refused(rejection) => Reply::Refused(rejection.to_wire()),
            Tried::Elsewhere(leader) => {
                Reply::NotLeading(v1::NotLeading { leader_peer: leader.map(|leader| leader.peer_addr) })
            }
        };
        Ok(Response::new(v1::ForwardReply { reply: Some(reply) }))
    }

    async fn read_log(
        &self,
        asked: Request<v1::PeerLogRequest>,
    ) -> Result<Response<v1::PeerLogReply>, Status> {
        let mut place = self.shared.calls.enter()?;
        place.count_for(Counted::Peer)?;
        let asked = asked.into_inner();
        let request = asked.request.ok_or_else(|| refusal::missing("request"))?;
        let chunk = links::local(&self.shared, NodeId::new(asked.node), request).await;
        Ok(Response::new(v1::PeerLogReply { chunk }))
    }

    async fn standing(&self, _: Request<v1::StandingRequest>) -> Result<Response<v1::StandingReply>, Status> {
        Ok(Response::new(cluster::standing(&self.shared)))
    }

    async fn history_coverage(
        &self,
        _: Request<v1::HistoryCoverageRequest>,
    ) -> Result<Response<v1::HistoryCoverageReply>, Status> {
        Ok(Response::new(history::serve_coverage(&self.shared.history)))
    }

    async fn fetch_history(
        &self,
        asked: Request<v1::FetchHistoryRequest>,
    ) -> Result<Response<v1::FetchHistoryReply>, Status> {
        let mut place = self.shared.calls.enter()?;
        place.count_for(Counted::Peer)?;
        let (history, asked) = (self.shared.history.clone(), asked.into_inner());
        let reading = tokio::task::spawn_blocking(move || history::serve_fetch(&history, &asked)).await;
        Ok(Response::new(reading.map_err(|_| refusal::no_leader())??))
    }

    async fn read_history(
        &self,
        asked: Request<v1::HistoryQuery>,
    ) -> Result<Response<v1::HistoryPage>, Status> {
        let mut place = self.shared.calls.enter()?;
        place.count_for(Counted::Peer)?;
        let (history, asked) = (self.shared.history.clone(), asked.into_inner());
        let reading = tokio::task::spawn_blocking(move || history::serve_read(&history, &asked)).await;
        Ok(Response::new(reading.map_err(|_| refusal::no_leader())??))
    }

    async fn clocks(&self, asked: Request<v1::ClocksRequest>) -> Result<Response<v1::ClocksReply>, Status> {
        Ok(Response::new(time::standing(&self.shared, asked.into_inner().with_claims)))
    }

    async fn transfer_leader(
        &self,
        asked: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::TransferLeaderReply>, Status> {
        leads(self)?;
        members::transfer_here(&self.shared, asked.into_inner()).await.map(Response::new)
    }

    async fn add_members(
        &self,
        asked: Request<v1::AddMembersRequest>,
    ) -> Result<Response<v1::MembersView>, Status> {
        leads(self)?;
        members::add_here(&self.shared, asked.into_inner()).await.map(Response::new)
    }

    async fn remove_member(
        &self,
        asked: Request<v1::RemoveMemberRequest>,
    ) -> Result<Response<v1::RemoveMemberReply>, Status> {
        leads(self)?;
        members::remove_here(&self.shared, asked.into_inner()).await.map(Response::new)
    }
}

/// Refuses what only the leader does, if this replica is none (any more).
fn leads(api: &Api) -> Result<(), Status> {
    if api.shared.standing().is_leader() { Ok(()) } else { Err(refusal::no_leader()) }
}
