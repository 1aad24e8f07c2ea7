//! Receiving: calls of other replicas.

use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{Fatal, RaftError};
use openraft::raft::AppendEntriesRequest;
use tokio::sync::oneshot;
use tonic::{Request, Response, Status, Streaming};

use super::wire::raft_server::Raft as Service;
use super::wire::{
    self, Address, AppendReply, AppendRequest, DismissReply, DismissRequest, HelloReply, HelloRequest,
    InviteReply, InviteRequest, Parties, ReadIndexReply, ReadIndexRequest, SnapshotHeader, SnapshotPart,
    SnapshotProgressReply, SnapshotReply, TransferReply, TransferRequest, VoteReply, VoteRequest, WhoisReply,
    WhoisRequest, from_held, from_known, snapshot_part, to_held, to_known,
};
use super::{VERSION_MAX, VERSION_MIN};
use crate::raft::types::{self, C};
use crate::raft::{Raft, state_machine};
use crate::replica::Inner;
use crate::snapshot::{Shape, SnapshotWriter, open_description};
use crate::{ReplicaId, Role};

/// Entries of other replicas are taken while no more than this waits for the disk.
const WAITING_BYTES: usize = 16 << 20;
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// A heartbeat is answered from what is known after this, if the disk is what holds the answer up.
const HEARTBEAT_PATIENCE: Duration = Duration::from_millis(10);

/// Answers other replicas.
#[derive(Clone)]
pub(crate) struct Handler {
    replica: Arc<Inner>,
}

impl Handler {
    pub(crate) fn new(replica: Arc<Inner>) -> Self {
        Self { replica }
    }

    /// Checks that the sender means this replica of this cluster, and has greeted it: one that lost something must not
    /// answer before it knows.
    fn admit(&self, address: Option<&Address>) -> Result<(Parties, Raft), Status> {
        let (parties, raft) = self.admit_stranger(address)?;
        if !self.replica.standing().has_met(parties.from) {
            return Err(Status::failed_precondition("this replica has started again: greet it first"));
        }
        Ok((parties, raft))
    }

    /// Checks that the sender means this replica of this cluster.
    fn admit_stranger(&self, address: Option<&Address>) -> Result<(Parties, Raft), Status> {
        let parties = Parties::read(address)?;
        let Some((identity, raft)) = self.replica.running() else {
            return Err(Status::unavailable("this replica is not a member of a cluster yet, or is stopping"));
        };
        if parties.cluster != identity.cluster {
            return Err(Status::failed_precondition(format!(
                "this replica belongs to cluster {}, the call is for {}",
                identity.cluster, parties.cluster
            )));
        }
        if parties.to != identity.replica {
            return Err(Status::failed_precondition(format!(
                "this is replica {}, the call is for {}",
                identity.replica, parties.to
            )));
        }
        Ok((parties, raft))
    }
}

fn fatal(error: &Fatal<C>) -> Status {
    Status::unavailable(format!("this replica has stopped: {error}"))
}

fn failed(error: &RaftError<C>) -> Status {
    Status::unavailable(format!("this replica has stopped: {error}"))
}

type Replies = Pin<Box<dyn Stream<Item = Result<AppendReply, Status>> + Send>>;

