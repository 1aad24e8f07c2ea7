//! Asking the others, before taking part, whether they remember more of this replica than it holds.

use std::time::Duration;

use futures_util::future::join_all;
use tonic::Code;

use super::Inner;
use crate::record::Membership;
use crate::transport::Purpose;
use crate::transport::wire::Parties;
use crate::{Identity, ReplicaId};

/// Those that are there answer in this time; the others are asked when they are met.
const LIMIT: Duration = Duration::from_secs(1);

impl Inner {
    /// Greets all other members, and returns what one of them misses: this replica is then an older copy.
    ///
    /// Nothing is waited for that is not there: one replica must be able to start before the others do.
    pub(super) async fn what_others_miss(&self, own: Identity, members: &Membership) -> Option<String> {
        let others = members.members.iter().filter(|member| member.id != own.replica.get());
        let greetings = others.map(|member| async {
            let to = ReplicaId::new(member.id);
            let parties = Parties { cluster: own.cluster, from: own.replica, to };
            let link = self.links.get(to, &member.peer_addr, Purpose::Control).ok()?;
            let greeted = tokio::time::timeout(LIMIT, link.client(parties)).await.ok()?;
            greeted
                .err()
                .filter(|status| status.code() == Code::DataLoss)
                .map(|status| status.message().to_owned())
        });
        join_all(greetings).await.into_iter().flatten().next()
    }
}
