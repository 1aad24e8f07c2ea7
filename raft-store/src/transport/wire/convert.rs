//! From messages to the library's types and back.

use openraft::alias::{LogIdOf, VoteOf};
use openraft::raft::{
    self, AppendEntriesRequest, StreamAppendError, StreamAppendResult, TransferLeaderError,
    TransferLeaderRequest,
};
use prost::bytes::Bytes;
use tonic::Status;

use super::{
    Address, AppendReply, AppendRequest, LogNotFlushed, Matched, Position, TransferReply, TransferRequest,
    Vote, VoteReply, VoteRequest, append_reply, transfer_reply,
};
use crate::raft::types::{self, C};
use crate::record;
use crate::standing::{Held, Known};
use crate::transport::{VERSION_MAX, VERSION_MIN};
use crate::{ClusterId, ReplicaId};

/// A message that cannot be what its sender meant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bad(pub(crate) &'static str);

impl From<Bad> for Status {
    fn from(bad: Bad) -> Self {
        Self::invalid_argument(bad.0)
    }
}

/// Who sends and who is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parties {
    pub(crate) cluster: ClusterId,
    pub(crate) from: ReplicaId,
    pub(crate) to: ReplicaId,
}

impl Parties {
    /// Returns the address to send.
    pub(crate) fn address(self) -> Option<Address> {
        Some(Address {
            cluster: Bytes::copy_from_slice(&self.cluster.get()),
            from: self.from.get(),
            to: self.to.get(),
            version: VERSION_MAX,
        })
    }

    /// Reads an address, refusing versions that this code does not speak.
    pub(crate) fn read(address: Option<&Address>) -> Result<Self, Status> {
        let address = address.ok_or(Bad("the request does not say whom it is for"))?;
        if !(VERSION_MIN..=VERSION_MAX).contains(&address.version) {
            return Err(Status::failed_precondition(format!(
                "protocol version {} is not spoken here, only {VERSION_MIN} to {VERSION_MAX}",
                address.version
            )));
        }
        let cluster: [u8; 16] =
            address.cluster.as_ref().try_into().map_err(|_| Bad("a cluster id has sixteen bytes"))?;
        Ok(Self {
            cluster: ClusterId::new(cluster),
            from: ReplicaId::new(address.from),
            to: ReplicaId::new(address.to),
        })
    }
}

// Functions, since an implementation of a trait would show the library's types where these messages are seen.

fn position(id: LogIdOf<C>) -> Position {
    let at = types::position(id);
    Position { term: at.term, index: at.index }
}

fn log_id(at: Position) -> LogIdOf<C> {
    types::log_id(record::Position { term: at.term, index: at.index })
}

/// Turns what a replica holds into its message.
pub(crate) fn to_held(held: Held) -> super::Held {
    let position = |at: record::Position| Position { term: at.term, index: at.index };
    super::Held { term: held.term, last: held.last.map(position), led: 0 }
}

/// Turns what a replica knows of another into its message.
pub(crate) fn to_known(known: Known) -> super::Held {
    super::Held { led: known.led.unwrap_or(0), ..to_held(known.held) }
}

/// Turns a message into what another replica knows.
pub(crate) fn from_known(known: Option<super::Held>) -> Known {
    let led = known.as_ref().map(|known| known.led).filter(|led| *led != 0);
    Known { held: from_held(known), led }
}

/// Turns a message into what a replica holds.
pub(crate) fn from_held(held: Option<super::Held>) -> Held {
    let position = |at: Position| record::Position { term: at.term, index: at.index };
    held.map_or_else(Held::default, |held| Held { term: held.term, last: held.last.map(position) })
}

/// Turns a vote into its message.
pub(crate) fn to_vote(vote: &VoteOf<C>) -> Vote {
    let record = types::vote_record(vote);
    Vote { term: record.term, voted_for: record.voted_for, committed: record.committed }
}

/// Turns a message into the vote that it carries.
pub(crate) fn from_vote(vote: Vote) -> VoteOf<C> {
    types::vote(record::Vote { term: vote.term, voted_for: vote.voted_for, committed: vote.committed })
}

fn required(vote: Option<Vote>) -> Result<VoteOf<C>, Bad> {
    vote.map(from_vote).ok_or(Bad("the message lacks a vote"))
}

impl VoteRequest {
    pub(crate) fn new(parties: Parties, request: &raft::VoteRequest<C>) -> Self {
        Self {
            address: parties.address(),
            vote: Some(to_vote(&request.vote)),
            last_log: request.last_log_id.map(position),
            leadership_transfer: request.leadership_transfer,
        }
    }
}

impl TryFrom<VoteRequest> for raft::VoteRequest<C> {
    type Error = Bad;

    fn try_from(message: VoteRequest) -> Result<Self, Bad> {
        let mut request = Self::new(required(message.vote)?, message.last_log.map(log_id));
        request.leadership_transfer = message.leadership_transfer;
        Ok(request)
    }
}

