//! What a replica knows about itself and its cluster.

use std::collections::BTreeMap;

use openraft::metrics::RaftMetrics;
use openraft::{Instant, ServerState};

use crate::raft::types::{self, C};
use crate::{Identity, Member, ReplicaId};

/// What a replica does at present.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// It belongs to no cluster yet: it waits to found one or to be invited.
    #[default]
    Uninitialised,
    /// It receives the log and has no vote.
    Learner,
    /// It follows a leader, or waits for one.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It leads.
    Leader,
    /// It has been removed from the cluster, and takes no part ever again.
    Removed,
    /// It has been shut down.
    Stopped,
}

/// A snapshot on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sending {
    /// Parts that were sent.
    pub sent: u32,
    /// Parts that it has.
    pub parts: u32,
}

/// What the leader knows about another replica.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peer {
    /// Entries that it is known to hold, as the last one's index.
    pub matched: Option<u64>,
    /// Entries of the leader's log that it is not known to hold.
    pub lag: u64,
    /// Milliseconds since it last answered.
    pub silent_ms: Option<u64>,
    /// The snapshot that it is being sent, if it is.
    pub snapshot: Option<Sending>,
}

/// A replica's view of itself and its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// Which cluster and replica this is; `None` before it belongs to one.
    pub identity: Option<Identity>,
    /// What it does.
    pub role: Role,
    /// Its term.
    pub term: u64,
    /// Who leads, as far as this replica knows.
    pub leader: Option<Member>,
    /// The last index in its log.
    pub last_log: Option<u64>,
    /// The last index that it knows to be committed.
    pub committed: Option<u64>,
    /// The last index that its machine has applied.
    pub applied: Option<u64>,
    /// The last index in its newest snapshot.
    pub snapshot: Option<u64>,
    /// The last index that is no longer in its log.
    pub purged: Option<u64>,
    /// All members, voting or not.
    pub members: Vec<Member>,
    /// Which of them vote.
    pub voters: Vec<ReplicaId>,
    /// Whether a change of who votes is half done: until it is whole, both the old and the new majority are needed.
    pub is_changing: bool,
    /// On the leader: the other members.
    pub peers: BTreeMap<ReplicaId, Peer>,
    /// On the leader: milliseconds since a quorum last confirmed it.
    pub quorum_ack_ms: Option<u64>,
}

impl Status {
    /// Whether this replica leads.
    pub fn is_leader(&self) -> bool {
        self.role == Role::Leader
    }

    pub(crate) fn of(identity: Identity, metrics: &RaftMetrics<C>) -> Self {
        let membership = &metrics.membership_config;
        let members: Vec<_> = membership.nodes().map(|(id, node)| Member::from_node(*id, node)).collect();
        let leader = metrics.current_leader.map(ReplicaId::new);
        let leader = members.iter().find(|member| Some(member.id) == leader).cloned();
        let role = match metrics.state {
            _ if metrics.running_state.is_err() => Role::Stopped,
            ServerState::Learner => Role::Learner,
            ServerState::Follower => Role::Follower,
            ServerState::Candidate => Role::Candidate,
            ServerState::Leader => Role::Leader,
            ServerState::Shutdown => Role::Stopped,
        };
        let index = |id: Option<openraft::alias::LogIdOf<C>>| id.map(|id| types::position(id).index);
        Self {
            identity: Some(identity),
            role,
            term: metrics.current_term,
            leader,
            last_log: metrics.last_log_index,
            committed: index(metrics.local_committed),
            applied: index(metrics.last_applied),
            snapshot: index(metrics.snapshot),
            purged: index(metrics.purged),
            members,
            voters: membership.voter_ids().map(ReplicaId::new).collect(),
            is_changing: membership.membership().get_joint_config().len() > 1,
            peers: peers(identity, metrics),
            quorum_ack_ms: metrics.last_quorum_acked.map(|at| millis(at.elapsed())),
        }
    }
}

fn peers(identity: Identity, metrics: &RaftMetrics<C>) -> BTreeMap<ReplicaId, Peer> {
    let Some(replication) = &metrics.replication else { return BTreeMap::new() };
    let others = replication.iter().filter(|(id, _)| **id != identity.replica.get());
    let peer = |id: &u64, matched: Option<u64>| {
        let held = matched.map_or(0, |matched| matched + 1);
        let heard = metrics.heartbeat.as_ref().and_then(|heard| heard.get(id).copied().flatten());
        Peer {
            matched,
            lag: metrics.last_log_index.map_or(0, |last| last + 1).saturating_sub(held),
            silent_ms: heard.map(|at| millis(at.elapsed())),
            snapshot: None,
        }
    };
    others.map(|(id, at)| (ReplicaId::new(*id), peer(id, at.map(|at| at.index)))).collect()
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
