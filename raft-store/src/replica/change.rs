//! Changes of who leads and who is a member, and snapshots on request.
//!
//! ```text
//!   waits ──whois, invite──► learner ──catches up──► voter ──handed over if it leads──► learner ──► gone, and told so
//! ```
//!
//! Each step can be repeated, by whoever leads then. A change of who votes goes through both majorities (joint
//! consensus), and only after an entry of the leader's own term is committed: two changes never overlap.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::alias::{LogIdOf, StoredMembershipOf};
use openraft::errors::{ClientWriteError, RaftError};
use openraft::raft::Precondition;

use super::found::{LATER_IDS, MEMBERS_MAX};
use super::{Replica, leader_of};
use crate::change::Error;
use crate::raft::Raft;
use crate::raft::types::{C, Node};
use crate::{Identity, Member, Peer, ReplicaId, Status};

/// A snapshot, or a new member's catching up, may take so long.
const SLOW_LIMIT: Duration = Duration::from_secs(600);
/// How long to wait for a snapshot before it is asked for once more.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// A change that is not decided within this time may still be, later.
const CHANGE_LIMIT: Duration = Duration::from_secs(10);
/// A learner that is no further behind may vote: what it misses is on its way.
const CAUGHT_UP: u64 = 1000;
/// A replica that leaves gets so long to learn that it has no vote any more.
const FAREWELL: Duration = Duration::from_secs(2);
/// A replica that has not answered for so long is not there.
const SILENT_MS: u64 = 5_000;
/// Whoever is there takes an entry within this time.
const HEARD: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Where a replica stands that joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joining {
    /// Whether it votes: it has joined.
    pub votes: bool,
    /// What the leader knows of it; `None` until it has been heard of.
    pub peer: Option<Peer>,
}

impl Joining {
    /// Whether it may vote now.
    pub fn has_caught_up(&self) -> bool {
        self.peer
            .is_some_and(|peer| peer.matched.is_some() && peer.lag <= CAUGHT_UP && peer.snapshot.is_none())
    }
}

