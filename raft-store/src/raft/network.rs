//! Sending: the library's calls to other replicas, over the transport.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use openraft::alias::{SnapshotOf, VoteOf};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use tokio::sync::{mpsc, oneshot};
use tonic::{Code, Request, Status};

use super::types::{self, C, Node};
use crate::snapshot::{Handle, seal_description};
use crate::standing::Standing;
use crate::transport::wire::{self, Parties, SnapshotChunk, SnapshotHeader, SnapshotPart, snapshot_part};
use crate::transport::{Client, Link, Links, Purpose};
use crate::{Identity, ReplicaId, Sending};

/// A peer that is away is tried again after this.
const BACKOFF: Duration = Duration::from_millis(100);
/// A replication stream may take so long to open; the library's own limit is that of a heartbeat.
const STREAM_SETUP: Duration = Duration::from_millis(500);
/// A heartbeat is given up after this at the latest.
const HEARTBEAT_LIMIT: Duration = Duration::from_millis(250);
/// A replication stream with unanswered requests may be silent so long before it is given up.
const STREAM_SILENCE: Duration = Duration::from_secs(2);

/// Makes the senders.
pub(crate) struct Network {
    identity: Identity,
    links: Arc<Links>,
}

impl Network {
    pub(crate) fn new(identity: Identity, links: Arc<Links>) -> Self {
        Self { identity, links }
    }

    fn peer(&self, target: u64, node: &Node, purpose: Purpose) -> Peer {
        let to = ReplicaId::new(target);
        Peer {
            parties: Parties { cluster: self.identity.cluster, from: self.identity.replica, to },
            bulk: self.links.get(to, &node.peer_addr, purpose),
            control: self.links.get(to, &node.peer_addr, Purpose::Control),
            purpose,
            standing: Arc::clone(self.links.standing()),
            links: Arc::clone(&self.links),
        }
    }
}

impl RaftNetworkFactory<C> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Node) -> Peer {
        self.peer(target, node, Purpose::Replication)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Node) -> Peer {
        self.peer(target, node, Purpose::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Node) -> Peer {
        self.peer(target, node, Purpose::Snapshot)
    }
}

/// One sender to one replica.
#[derive(Clone)]
pub(crate) struct Peer {
    parties: Parties,
    bulk: Result<Arc<Link>, Status>,
    control: Result<Arc<Link>, Status>,
    purpose: Purpose,
    standing: Arc<Standing>,
    links: Arc<Links>,
}

/// A replication stream: not opened before there is something to send.
enum Phase<S> {
    Idle(Peer, S, Duration),
    Open(Peer, Box<OpenStream>),
}

/// An open replication stream. Its requests end when it is dropped.
struct OpenStream {
    replies: tonic::Streaming<wire::AppendReply>,
    unanswered: Arc<AtomicU64>,
    term: u64,
    _alive: oneshot::Sender<()>,
}