impl From<raft::VoteResponse<C>> for VoteReply {
    fn from(reply: raft::VoteResponse<C>) -> Self {
        Self {
            vote: Some(to_vote(&reply.vote)),
            granted: reply.vote_granted,
            last_log: reply.last_log_id.map(position),
        }
    }
}

impl TryFrom<VoteReply> for raft::VoteResponse<C> {
    type Error = Bad;

    fn try_from(message: VoteReply) -> Result<Self, Bad> {
        Ok(Self::new(required(message.vote)?, message.last_log.map(log_id), message.granted))
    }
}

impl AppendRequest {
    pub(crate) fn new(parties: Parties, request: AppendEntriesRequest<C>) -> Self {
        let entries: Vec<_> = request.entries.into_iter().map(types::entry_record).collect();
        Self {
            address: parties.address(),
            vote: Some(to_vote(&request.vote)),
            previous: request.prev_log_id.map(position),
            leader_commit: request.leader_commit.map(position),
            entries: if entries.is_empty() { Bytes::new() } else { record::seal_batch(&entries).into() },
        }
    }
}

impl TryFrom<AppendRequest> for AppendEntriesRequest<C> {
    type Error = Bad;

    fn try_from(message: AppendRequest) -> Result<Self, Bad> {
        let damaged = Bad("the entries did not arrive as they were sent");
        let records = if message.entries.is_empty() {
            Vec::new()
        } else {
            record::open_batch(&message.entries).map_err(|_| damaged)?
        };
        let entries = records.into_iter().map(types::entry).collect::<Result<_, _>>().map_err(|_| damaged)?;
        Ok(Self {
            vote: required(message.vote)?,
            prev_log_id: message.previous.map(log_id),
            entries,
            leader_commit: message.leader_commit.map(log_id),
        })
    }
}

impl From<StreamAppendResult<C>> for AppendReply {
    fn from(result: StreamAppendResult<C>) -> Self {
        let outcome = match result {
            Ok(upto) => append_reply::Outcome::Matched(Matched { upto: upto.map(position) }),
            Err(StreamAppendError::Conflict(at)) => append_reply::Outcome::Conflict(position(at)),
            Err(StreamAppendError::HigherVote(vote)) => append_reply::Outcome::HigherVote(to_vote(&vote)),
        };
        Self { outcome: Some(outcome) }
    }
}

impl TryFrom<AppendReply> for StreamAppendResult<C> {
    type Error = Bad;

    fn try_from(message: AppendReply) -> Result<Self, Bad> {
        Ok(match message.outcome.ok_or(Bad("the answer to an append is empty"))? {
            append_reply::Outcome::Matched(matched) => Ok(matched.upto.map(log_id)),
            append_reply::Outcome::Conflict(at) => Err(StreamAppendError::Conflict(log_id(at))),
            append_reply::Outcome::HigherVote(vote) => Err(StreamAppendError::HigherVote(from_vote(vote))),
        })
    }
}

impl TransferRequest {
    pub(crate) fn new(parties: Parties, request: &TransferLeaderRequest<C>) -> Self {
        Self {
            address: parties.address(),
            from_leader: Some(to_vote(request.from_leader())),
            last_log: request.last_log_id().copied().map(position),
            to: *request.to_node_id(),
        }
    }
}

impl TryFrom<TransferRequest> for TransferLeaderRequest<C> {
    type Error = Bad;

    fn try_from(message: TransferRequest) -> Result<Self, Bad> {
        Ok(Self::new(required(message.from_leader)?, message.to, message.last_log.map(log_id)))
    }
}

impl From<Result<(), TransferLeaderError<C>>> for TransferReply {
    fn from(result: Result<(), TransferLeaderError<C>>) -> Self {
        let refused = result.err().map(|error| match error {
            TransferLeaderError::VoteChanged { actual, .. } => {
                transfer_reply::Refused::VoteChanged(to_vote(&actual))
            }
            TransferLeaderError::LogNotFlushed { expected, actual } => {
                transfer_reply::Refused::LogNotFlushed(LogNotFlushed {
                    expected: expected.map(position),
                    actual: actual.map(position),
                })
            }
        });
        Self { refused }
    }
}

impl TransferReply {
    /// Turns the answer into the library's; `from` is the vote that was sent.
    pub(crate) fn into_result(self, from: VoteOf<C>) -> Result<(), TransferLeaderError<C>> {
        match self.refused {
            None => Ok(()),
            Some(transfer_reply::Refused::VoteChanged(actual)) => {
                Err(TransferLeaderError::VoteChanged { expected: from, actual: from_vote(actual) })
            }
            Some(transfer_reply::Refused::LogNotFlushed(not)) => Err(TransferLeaderError::LogNotFlushed {
                expected: not.expected.map(log_id),
                actual: not.actual.map(log_id),
            }),
        }
    }
}