impl Replica {
    /// Hands leadership to another member and waits until it leads. Does nothing if it already does.
    ///
    /// # Errors
    ///
    /// If this replica does not lead, `to` has no vote, or it does not lead in time.
    pub async fn transfer_leader(&self, to: ReplicaId) -> Result<(), Error> {
        let (_, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let status = self.status();
        if status.leader.as_ref().is_some_and(|leader| leader.id == to) {
            return Ok(());
        }
        if !status.is_leader() {
            return Err(Error::NotLeader { leader: status.leader });
        }
        if !status.members.iter().any(|member| member.id == to) {
            return Err(Error::NoSuchMember(to));
        }
        if !status.voters.contains(&to) {
            return Err(Error::NoVote(to));
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
        let making = async {
            while self.status().snapshot < wanted {
                // Asked for while an older one is being written, none is made after that: so it is asked for again.
                raft.trigger().snapshot().await.map_err(|_| Error::Stopped)?;
                match self.wait(ASK_AGAIN, |status| status.snapshot >= wanted).await {
                    Ok(()) | Err(Error::Timeout) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        tokio::time::timeout(SLOW_LIMIT, making).await.map_err(|_| Error::Timeout)??;
        Ok(self.status().snapshot.unwrap_or_default())
    }

    /// Makes the replica that waits, uninitialised, at `peer_addr` a member without a vote, under a number never used
    /// before; everything is then sent to it. Returns what it is if it is one already: a call that was cut off can be
    /// repeated.
    ///
    /// # Errors
    ///
    /// If this replica does not lead, or the new one cannot be invited.
    pub async fn add_learner(&self, peer_addr: &str, client_addr: &str) -> Result<Member, Error> {
        let (own, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let _turn = self.inner.changes.lock().await;
        let who = self.inner.whois(peer_addr).await;
        let who = who.map_err(|why| Error::Unreachable { peer_addr: peer_addr.to_owned(), why })?;
        // What the status shows may be of a moment ago, before another call's change.
        let members = members(&raft).await?;
        if let Some(found) = who.identity {
            let taken = |what: String| Err(Error::Taken { peer_addr: peer_addr.to_owned(), what });
            if found.cluster != own.cluster {
                return taken(format!("belongs to another cluster, {}", found.cluster));
            }
            if let Some(node) = members.get_node(&found.replica.get()) {
                return Ok(Member::from_node(found.replica.get(), node));
            }
            if !who.is_blank {
                return taken(format!(
                    "was replica {} of this cluster and is none of it any more",
                    found.replica
                ));
            }
        }
        let begun = begin(&raft).await?;
        // The index of an entry is used once; a number made from it was never another replica's.
        let fresh = ReplicaId::new(LATER_IDS + begun.index);
        let member = Member {
            // Blank, and of this cluster: it was invited by a call that was then cut off.
            id: who.identity.map_or(fresh, |found| found.replica),
            peer_addr: peer_addr.to_owned(),
            client_addr: client_addr.to_owned(),
        };
        if members.nodes().count() >= MEMBERS_MAX * 2 {
            return Err(Error::TooMany(MEMBERS_MAX));
        }
        if who.identity.is_none() {
            self.inner.invite(own, &member).await.map_err(Error::Invite)?;
        }
        let nodes = BTreeMap::from([(member.id.get(), member.to_node())]);
        change(&raft, begun, ChangeMembers::AddNodes(nodes)).await?;
        Ok(member)
    }

    /// Returns where a member stands that joins; `None` if it is no member. Must be called on the leader.
    pub fn joining(&self, id: ReplicaId) -> Option<Joining> {
        let status = self.status();
        status.members.iter().find(|member| member.id == id)?;
        Some(Joining { votes: status.voters.contains(&id), peer: status.peers.get(&id).copied() })
    }

    /// Lets members vote, and removes `replaces`, all in one change. Those that vote already, or are gone already, are
    /// passed over.
    ///
    /// # Errors
    ///
    /// If this replica does not lead or is one of `replaces`, a new one has not caught up, or too few of those that
    /// would vote are there.
    pub async fn promote(
        &self,
        ids: &BTreeSet<ReplicaId>,
        replaces: &BTreeSet<ReplicaId>,
    ) -> Result<(), Error> {
        let (own, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let _turn = self.inner.changes.lock().await;
        let status = self.status();
        if !status.is_leader() || replaces.contains(&own.replica) {
            return Err(Error::NotLeader { leader: status.leader });
        }
        for id in ids {
            let joining = self.joining(*id).ok_or(Error::NoSuchMember(*id))?;
            if !joining.votes && !joining.has_caught_up() {
                let behind = joining.peer.map_or(u64::MAX, |peer| peer.lag);
                return Err(Error::Behind { id: *id, behind });
            }
        }
        let now = voters(&members(&raft).await?);
        let next: BTreeSet<_> = now.union(ids).copied().filter(|id| !replaces.contains(id)).collect();
        if next.len() > MEMBERS_MAX {
            return Err(Error::TooMany(MEMBERS_MAX));
        }
        if next != now {
            let begun = self.begin_with(own, &raft, &next).await?;
            let voters = next.iter().map(|id| id.get()).collect();
            change(&raft, begun, ChangeMembers::ReplaceAllVoters(voters)).await?;
        }
        self.forget(own, &raft, replaces).await
    }

    /// Adds a replica that waits, uninitialised, at `peer_addr`: gives it a number never used before, sends it
    /// everything, and then lets it vote.
    ///
    /// # Errors
    ///
    /// If this replica does not lead, the new one cannot be invited, or it does not catch up within ten
    /// minutes.
    pub async fn add_member(&self, peer_addr: &str, client_addr: &str) -> Result<Member, Error> {
        let member = self.add_learner(peer_addr, client_addr).await?;
        let ids = BTreeSet::from([member.id]);
        let adding = async {
            loop {
                match self.promote(&ids, &BTreeSet::new()).await {
                    Err(Error::Behind { .. }) => tokio::time::sleep(LOOK_AGAIN).await,
                    done => return done,
                }
            }
        };
        tokio::time::timeout(SLOW_LIMIT, adding).await.map_err(|_| Error::Timeout)??;
        Ok(member)
    }

    /// Removes a member and tells it so. Its number is never used again. A leader that is to go hands over first, and
    /// refuses: the next leader removes it.
    ///
    /// # Errors
    ///
    /// If this replica does not lead (any more), `id` is no member or the only one that votes, or too few of those
    /// that would vote afterwards are there.
    pub async fn remove_member(&self, id: ReplicaId) -> Result<(), Error> {
        let (own, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let status = self.status();
        if !status.is_leader() {
            return Err(Error::NotLeader { leader: status.leader });
        }
        let _turn = self.inner.changes.lock().await;
        let members = members(&raft).await?;
        if members.get_node(&id.get()).is_none() {
            return Err(Error::NoSuchMember(id));
        }
        let now = voters(&members);
        let next: BTreeSet<_> = now.iter().copied().filter(|voter| *voter != id).collect();
        if next.is_empty() {
            return Err(Error::LastMember(id));
        }
        let is_change = next != now || id == own.replica;
        let begun = if is_change { Some(self.begin_with(own, &raft, &next).await?) } else { None };
        if id == own.replica {
            let best = status.peers.iter().filter(|(peer, _)| next.contains(peer));
            let (to, _) = best.max_by_key(|(_, peer)| peer.matched).ok_or(Error::LastMember(id))?;
            self.transfer_leader(*to).await?;
            return Err(Error::NotLeader { leader: self.status().leader });
        }
        if let Some(begun) = begun {
            let gone = BTreeSet::from([id.get()]);
            change(&raft, begun, ChangeMembers::RemoveVoters(gone)).await?;
        }
        self.forget(own, &raft, &BTreeSet::from([id])).await
    }

    /// Begins a change to those that vote `next`. What could never be decided is refused: it needs a majority of them,
    /// so that many have to hold an entry that was written just now. That one answered lately is not enough.
    async fn begin_with(
        &self,
        own: Identity,
        raft: &Raft,
        next: &BTreeSet<ReplicaId>,
    ) -> Result<LogIdOf<C>, Error> {
        let begun = begin(raft).await?;
        let (voters, needed) = (next.len(), next.len() / 2 + 1);
        let holds = |status: &Status, id: &ReplicaId| {
            let matched = status.peers.get(id).and_then(|peer| peer.matched);
            *id == own.replica || matched >= Some(begun.index)
        };
        let alive = |status: &Status| next.iter().filter(|id| holds(status, id)).count();
        match self.wait(HEARD, |status| alive(status) >= needed || !status.is_leader()).await {
            Ok(()) | Err(Error::Timeout) => {}
            Err(error) => return Err(error),
        }
        let status = self.status();
        if !status.is_leader() {
            return Err(Error::NotLeader { leader: status.leader });
        }
        let alive = alive(&status);
        if alive < needed { Err(Error::NoMajority { voters, alive, needed }) } else { Ok(begun) }
    }

    /// Takes members without a vote off the list, once they know that they have none, and tells them that they are
    /// gone.
    async fn forget(&self, own: Identity, raft: &Raft, ids: &BTreeSet<ReplicaId>) -> Result<(), Error> {
        let members = members(raft).await?;
        let all = members.nodes().map(|(id, node)| Member::from_node(*id, node));
        let going: Vec<_> = all.filter(|member| ids.contains(&member.id)).collect();
        if going.is_empty() {
            return Ok(());
        }
        let upto = members.log_id().map(|at| at.index);
        // One that has it in its own log that it does not vote asks nobody for votes. One that is away is told later.
        let knows = |status: &Status| {
            let knows = |id| {
                let peer: Option<&Peer> = status.peers.get(id);
                peer.is_none_or(|peer| {
                    peer.matched >= upto || peer.silent_ms.is_none_or(|ms| ms >= SILENT_MS)
                })
            };
            ids.iter().all(knows)
        };
        match self.wait(FAREWELL, knows).await {
            Ok(()) | Err(Error::Timeout) => {}
            Err(error) => return Err(error),
        }
        let begun = begin(raft).await?;
        let ids = going.iter().map(|member| member.id.get()).collect();
        let at = change(raft, begun, ChangeMembers::RemoveNodes(ids)).await?;
        for member in going {
            self.inner.dismiss(own, member, at.index);
        }
        Ok(())
    }

    /// Brings a change of who votes to its end that a leader before left half done.
    pub(super) async fn finish_change(&self) {
        let Some((_, raft)) = self.inner.running() else { return };
        let Ok(_turn) = self.inner.changes.try_lock() else { return };
        if !self.status().is_changing {
            return;
        }
        let finished = async {
            let begun = begin(&raft).await?;
            change(&raft, begun, ChangeMembers::AddVoterIds(BTreeSet::new())).await
        };
        match finished.await {
            Ok(at) => tracing::info!("entry {} ends a change of members that was half done", at.index),
            Err(error) => tracing::warn!("a change of members is still half done: {error}"),
        }
    }

    /// Changes where members are reached, without changing who they are. Members that are not named stay where
    /// they are.
    ///
    /// # Errors
    ///
    /// If this replica does not lead, or one of them is no member.
    pub async fn move_members(&self, moved: Vec<Member>) -> Result<(), Error> {
        let (_, raft) = self.inner.running().ok_or(Error::Stopped)?;
        let _turn = self.inner.changes.lock().await;
        let known = self.status().members;
        if let Some(stranger) = moved.iter().find(|moved| !known.iter().any(|member| member.id == moved.id)) {
            return Err(Error::NoSuchMember(stranger.id));
        }
        let nodes: BTreeMap<_, _> = moved.iter().map(|member| (member.id.get(), member.to_node())).collect();
        let begun = begin(&raft).await?;
        change(&raft, begun, ChangeMembers::SetNodes(nodes)).await.map(|_| ())
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

/// Returns the newest members, as the consensus itself has them.
async fn members(raft: &Raft) -> Result<StoredMembershipOf<C>, Error> {
    let newest = |state: &openraft::RaftState<C>| {
        let newest = state.membership_state.effective();
        StoredMembershipOf::<C>::new(*newest.log_id(), newest.membership().clone())
    };
    raft.with_raft_state(newest).await.map_err(|_| Error::Stopped)
}

fn voters(members: &StoredMembershipOf<C>) -> BTreeSet<ReplicaId> {
    // While a change is half done those that are to vote are the last list.
    members.get_joint_config().last().into_iter().flatten().copied().map(ReplicaId::new).collect()
}

/// Has an entry of this leader's own term committed, after which everything that a leader before began is decided.
async fn begin(raft: &Raft) -> Result<LogIdOf<C>, Error> {
    let written = tokio::time::timeout(CHANGE_LIMIT, raft.write_blank()).await;
    match written.map_err(|_| Error::Timeout)? {
        Ok(written) => Ok(written.log_id),
        Err(error) => Err(refused(raft, error)),
    }
}

/// Changes the members, if this replica still leads in the term in which the change was begun. Who no longer votes
/// stays without a vote. Returns the last entry of the change.
async fn change(
    raft: &Raft,
    begun: LogIdOf<C>,
    changes: ChangeMembers<u64, Node>,
) -> Result<LogIdOf<C>, Error> {
    let same_leader = Precondition::CommittedLeaderId { committed_leader_id: begun.leader_id };
    let changing = raft.change_membership_if(changes, true, [same_leader]);
    match tokio::time::timeout(CHANGE_LIMIT, changing).await.map_err(|_| Error::Timeout)? {
        Ok(written) => Ok(written.log_id),
        Err(error) => Err(refused(raft, error)),
    }
}

fn refused(raft: &Raft, error: RaftError<C, ClientWriteError<C>>) -> Error {
    match error {
        RaftError::Fatal(_) => Error::Stopped,
        RaftError::APIError(
            ClientWriteError::ForwardToLeader(forward) | ClientWriteError::LogEntryDiscarded(forward),
        ) => Error::NotLeader { leader: leader_of(raft, &forward) },
        // The leader is another, or was meanwhile: whoever leads now is asked again.
        RaftError::APIError(ClientWriteError::PreconditionFailed(_)) => Error::NotLeader { leader: None },
        RaftError::APIError(error @ ClientWriteError::ChangeMembershipError(_)) => {
            Error::Refused(error.to_string().into())
        }
    }
}