#[tonic::async_trait]
impl Service for Handler {
    async fn hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let hello = request.into_inner();
        let (parties, raft) = self.admit_stranger(hello.address.as_ref())?;
        let standing = self.replica.standing();
        // Vote and log are promises: who comes back with less than it had must not be counted on again.
        if let Some(what) = standing.lacks(parties.to, &from_known(hello.remembered)) {
            crate::fatal::forgotten(&format!("replica {} remembers more of it: {what}", parties.from));
        }
        standing.meets(parties.from);
        let known = standing.known(parties.from);
        if hello.held.is_some()
            && let Some(what) = from_held(hello.held).lacks(&known.held)
        {
            tracing::error!("replica {} came back with less than it had: {what}", parties.from);
        }
        let version = VERSION_MAX.min(hello.version_max);
        if version < VERSION_MIN.max(hello.version_min) {
            return Err(Status::failed_precondition(format!(
                "this replica speaks versions {VERSION_MIN} to {VERSION_MAX}, the caller {} to {}",
                hello.version_min, hello.version_max
            )));
        }
        let removed_by = removed_by(&raft, parties.from);
        Ok(Response::new(HelloReply { version, remembered: Some(to_known(known)), removed_by }))
    }

    async fn vote(&self, request: Request<VoteRequest>) -> Result<Response<VoteReply>, Status> {
        let message = request.into_inner();
        let (_, raft) = self.admit(message.address.as_ref())?;
        let reply = raft.vote(message.try_into()?).await.map_err(|error| failed(&error))?;
        Ok(Response::new(reply.into()))
    }

    async fn pre_vote(&self, request: Request<VoteRequest>) -> Result<Response<VoteReply>, Status> {
        let message = request.into_inner();
        let (_, raft) = self.admit(message.address.as_ref())?;
        let reply = raft.pre_vote(message.try_into()?).await.map_err(|error| failed(&error))?;
        Ok(Response::new(reply.into()))
    }

    async fn append(&self, request: Request<AppendRequest>) -> Result<Response<AppendReply>, Status> {
        let message = request.into_inner();
        let (_, raft) = self.admit(message.address.as_ref())?;
        let request: AppendEntriesRequest<C> = message.try_into()?;
        let previous = request.prev_log_id;
        let last = request.entries.last().map(|entry| entry.log_id).or(previous);
        let (is_heartbeat, vote) = (request.entries.is_empty(), types::vote_record(&request.vote));
        let mut taking = pin!(raft.append_entries(request));
        let reply = loop {
            match tokio::time::timeout(HEARTBEAT_PATIENCE, &mut taking).await {
                Ok(reply) => break reply.map_err(|error| failed(&error))?,
                // The consensus answers a heartbeat once all entries before it are on disk. A leader that hears
                // nothing meanwhile falls silent after its lease, and a slow disk ends in an election that helps
                // nobody. What a heartbeat asks is whether this replica follows, and that does not hang on entries.
                Err(_) if is_heartbeat && self.replica.follows_while_disk_is_busy(vote) => {
                    return Ok(Response::new(Ok(previous).into()));
                }
                Err(_) => {}
            }
        };
        Ok(Response::new(reply.into_stream_result(previous, last).into()))
    }

    type AppendStreamStream = Replies;

    async fn append_stream(
        &self,
        request: Request<Streaming<AppendRequest>>,
    ) -> Result<Response<Replies>, Status> {
        let Some((_, raft)) = self.replica.running() else {
            return Err(Status::unavailable("this replica is not a member of a cluster yet, or is stopping"));
        };
        // The library's stream carries requests only: what ends it early is told after its last answer.
        let fault = Arc::new(Mutex::new(None));
        let input = {
            let (handler, fault) = (self.clone(), Arc::clone(&fault));
            stream::unfold((request.into_inner(), handler, fault), async |(mut incoming, handler, fault)| {
                match handler.next_append(&mut incoming).await {
                    Ok(request) => request.map(|request| (request, (incoming, handler, fault))),
                    Err(status) => {
                        *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
                        None
                    }
                }
            })
        };
        // The library goes on waiting for requests after its last answer. While it does the call stays open, and
        // the leader's next stream waits for it: the requests end with the answers.
        let (alive, ended) = oneshot::channel::<()>();
        let replies = raft.stream_append(input.take_until(ended)).map(|result| match result {
            Ok(result) => Ok(result.into()),
            Err(error) => Err(fatal(&error)),
        });
        let last = stream::once(async move {
            drop(alive);
            fault.lock().unwrap_or_else(PoisonError::into_inner).take()
        });
        // An idle stream would hold up a server that waits for its calls to end.
        let mut status = self.replica.subscribe();
        let stopped = async move {
            // A gone sender means the same.
            let _ = status.wait_for(|status| status.role == Role::Stopped).await;
        };
        let replies = replies.take_until(Box::pin(stopped));
        let replies: Replies = Box::pin(replies.chain(last.filter_map(async |fault| fault.map(Err))));
        Ok(Response::new(replies))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<SnapshotPart>>,
    ) -> Result<Response<SnapshotReply>, Status> {
        let mut incoming = request.into_inner();
        let first = incoming.message().await?.and_then(|part| part.part);
        let Some(snapshot_part::Part::Header(header)) = first else {
            return Err(Status::invalid_argument("a snapshot starts with its header"));
        };
        let (_, raft) = self.admit(header.address.as_ref())?;
        let vote = header.vote.ok_or_else(|| Status::invalid_argument("the header lacks a vote"))?;
        let description = open_description(&header.description)
            .map_err(|error| Status::invalid_argument(format!("the snapshot's description: {error}")))?;
        let snapshots = self.replica.snapshots()?;
        let writer = {
            let (snapshots, description) = (snapshots.clone(), description.clone());
            blocking(move || snapshots.receive(&description)).await?
        };
        if writer.chunks() != header.from_chunk {
            return Err(Status::aborted(format!(
                "{} chunks of the snapshot are here, it was sent from {}",
                writer.chunks(),
                header.from_chunk
            )));
        }
        let (shape, staged) = receive_chunks(incoming, writer).await?;
        let promised =
            Shape { chunks: description.chunks, bytes: description.bytes, digest: description.digest };
        if shape != promised {
            // A cut stream leaves less than was promised and is gone on with; what differs is of no use.
            if shape.chunks >= promised.chunks {
                let snapshots = snapshots.clone();
                blocking(move || snapshots.abandon()).await?;
            }
            return Err(Status::aborted("the snapshot did not arrive as it was sent"));
        }
        // It gets its name when it is installed: an outdated leader's never does.
        let handle = snapshots.hold(&staged, description);
        drop(staged);
        let snapshot = state_machine::to_snapshot(handle).map_err(|cause| storage(&cause))?;
        let reply = raft
            .install_full_snapshot(wire::from_vote(vote), snapshot)
            .await
            .map_err(|error| fatal(&error))?;
        Ok(Response::new(SnapshotReply { vote: Some(wire::to_vote(&reply.vote)) }))
    }

    async fn snapshot_progress(
        &self,
        request: Request<SnapshotHeader>,
    ) -> Result<Response<SnapshotProgressReply>, Status> {
        let header = request.into_inner();
        self.admit(header.address.as_ref())?;
        let description = open_description(&header.description)
            .map_err(|error| Status::invalid_argument(format!("the snapshot's description: {error}")))?;
        let snapshots = self.replica.snapshots()?;
        let chunks = blocking(move || snapshots.receive(&description).map(|writer| writer.chunks())).await?;
        Ok(Response::new(SnapshotProgressReply { chunks }))
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferRequest>,
    ) -> Result<Response<TransferReply>, Status> {
        let message = request.into_inner();
        let (_, raft) = self.admit(message.address.as_ref())?;
        let reply = raft.handle_transfer_leader(message.try_into()?).await.map_err(|error| fatal(&error))?;
        Ok(Response::new(reply.into()))
    }

    async fn read_index(
        &self,
        request: Request<ReadIndexRequest>,
    ) -> Result<Response<ReadIndexReply>, Status> {
        let (_, raft) = self.admit(request.into_inner().address.as_ref())?;
        let index = crate::replica::confirm_leadership(&raft)
            .await
            .map_err(|error| Status::failed_precondition(error.to_string()))?;
        Ok(Response::new(ReadIndexReply { index }))
    }

    async fn invite(&self, request: Request<InviteRequest>) -> Result<Response<InviteReply>, Status> {
        let parties = Parties::read(request.into_inner().address.as_ref())?;
        self.replica
            .accept(parties.cluster, parties.to)
            .await
            .map_err(|error| Status::failed_precondition(wire::chain(&error)))?;
        Ok(Response::new(InviteReply {}))
    }

    async fn whois(&self, _: Request<WhoisRequest>) -> Result<Response<WhoisReply>, Status> {
        let identity = self.replica.running().map(|(identity, _)| identity);
        // One that is stopping still belongs where it belonged.
        if identity.is_none() && self.replica.subscribe().borrow().role != Role::Uninitialised {
            return Err(Status::unavailable("this replica is stopping"));
        }
        Ok(Response::new(WhoisReply {
            cluster: identity.map_or_else(Vec::new, |own| own.cluster.get().to_vec()).into(),
            replica: identity.map_or(0, |own| own.replica.get()),
            held: self.replica.standing().own().map(to_held),
        }))
    }

    async fn dismiss(&self, request: Request<DismissRequest>) -> Result<Response<DismissReply>, Status> {
        let message = request.into_inner();
        self.admit_stranger(message.address.as_ref())?;
        self.replica.standing().is_removed_by(message.removed_by);
        Ok(Response::new(DismissReply {}))
    }
}