impl Peer {
    /// Makes one call within its deadline.
    async fn call<T, F, Fut>(
        &self,
        link: &Result<Arc<Link>, Status>,
        (action, limit): (RPCTypes, Duration),
        send: F,
    ) -> Result<T, RPCError<C>>
    where
        F: FnOnce(Client, Duration) -> Fut,
        Fut: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let link = link.as_ref().map_err(|status| self.failure(action, limit, status))?;
        let call = async {
            let client = link.client(self.parties).await?;
            send(client, limit).await.map(tonic::Response::into_inner)
        };
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(status)) => {
                if status.code() == Code::DataLoss {
                    crate::fatal::forgotten(status.message());
                }
                link.failed(&status);
                Err(self.failure(action, limit, &status))
            }
            Err(_) => Err(self.timeout(action, limit)),
        }
    }

    /// Remembers what the other replica has acknowledged to the leader of `term`.
    fn remember(&self, term: u64, result: &StreamAppendResult<C>) {
        if let Ok(upto) = result {
            self.standing.acknowledged(self.parties.to, term, upto.map(types::position));
        }
    }

    fn timeout(&self, action: RPCTypes, timeout: Duration) -> RPCError<C> {
        let (id, target) = (self.parties.from.get(), self.parties.to.get());
        RPCError::Timeout(Timeout { action, id, target, timeout })
    }

    fn failure(&self, action: RPCTypes, limit: Duration, status: &Status) -> RPCError<C> {
        match status.code() {
            Code::DeadlineExceeded | Code::Cancelled => self.timeout(action, limit),
            Code::Aborted | Code::DataLoss | Code::InvalidArgument => {
                RPCError::Network(NetworkError::from_string(status))
            }
            // Not there, not yet a member, or not who was meant: no use in trying at once.
            _ => RPCError::Unreachable(Unreachable::from_string(status)),
        }
    }

    fn malformed(bad: wire::Bad) -> RPCError<C> {
        RPCError::Network(NetworkError::from_string(bad.0))
    }

    /// Opens a stream for a request and all that follow it.
    async fn open_stream<S>(
        &self,
        first: AppendEntriesRequest<C>,
        rest: S,
        setup: Duration,
    ) -> Result<OpenStream, RPCError<C>>
    where
        S: Stream<Item = AppendEntriesRequest<C>> + OptionalSend + Unpin + 'static,
    {
        let unanswered = Arc::new(AtomicU64::new(0));
        let (alive, ended) = oneshot::channel::<()>();
        let (parties, term) = (self.parties, first.vote.leader_id().term);
        let requests = {
            let unanswered = Arc::clone(&unanswered);
            stream::once(async { first }).chain(rest).map(move |request| {
                unanswered.fetch_add(1, Ordering::Relaxed);
                wire::AppendRequest::new(parties, request)
            })
        };
        // The library's next stream waits until this one's requests are let go of, so they end with the answers.
        let requests = requests.take_until(ended);
        let send = async |mut client: Client, _| client.append_stream(requests).await;
        let replies = self.call(&self.bulk, (RPCTypes::AppendEntries, setup), send).await?;
        Ok(OpenStream { replies, unanswered, term, _alive: alive })
    }

    /// Waits for the next answer of a stream. Silence is a fault only while something is unanswered.
    async fn next_reply(
        &self,
        replies: &mut tonic::Streaming<wire::AppendReply>,
        unanswered: &AtomicU64,
    ) -> Option<Result<StreamAppendResult<C>, RPCError<C>>> {
        let action = RPCTypes::AppendEntries;
        loop {
            return match tokio::time::timeout(STREAM_SILENCE, replies.message()).await {
                Ok(Ok(Some(message))) => {
                    unanswered.fetch_sub(1, Ordering::Relaxed);
                    Some(message.try_into().map_err(Self::malformed))
                }
                Ok(Ok(None)) => None,
                Ok(Err(status)) => {
                    if let Ok(link) = &self.bulk {
                        link.failed(&status);
                    }
                    Some(Err(self.failure(action, STREAM_SILENCE, &status)))
                }
                Err(_) if unanswered.load(Ordering::Relaxed) == 0 => continue,
                Err(_) => Some(Err(self.timeout(action, STREAM_SILENCE))),
            };
        }
    }

    async fn send_snapshot(
        &self,
        vote: &VoteOf<C>,
        snapshot: SnapshotOf<C, Handle>,
    ) -> Result<SnapshotResponse<C>, Status> {
        let link = self.bulk.as_ref().map_err(Clone::clone)?;
        let mut client = link.client(self.parties).await?;
        let mut header = SnapshotHeader {
            address: self.parties.address(),
            vote: Some(wire::to_vote(vote)),
            description: seal_description(snapshot.snapshot.description()).into(),
            from_chunk: 0,
        };
        header.from_chunk = match client.snapshot_progress(header.clone()).await {
            Ok(reply) => reply.into_inner().chunks,
            // A replica of a version before this call existed starts anew.
            Err(status) if status.code() == Code::Unimplemented => 0,
            Err(status) => {
                link.failed(&status);
                return Err(status);
            }
        };
        let (parts, queue) = mpsc::channel(8);
        // Reading is disk work; it ends early when the call does, since the queue is then closed.
        let (links, to) = (Arc::clone(&self.links), self.parties.to);
        let reading = tokio::task::spawn_blocking(move || {
            let note = |sent, of| links.sends(to, Some(Sending { sent, parts: of }));
            let read = read_parts(header, &snapshot.snapshot, &parts, note);
            links.sends(to, None);
            read
        });
        let queue = tokio_stream::wrappers::ReceiverStream::new(queue);
        let reply = client.snapshot(Request::new(queue)).await;
        if let Ok(Err(cause)) = reading.await {
            tracing::error!("failed to read a snapshot to send: {cause}");
        }
        let reply = reply.inspect_err(|status| link.failed(status))?.into_inner();
        let vote = reply.vote.ok_or_else(|| Status::aborted("the answer to a snapshot lacks a vote"))?;
        Ok(SnapshotResponse::new(wire::from_vote(vote)))
    }
}

/// Puts a snapshot's header and chunks into the queue of a call, until all are there or the call has ended.
fn read_parts(
    header: SnapshotHeader,
    snapshot: &Handle,
    queue: &mpsc::Sender<SnapshotPart>,
    note: impl Fn(u32, u32),
) -> std::io::Result<()> {
    let (first, end) = (header.from_chunk, snapshot.description().chunks);
    let part = SnapshotPart { part: Some(snapshot_part::Part::Header(header)) };
    let mut going = queue.blocking_send(part).is_ok();
    for at in first..end {
        if !going {
            return Ok(());
        }
        note(at, end);
        let chunk = SnapshotChunk { envelope: snapshot.chunk(at)?.into() };
        let part = SnapshotPart { part: Some(snapshot_part::Part::Chunk(chunk)) };
        going = queue.blocking_send(part).is_ok();
    }
    Ok(())
}

