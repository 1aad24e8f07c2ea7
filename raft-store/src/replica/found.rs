//! Founding a cluster, and being invited to one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::errors::{InitializeError, RaftError};
use tonic::Request;

use super::{Inner, Phase, Replica};
use crate::found::Error;
use crate::raft::Raft;
use crate::raft::types::Node;
use crate::transport::Purpose;
use crate::transport::wire::{InviteRequest, Parties};
use crate::{ClusterId, Identity, Member, ReplicaId};

/// Numbers of founding members lie below this; those of later members above.
pub(super) const LATER_IDS: u64 = 1000;
/// The most members that a cluster is founded with.
pub(super) const MEMBERS_MAX: usize = 9;
const INVITE_LIMIT: Duration = Duration::from_secs(5);

impl Replica {
    /// Founds a cluster of `members`, of which this replica is `own`.
    ///
    /// The others are invited over the peer listener: each writes down which cluster and replica it is, and
    /// starts. Then the list of members becomes the first entry of the log. If some member cannot be invited
    /// nothing has been founded, and the call can be repeated with the same cluster id.
    ///
    /// # Errors
    ///
    /// If the members make no cluster, one of them cannot be invited or belongs to another cluster, or this
    /// cluster has been founded before.
    pub async fn found(&self, cluster: ClusterId, own: ReplicaId, members: Vec<Member>) -> Result<(), Error> {
        check(own, &members)?;
        let identity = Identity { cluster, replica: own };
        self.inner.none_is_taken(identity, &members).await?;
        {
            let mut phase = self.inner.phase.lock().await;
            self.inner.become_member(&mut phase, identity).await?;
        }
        let (_, raft) = self.inner.running().ok_or(Error::Stopped)?;
        if raft.is_initialized().await.map_err(|_| Error::Stopped)? {
            return Err(Error::AlreadyFounded);
        }
        for member in members.iter().filter(|member| member.id != own) {
            self.inner.invite(identity, member).await?;
        }
        initialize(&raft, &members).await
    }
}

pub(super) async fn initialize(raft: &Raft, members: &[Member]) -> Result<(), Error> {
    let nodes: BTreeMap<u64, Node> =
        members.iter().map(|member| (member.id.get(), member.to_node())).collect();
    match raft.initialize(nodes).await {
        Ok(()) => Ok(()),
        Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Err(Error::AlreadyFounded),
        Err(error) => Err(Error::Initialize(error.to_string().into())),
    }
}

impl Inner {
    /// Refuses to found with a member that has a past. Asked before anything is written here: a replica that lost its disk
    /// and is told to found again must not take its old number back, and stays free to join.
    async fn none_is_taken(&self, own: Identity, members: &[Member]) -> Result<(), Error> {
        let founded = match self.running() {
            Some((_, raft)) => raft.is_initialized().await.map_err(|_| Error::Stopped)?,
            None => false,
        };
        if founded {
            // Said with more of it below.
            return Ok(());
        }
        for member in members.iter().filter(|member| member.id != own.replica) {
            let failed = |cause: String| Error::Invite {
                id: member.id,
                peer_addr: member.peer_addr.clone(),
                cause: cause.into(),
            };
            let who = self.whois(&member.peer_addr).await.map_err(failed)?;
            let wanted = Identity { cluster: own.cluster, replica: member.id };
            match who.identity {
                None => {}
                // Invited by a founding that was cut off.
                Some(found) if found == wanted && who.is_blank => {}
                Some(found) if found.cluster == own.cluster => return Err(Error::AlreadyFounded),
                Some(found) => {
                    return Err(failed(format!(
                        "it already belongs to cluster {} as replica {}",
                        found.cluster, found.replica
                    )));
                }
            }
        }
        Ok(())
    }

    /// Takes an invitation from another replica.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        cluster: ClusterId,
        replica: ReplicaId,
    ) -> Result<(), Error> {
        let mut phase = self.phase.lock().await;
        let wanted = Identity { cluster, replica };
        // An invitation to what has long been founded comes from a founder that lost its disk: were it obeyed, that
        // one would come back under its old number without knowing what it promised.
        if let Some((identity, raft)) = self.running()
            && identity == wanted
            && raft.is_initialized().await.map_err(|_| Error::Stopped)?
        {
            return Err(Error::AlreadyFounded);
        }
        self.become_member(&mut phase, wanted).await
    }

    /// Writes the identity down and starts; does nothing if this replica already is that member.
    async fn become_member(self: &Arc<Self>, phase: &mut Phase, wanted: Identity) -> Result<(), Error> {
        if let Some((identity, _)) = self.running() {
            if identity == wanted {
                return Ok(());
            }
            return Err(Error::Taken { cluster: identity.cluster, replica: identity.replica });
        }
        if phase.machine.is_none() || self.stores().is_none() {
            return Err(Error::Stopped);
        }
        if let Some(configured) = self.config.replica.filter(|configured| *configured != wanted.replica) {
            return Err(Error::OtherReplica { configured, wanted: wanted.replica });
        }
        let dir = self.data_dir().to_owned();
        let stored = tokio::task::spawn_blocking(move || wanted.store(&dir)).await;
        let stored = stored.map_err(std::io::Error::other).and_then(|stored| stored);
        stored.map_err(|cause| {
            let path = self.data_dir().to_owned();
            Error::Start(Box::new(crate::open::Error::Io { doing: "write the identity", path, cause }))
        })?;
        self.start(phase, wanted).await.map_err(|error| Error::Start(Box::new(error)))
    }

    /// Tells another replica that it is a member.
    pub(super) async fn invite(&self, own: Identity, member: &Member) -> Result<(), Error> {
        let failed = |status: tonic::Status| Error::Invite {
            id: member.id,
            peer_addr: member.peer_addr.clone(),
            cause: status.message().to_owned().into(),
        };
        let parties = Parties { cluster: own.cluster, from: own.replica, to: member.id };
        let link = self.links.get(member.id, &member.peer_addr, Purpose::Control).map_err(failed)?;
        let mut request = Request::new(InviteRequest { address: parties.address() });
        request.set_timeout(INVITE_LIMIT);
        let mut client = link.stranger();
        match tokio::time::timeout(INVITE_LIMIT, client.invite(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(status)) => Err(failed(status)),
            Err(_) => Err(failed(tonic::Status::deadline_exceeded("it did not answer in time"))),
        }
    }
}

fn check(own: ReplicaId, members: &[Member]) -> Result<(), Error> {
    let ids: BTreeSet<_> = members.iter().map(|member| member.id).collect();
    let addresses: BTreeSet<_> = members.iter().map(|member| &member.peer_addr).collect();
    let fault = if members.is_empty() || members.len() > MEMBERS_MAX {
        "there must be one to nine of them"
    } else if ids.len() != members.len() || addresses.len() != members.len() {
        "each needs its own number and its own address"
    } else if !ids.contains(&own) {
        "the founding replica must be one of them"
    } else if ids.iter().any(|id| id.get() == 0 || id.get() >= LATER_IDS) {
        "their numbers must lie between 1 and 999"
    } else {
        return Ok(());
    };
    Err(Error::Members(fault))
}
