//! Linearizable reads, on any replica.

use std::time::Duration;

use openraft::ReadPolicy;
use openraft::errors::{LinearizableReadError, RaftError};
use tonic::Request;

use super::{Inner, Replica, leader_of};
use crate::raft::Raft;
use crate::read::Error;
use crate::transport::Purpose;
use crate::transport::wire::{Parties, ReadIndexRequest};
use crate::{Identity, Member};

/// How long a machine may lag behind a read.
const APPLY_LIMIT: Duration = Duration::from_secs(5);

impl Replica {
    /// Waits until the machine has applied everything that was acknowledged before this call, and returns the
    /// index it has then reached. Works on every replica: a follower asks the leader, which confirms with a
    /// quorum that it still leads.
    ///
    /// # Errors
    ///
    /// If no leader can be confirmed, or this machine does not catch up within 5 s.
    pub async fn read_barrier(&self) -> Result<u64, Error> {
        let (identity, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let wanted = match self.inner.other_leader(identity) {
            Some(leader) => self.inner.ask(identity, leader).await?,
            None => {
                let confirmed = tokio::time::timeout(APPLY_LIMIT, confirm_leadership(&raft)).await;
                // A core that waits for a full disk answers nobody.
                let why = || "the consensus does not answer".to_owned();
                match confirmed.unwrap_or_else(|_| Err(Error::NoLeader { leader: None, why: why() })) {
                    Err(Error::NoLeader { leader: Some(leader), .. }) if leader.id != identity.replica => {
                        self.inner.ask(identity, leader).await?
                    }
                    confirmed => confirmed?,
                }
            }
        };
        let mut applied = self.watch_applied();
        match tokio::time::timeout(APPLY_LIMIT, applied.reaches(wanted)).await {
            Ok(true) => Ok(applied.index().unwrap_or(wanted)),
            Ok(false) => Err(Error::Stopped),
            Err(_) => Err(Error::Behind { wanted }),
        }
    }
}

/// Confirms with a quorum that this replica leads, and returns the index that a read must have applied.
pub(crate) async fn confirm_leadership(raft: &Raft) -> Result<u64, Error> {
    match raft.get_read_log_id(ReadPolicy::ReadIndex).await {
        Ok((read, _)) => Ok(read.index()),
        Err(RaftError::Fatal(_)) => Err(Error::Stopped),
        Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => Err(Error::NoLeader {
            leader: leader_of(raft, &forward),
            why: "this replica does not lead".to_owned(),
        }),
        Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Err(Error::NoLeader {
            leader: None,
            why: "no quorum confirmed this replica as leader".to_owned(),
        }),
    }
}

impl Inner {
    /// Returns who leads, if it is another replica.
    fn other_leader(&self, own: Identity) -> Option<Member> {
        self.status.borrow().leader.clone().filter(|leader| leader.id != own.replica)
    }

    async fn ask(&self, own: Identity, leader: Member) -> Result<u64, Error> {
        let parties = Parties { cluster: own.cluster, from: own.replica, to: leader.id };
        let limit = self.config.timing.election_max * 2;
        let asking = async {
            let link = self.links.get(leader.id, &leader.peer_addr, Purpose::Control)?;
            let mut client = link.client(parties).await?;
            let mut request = Request::new(ReadIndexRequest { address: parties.address() });
            request.set_timeout(limit);
            client.read_index(request).await.inspect_err(|status| link.failed(status))
        };
        match tokio::time::timeout(limit, asking).await {
            Ok(Ok(reply)) => Ok(reply.into_inner().index),
            Ok(Err(status)) => {
                Err(Error::NoLeader { leader: Some(leader), why: status.message().to_owned() })
            }
            Err(_) => {
                Err(Error::NoLeader { leader: Some(leader), why: "it did not answer in time".to_owned() })
            }
        }
    }
}
