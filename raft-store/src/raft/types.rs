//! The library's type parameters, and conversions between its types and our records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use openraft::alias::{CommittedLeaderIdOf, EntryOf, LogIdOf, SnapshotMetaOf, StoredMembershipOf, VoteOf};
use openraft::{EntryPayload, LogId};
use serde::{Deserialize, Serialize};

use crate::config::Member;
use crate::envelope::Error;
use crate::identity::ReplicaId;
use crate::raft::state_machine::StateMachine;
use crate::record::{self, Blob, Body, Description, Entry, Position};
use crate::snapshot::Shape;

/// What is proposed: opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Command(pub(crate) Blob);

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// What the machine answered: opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Answer(pub(crate) Vec<u8>);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Where a replica is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) peer_addr: String,
    pub(crate) client_addr: String,
}

openraft::declare_raft_types!(
    /// The library's parameters. One leader a term, since the term fences what the machine does.
    pub(crate) TypeConfig:
        D = Command,
        R = Answer,
        NodeId = u64,
        Node = Node,
        Term = u64,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
        Vote = openraft::impls::Vote<Self::LeaderId>,
        AsyncRuntime = openraft::TokioRuntime,
);

pub(crate) type C = TypeConfig;
pub(crate) type Raft = openraft::Raft<C, StateMachine>;

impl Member {
    pub(crate) fn from_node(id: u64, node: &Node) -> Self {
        Self {
            id: ReplicaId::new(id),
            peer_addr: node.peer_addr.clone(),
            client_addr: node.client_addr.clone(),
        }
    }

    pub(crate) fn to_node(&self) -> Node {
        Node { peer_addr: self.peer_addr.clone(), client_addr: self.client_addr.clone() }
    }
}

pub(crate) fn position(id: LogIdOf<C>) -> Position {
    Position { term: id.leader_id.term, index: id.index }
}

pub(crate) fn log_id(at: Position) -> LogIdOf<C> {
    LogId::new(CommittedLeaderIdOf::<C>::new(at.term), at.index)
}

pub(crate) fn vote_record(vote: &VoteOf<C>) -> record::Vote {
    let leader = vote.leader_id();
    record::Vote { term: leader.term, voted_for: leader.voted_for, committed: vote.is_committed() }
}

pub(crate) fn vote(record: record::Vote) -> VoteOf<C> {
    if record.committed {
        VoteOf::<C>::new_committed(record.term, record.voted_for)
    } else {
        VoteOf::<C>::new(record.term, record.voted_for)
    }
}

pub(crate) fn entry_record(entry: EntryOf<C>) -> Entry {
    let body = match entry.payload {
        EntryPayload::Blank => Body::Blank,
        EntryPayload::Normal(command) => Body::Command(command.0),
        EntryPayload::Membership(membership) => Body::Membership(membership_record(&membership)),
    };
    Entry { at: position(entry.log_id), body }
}

pub(crate) fn entry(record: Entry) -> Result<EntryOf<C>, Error> {
    let payload = match record.body {
        Body::Blank => EntryPayload::Blank,
        Body::Command(blob) => EntryPayload::Normal(Command(blob)),
        Body::Membership(record) => EntryPayload::Membership(membership(&record)?),
    };
    Ok(EntryOf::<C> { log_id: log_id(record.at), payload })
}

pub(crate) fn membership_record(membership: &openraft::Membership<u64, Node>) -> record::Membership {
    let voters = membership.get_joint_config().iter();
    let members = membership.nodes().map(|(id, node)| record::Address {
        id: *id,
        peer_addr: node.peer_addr.clone(),
        client_addr: node.client_addr.clone(),
    });
    record::Membership {
        voters: voters.map(|voters| voters.iter().copied().collect()).collect(),
        members: members.collect(),
    }
}

pub(crate) fn membership(record: &record::Membership) -> Result<openraft::Membership<u64, Node>, Error> {
    let voters: Vec<BTreeSet<u64>> =
        record.voters.iter().map(|voters| voters.iter().copied().collect()).collect();
    if voters.is_empty() && record.members.is_empty() {
        return Ok(openraft::Membership::default());
    }
    let members: BTreeMap<u64, Node> = record
        .members
        .iter()
        .map(|at| (at.id, Node { peer_addr: at.peer_addr.clone(), client_addr: at.client_addr.clone() }))
        .collect();
    openraft::Membership::new(voters, members).map_err(|_| Error::Content)
}

pub(crate) fn description(meta: &SnapshotMetaOf<C>, shape: Shape) -> Description {
    Description {
        last: meta.last_log_id.map(position),
        members_at: meta.last_membership.log_id().map(position),
        membership: membership_record(meta.last_membership.membership()),
        chunks: shape.chunks,
        bytes: shape.bytes,
        digest: shape.digest,
    }
}

pub(crate) fn snapshot_meta(description: &Description) -> Result<SnapshotMetaOf<C>, Error> {
    let members = membership(&description.membership)?;
    Ok(SnapshotMetaOf::<C> {
        last_log_id: description.last.map(log_id),
        last_membership: StoredMembershipOf::<C>::new(description.members_at.map(log_id), members),
    })
}
