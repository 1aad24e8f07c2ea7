//! What agents ask: to join, for their link, for what a job starts with.

use std::sync::Arc;

use proto::v1;
use proto::v1::agent_link_server::AgentLink;
use scheduler_core::command::{Command, Join, Outcome};
use scheduler_core::id::{JobId, Label, NodeId, SpecHash};
use scheduler_core::job::Job;
use scheduler_core::principal::Actor;
use scheduler_core::state::State;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::{Api, Replies, name, principals};
use crate::auth;
use crate::links;
use crate::refusal;
use crate::shared;
use crate::write::write;

/// Messages on their way to an agent.
const BUFFER: usize = 8;

#[tonic::async_trait]
impl AgentLink for Api {
    type LinkStream = Replies<v1::ServerMessage>;

    async fn join(&self, asked: Request<v1::JoinRequest>) -> Result<Response<v1::JoinReply>, Status> {
        let shared = &self.shared;
        let _place = shared.calls.enter()?;
        let deadline = shared::deadline(&asked, shared.config.write_patience());
        let message = asked.into_inner();
        let bad = |field, what: &str| refusal::bad(&proto::Error::bad(field, what));
        let command = Command::Join(Join {
            token: auth::hash(message.token.trim()),
            name: name("name", &message.name)?,
            machine: Label::new(&message.machine).map_err(|_| bad("machine", "it is no machine id"))?,
            credential: principals::token("credential_hash", &message.credential_hash)?,
        });
        // The one-time token is the right; `apply` answers a repetition with the same credential as the first time.
        let written = write(shared, Actor::Replica(shared.replica()), None, command, deadline).await?;
        let Outcome::Joined { node } = written.outcome else { return Err(refusal::strange_answer()) };
        let read = shared.after(written.index).await?;
        let meta = &read.view.state.meta;
        Ok(Response::new(v1::JoinReply {
            node: node.get(),
            cluster: meta.cluster.map(|cluster| cluster.as_bytes().to_vec()).unwrap_or_default(),
            epoch: meta.epoch.get(),
        }))
    }

    async fn link(
        &self,
        asked: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::LinkStream>, Status> {
        // Its place as a call is given back at once: links are bounded by nodes.
        let (node, _) = self.shared.admit_agent(asked.metadata()).await?;
        let (out, messages) = mpsc::channel(BUFFER);
        let shared = Arc::clone(&self.shared);
        tokio::spawn(links::serve(shared, node, asked.into_inner(), out));
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }

    async fn fetch_launch(
        &self,
        asked: Request<v1::FetchLaunchRequest>,
    ) -> Result<Response<v1::FetchLaunchReply>, Status> {
        let shared = &self.shared;
        let (node, _place) = shared.admit_agent(asked.metadata()).await?;
        let hash = SpecHash::from_slice(&asked.into_inner().hash);
        let hash = hash.ok_or_else(|| refusal::bad(&proto::Error::bad("hash", "it is 32 bytes")))?;
        if let Some(launch) = launch_of(&shared.views.now().state, node, hash) {
            return Ok(Response::new(v1::FetchLaunchReply { launch }));
        }
        // This replica may be behind the placement.
        let read = shared.newest().await?;
        match launch_of(&read.view.state, node, hash) {
            Some(launch) => Ok(Response::new(v1::FetchLaunchReply { launch })),
            None => Err(refusal::not_found(format!("no job of this node has the launch {hash}"))),
        }
    }
}

/// Returns a launch if it belongs to a job that has, or had, an attempt on the node: the environments of other nodes'
/// jobs are none of its business.
fn launch_of(state: &State, node: NodeId, hash: SpecHash) -> Option<Vec<u8>> {
    let is_of = |job: JobId| state.jobs.get(&job).is_some_and(|job| job.launch == hash);
    let gpus = state.nodes.get(&node)?.gpus.iter();
    let mut here = gpus.flat_map(|gpu| [gpu.holder, gpu.next]).flatten();
    let is_here = here.any(|attempt| is_of(attempt.job));
    let was_here = |job: &Job| job.launch == hash && job.past.iter().any(|past| past.nodes.contains(&node));
    if !is_here && !state.jobs.values().any(was_here) {
        return None;
    }
    state.launches.get(&hash).map(|launch| launch.bytes.to_vec())
}