impl RaftNetworkV2<C> for Peer {
    type SnapshotData = Handle;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<C>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<C>, RPCError<C>> {
        let message = wire::AppendRequest::new(self.parties, rpc);
        let limit = option.soft_ttl();
        let peer = self.clone();
        // The library drops the call at its deadline. A late heartbeat still tells the follower that its leader is
        // there, so the call itself goes on for a while.
        let calling = tokio::spawn(async move {
            let action = (RPCTypes::AppendEntries, limit.max(HEARTBEAT_LIMIT));
            let send = async |mut client: Client, limit| client.append(within(limit, message)).await;
            peer.call(&peer.control, action, send).await
        });
        let reply = match tokio::time::timeout(limit, calling).await {
            Ok(Ok(reply)) => reply?,
            Ok(Err(_)) | Err(_) => return Err(self.timeout(RPCTypes::AppendEntries, limit)),
        };
        let result: StreamAppendResult<C> = reply.try_into().map_err(Self::malformed)?;
        Ok(match result {
            Ok(upto) => AppendEntriesResponse::PartialSuccess(upto),
            refused @ Err(_) => refused.into(),
        })
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<C>, RPCError<C>>>, RPCError<C>>>
    where
        S: Stream<Item = AppendEntriesRequest<C>> + OptionalSend + Unpin + 'static,
    {
        if self.purpose == Purpose::Control {
            return stream_append_sequential(self, input, option);
        }
        let setup = option.soft_ttl().max(STREAM_SETUP);
        let start = Some(Phase::Idle(self.clone(), input, setup));
        let replies: BoxStream<'s, _> = Box::pin(stream::unfold(start, async |phase| {
            let (peer, mut open) = match phase? {
                Phase::Open(peer, open) => (peer, open),
                // The library waits out its backoff in the input: connecting before there is a request would not
                // wait.
                Phase::Idle(peer, mut input, setup) => {
                    let first = input.next().await?;
                    match peer.open_stream(first, input, setup).await {
                        Ok(open) => (peer, Box::new(open)),
                        Err(error) => return Some((Err(error), None)),
                    }
                }
            };
            let reply = peer.next_reply(&mut open.replies, &open.unanswered).await?;
            if let Ok(result) = &reply {
                peer.remember(open.term, result);
            }
            let goes_on = matches!(reply, Ok(Ok(_)));
            Some((reply, goes_on.then_some(Phase::Open(peer, open))))
        }));
        Box::pin(async move { Ok(replies) })
    }

    async fn vote(&mut self, rpc: VoteRequest<C>, option: RPCOption) -> Result<VoteResponse<C>, RPCError<C>> {
        let message = wire::VoteRequest::new(self.parties, &rpc);
        let action = (RPCTypes::Vote, option.soft_ttl());
        let reply = self
            .call(&self.control, action, async |mut client, limit| client.vote(within(limit, message)).await)
            .await?;
        let reply: VoteResponse<C> = reply.try_into().map_err(Self::malformed)?;
        self.standing.voted(self.parties.to, reply.vote.leader_id().term);
        Ok(reply)
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<C>,
        option: RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        let message = wire::VoteRequest::new(self.parties, &rpc);
        let action = (RPCTypes::Vote, option.soft_ttl());
        let reply = self
            .call(&self.control, action, async |mut client, limit| {
                client.pre_vote(within(limit, message)).await
            })
            .await?;
        reply.try_into().map_err(Self::malformed)
    }

    async fn full_snapshot(
        &mut self,
        vote: VoteOf<C>,
        snapshot: SnapshotOf<C, Handle>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<C>, StreamingError<C>> {
        let limit = option.soft_ttl();
        let sending = pin!(tokio::time::timeout(limit, self.send_snapshot(&vote, snapshot)));
        let cancel = pin!(cancel);
        tokio::select! {
            closed = cancel => Err(closed.into()),
            sent = sending => match sent {
                Ok(Ok(reply)) => Ok(reply),
                Ok(Err(status)) => Err(self.failure(RPCTypes::InstallSnapshot, limit, &status).into()),
                Err(_) => Err(self.timeout(RPCTypes::InstallSnapshot, limit).into()),
            },
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<C>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<C>, RPCError<C>> {
        let message = wire::TransferRequest::new(self.parties, &req);
        let action = (RPCTypes::TransferLeader, option.soft_ttl());
        let reply = self
            .call(&self.control, action, async |mut client, limit| {
                client.transfer_leader(within(limit, message)).await
            })
            .await?;
        Ok(reply.into_result(*req.from_leader()))
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(BACKOFF)))
    }
}

/// Tells the other end how long the answer is waited for.
fn within<T>(limit: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}
