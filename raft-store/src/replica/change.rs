//! Changes of who leads and who is a member, and snapshots on request.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::errors::{ClientWriteError, RaftError};

use super::found::LATER_IDS;
use super::{Replica, leader_of};
use crate::change::Error;
use crate::raft::Raft;
use crate::raft::types::C;
use crate::{Member, ReplicaId, Status};

/// A snapshot, or a new member's catching up, may take so long.
const SLOW_LIMIT: Duration = Duration::from_secs(600);

impl Replica {
    /// Hands leadership to another member and waits until it leads. Does nothing if it already does.
    ///
    /// # Errors
    ///
    /// If this replica does not lead, `to` has no vote, or it does not lead in time.
    pub async fn transfer_leader(&self, to: ReplicaId) -> Result<(), Error> {
        let (identity, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let status = self.status();
        if status.leader.as_ref().is_some_and(|leader| leader.id == to) {
            return Ok(());
        }
        if !status.is_leader() {
            return Err(Error::NotLeader { leader: status.leader });
        }
        if to == identity.replica || !status.voters.contains(&to) {
            return Err(Error::NoSuchMember(to));
        }
        raft.trigger().transfer_leader(to.get()).await.map_err(|_| Error::Stopped)?;
        let limit = self.inner.config.timing.election_max * 4;
        self.wait(limit, |status| status.leader.as_ref().is_some_and(|leader| leader.id == to)).await
    }

    /// Makes a snapshot of what is applied now, and returns the last index in it.
    ///
    /// # Errors
    ///
    /// If the replica is stopping, or the snapshot takes more than ten minutes.
    pub async fn snapshot_now(&self) -> Result<u64, Error> {
        let (_, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let wanted = self.watch_applied().index();
        if self.status().snapshot < wanted {
            raft.trigger().snapshot().await.map_err(|_| Error::Stopped)?;
        }
        self.wait(SLOW_LIMIT, |status| status.snapshot >= wanted).await?;
        Ok(self.status().snapshot.unwrap_or_default())
    }

    /// Adds a replica that waits, uninitialised, at `peer_addr`: gives it a number never used before, sends it
    /// everything, and then lets it vote.
    ///
    /// # Errors
    ///
    /// If this replica does not lead, the new one cannot be invited, or it does not catch up within ten
    /// minutes.
    pub async fn add_member(&self, peer_addr: &str, client_addr: &str) -> Result<Member, Error> {
        let (identity, raft) = self.inner.running().ok_or(Error::Stopped)?;
        // The index of an entry is used once; a number made from it was never another replica's.
        let blank = raft.write_blank().await.map_err(|error| refused(&raft, error))?;
        let member = Member {
            id: ReplicaId::new(LATER_IDS + blank.log_id.index),
            peer_addr: peer_addr.to_owned(),
            client_addr: client_addr.to_owned(),
        };
        self.inner.invite(identity, &member).await.map_err(Error::Invite)?;
        let adding = async {
            raft.add_learner(member.id.get(), member.to_node(), true)
                .await
                .map_err(|error| refused(&raft, error))?;
            let voters = BTreeSet::from([member.id.get()]);
            raft.change_membership(ChangeMembers::AddVoterIds(voters), true)
                .await
                .map_err(|error| refused(&raft, error))
        };
        tokio::time::timeout(SLOW_LIMIT, adding).await.map_err(|_| Error::Timeout)??;
        Ok(member)
    }

    /// Removes a member. Its number is never used again.
    ///
    /// # Errors
    ///
    /// If this replica does not lead, or `id` is no member or the only one.
    pub async fn remove_member(&self, id: ReplicaId) -> Result<(), Error> {
        let (_, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let status = self.status();
        if !status.members.iter().any(|member| member.id == id) {
            return Err(Error::NoSuchMember(id));
        }
        if status.voters == [id] {
            return Err(Error::LastMember(id));
        }
        let changes = if status.voters.contains(&id) {
            ChangeMembers::RemoveVoters(BTreeSet::from([id.get()]))
        } else {
            ChangeMembers::RemoveNodes(BTreeSet::from([id.get()]))
        };
        raft.change_membership(changes, false).await.map_err(|error| refused(&raft, error))?;
        Ok(())
    }

    /// Changes where members are reached, without changing who they are. Members that are not named stay where
    /// they are.
    ///
    /// # Errors
    ///
    /// If this replica does not lead, or one of them is no member.
    pub async fn move_members(&self, moved: Vec<Member>) -> Result<(), Error> {
        let (_, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let known = self.status().members;
        if let Some(stranger) = moved.iter().find(|moved| !known.iter().any(|member| member.id == moved.id)) {
            return Err(Error::NoSuchMember(stranger.id));
        }
        let nodes: BTreeMap<_, _> = moved.iter().map(|member| (member.id.get(), member.to_node())).collect();
        raft.change_membership(ChangeMembers::SetNodes(nodes), true)
            .await
            .map_err(|error| refused(&raft, error))?;
        Ok(())
    }

    async fn wait(&self, limit: Duration, reached: impl Fn(&Status) -> bool) -> Result<(), Error> {
        let mut status = self.watch();
        match tokio::time::timeout(limit, status.wait_for(reached)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Error::Stopped),
            Err(_) => Err(Error::Timeout),
        }
    }
}

fn refused(raft: &Raft, error: RaftError<C, ClientWriteError<C>>) -> Error {
    match error {
        RaftError::Fatal(_) => Error::Stopped,
        RaftError::APIError(
            ClientWriteError::ForwardToLeader(forward) | ClientWriteError::LogEntryDiscarded(forward),
        ) => Error::NotLeader { leader: leader_of(raft, &forward) },
        RaftError::APIError(
            error @ (ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_)),
        ) => Error::Refused(error.to_string().into()),
    }
}