/// Returns the entry of the newest committed members, if a replica is none of them; else 0. Numbers are never given
/// again: one that is missing in a newer list than one it was on is gone for ever.
fn removed_by(raft: &Raft, id: ReplicaId) -> u64 {
    let metrics = raft.server_metrics();
    let now = metrics.borrow_watched();
    let members = &now.committed_membership_config;
    let is_member = members.membership().get_node(&id.get()).is_some();
    members.log_id().filter(|_| !is_member).map_or(0, |at| at.index)
}

impl Handler {
    async fn next_append(
        &self,
        incoming: &mut Streaming<AppendRequest>,
    ) -> Result<Option<AppendEntriesRequest<C>>, Status> {
        // A disk that stands still must not fill the memory: the sender is held up instead.
        while self.replica.waiting_bytes() > WAITING_BYTES {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let Some(message) = incoming.message().await? else { return Ok(None) };
        self.admit(message.address.as_ref())?;
        Ok(Some(message.try_into()?))
    }
}

/// Takes the chunks as they come. Nothing is kept in memory.
async fn receive_chunks(
    mut incoming: Streaming<SnapshotPart>,
    mut writer: SnapshotWriter,
) -> Result<(Shape, crate::snapshot::Staged), Status> {
    while let Some(part) = incoming.message().await? {
        let Some(snapshot_part::Part::Chunk(chunk)) = part.part else {
            return Err(Status::invalid_argument("a snapshot has one header"));
        };
        writer = blocking(move || writer.put_sealed(&chunk.envelope).map(|()| writer)).await?;
    }
    blocking(move || writer.finish()).await
}

/// Runs disk work off the runtime's workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Status> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) if cause.kind() == io::ErrorKind::InvalidData => {
            Err(Status::aborted(format!("the snapshot did not arrive as it was sent: {cause}")))
        }
        Ok(Err(cause)) if cause.kind() == io::ErrorKind::ResourceBusy => {
            Err(Status::aborted(cause.to_string()))
        }
        Ok(Err(cause)) => Err(storage(&cause)),
        Err(_) => Err(Status::internal("writing the snapshot failed")),
    }
}

fn storage(cause: &io::Error) -> Status {
    Status::internal(format!("failed to store the snapshot: {cause}"))
}
