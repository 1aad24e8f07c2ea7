//! Asking the others, before taking part and while nobody leads, whether they remember more of this replica than it
//! holds, and whether it still is a member; telling one that it is none any more.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tonic::{Code, Request};

use super::Inner;
use crate::transport::Purpose;
use crate::transport::wire::{DismissRequest, Parties, WhoisRequest, from_held};
use crate::{ClusterId, Identity, Member, ReplicaId};

/// Those that are there answer in this time, also when they are busy; no connection comes about with the others, which
/// are asked when they are met.
const LIMIT: Duration = Duration::from_secs(5);
/// A replica that was removed is told so this often, if it does not answer.
const DISMISSALS: u32 = 20;
const DISMISS_PAUSE: Duration = Duration::from_millis(500);

/// Who is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who {
    /// `None`: it belongs to no cluster yet.
    pub(super) identity: Option<Identity>,
    /// Whether it holds neither an entry nor a vote.
    pub(super) is_blank: bool,
}

impl Inner {
    /// Greets other members, and returns what one of them misses: this replica is then an older copy. That it has
    /// been removed is noted, see [`crate::standing::Standing::removed`].
    ///
    /// Nothing is waited for that is not there: one replica must be able to start before the others do.
    pub(super) async fn what_others_miss(
        &self,
        own: Identity,
        others: impl IntoIterator<Item = (u64, String)>,
    ) -> Option<String> {
        let others = others.into_iter().filter(|(id, _)| *id != own.replica.get());
        let greetings = others.map(|(id, peer_addr)| async move {
            let to = ReplicaId::new(id);
            let parties = Parties { cluster: own.cluster, from: own.replica, to };
            let link = self.links.get(to, &peer_addr, Purpose::Control).ok()?;
            let greeted = tokio::time::timeout(LIMIT, link.greet(parties)).await.ok()?;
            greeted
                .err()
                .filter(|status| status.code() == Code::DataLoss)
                .map(|status| status.message().to_owned())
        });
        join_all(greetings).await.into_iter().flatten().next()
    }

    /// Asks who is at an address; in words why nobody says.
    pub(super) async fn whois(&self, peer_addr: &str) -> Result<Who, String> {
        let nobody = ReplicaId::new(0);
        let link = self.links.get(nobody, peer_addr, Purpose::Control);
        let mut client = link.map_err(|status| status.message().to_owned())?.stranger();
        let mut request = Request::new(WhoisRequest {});
        request.set_timeout(LIMIT);
        let reply = match tokio::time::timeout(LIMIT, client.whois(request)).await {
            Ok(Ok(reply)) => reply.into_inner(),
            Ok(Err(status)) => return Err(status.message().to_owned()),
            Err(_) => return Err("it did not answer in time".to_owned()),
        };
        let cluster = <[u8; 16]>::try_from(reply.cluster.as_ref()).ok().map(ClusterId::new);
        let identity = cluster.map(|cluster| Identity { cluster, replica: ReplicaId::new(reply.replica) });
        let held = from_held(reply.held);
        Ok(Who { identity, is_blank: held.term == 0 && held.last.is_none() })
    }

    /// Tells a replica, for a while, that entry `by` removed it. One that does not hear it is told when it greets.
    pub(super) fn dismiss(self: &Arc<Self>, own: Identity, member: Member, by: u64) {
        let inner = Arc::downgrade(self);
        self.workers.spawn(async move {
            let parties = Parties { cluster: own.cluster, from: own.replica, to: member.id };
            for _ in 0..DISMISSALS {
                let Some(inner) = inner.upgrade().filter(|inner| inner.running().is_some()) else { return };
                let Ok(link) = inner.links.get(member.id, &member.peer_addr, Purpose::Control) else {
                    return;
                };
                drop(inner);
                let mut request = Request::new(DismissRequest { address: parties.address(), removed_by: by });
                request.set_timeout(LIMIT);
                let told = tokio::time::timeout(LIMIT, link.stranger().dismiss(request)).await;
                if matches!(told, Ok(Ok(_))) {
                    return;
                }
                tokio::time::sleep(DISMISS_PAUSE).await;
            }
        });
    }
}
