//! A leader gives leadership away: because it stops, or because another one can do more.

use std::sync::Arc;
use std::time::Duration;

use raft_store::{Member, ReplicaId, Status, change};

use crate::shared::Shared;
use crate::time::vouched;

/// A leader gets so long to hand over.
const HANDING_OVER: Duration = Duration::from_secs(3);
/// Another replica may take so long to say how it stands.
const PATIENCE: Duration = Duration::from_millis(700);
/// Others may take so long to learn cluster time, before leadership is handed over regardless.
const LEARNING: Duration = Duration::from_secs(1);

/// Hands leadership to the replica that has most of the log, if this one leads: it is about to stop.
pub async fn before_the_end(shared: &Shared) {
    let standing = shared.standing();
    if !standing.is_leader() {
        return;
    }
    let voters = standing.peers.keys().filter(|id| standing.voters.contains(id));
    if let Some(to) = voters.max_by_key(|id| matched(&standing, **id)) {
        try_to(shared, *to).await;
    }
}

/// Hands leadership to a replica whose disk has room for new jobs, if this one leads and its own has none.
///
/// A leader refuses new jobs when its disk is nearly full, and everything when it is full; nothing need be refused while
/// another replica has room. Where none has, nobody takes over: it would change nothing.
pub async fn to_one_with_room(shared: &Arc<Shared>) {
    let standing = shared.standing();
    if !standing.is_leader() || shared.disk.shortage().is_none() {
        return;
    }
    let own = shared.replica().get();
    let is_other = |member: &&Member| member.id.get() != own && standing.voters.contains(&member.id);
    let others: Vec<&Member> = standing.members.iter().filter(is_other).collect();
    let addrs = others.iter().map(|member| member.peer_addr.clone()).collect();
    let replies = shared.peers.standings(addrs, PATIENCE).await;
    let has_room = |member: &&&Member| {
        replies.iter().any(|(addr, reply)| *addr == member.peer_addr && !reply.is_short_of_disk)
    };
    if let Some(to) = others.iter().filter(has_room).max_by_key(|member| matched(&standing, member.id)) {
        tracing::warn!(to = %to.id, "this leader's disk has no room for new jobs: handing over");
        try_to(shared, to.id).await;
    }
}

fn matched(standing: &Status, id: ReplicaId) -> Option<u64> {
    standing.peers.get(&id).and_then(|peer| peer.matched)
}

/// Hands leadership to `to`, once the next leader need not wait for cluster time.
///
/// # Errors
/// As [`raft_store::Replica::transfer_leader`].
pub async fn to(shared: &Shared, to: ReplicaId) -> Result<(), change::Error> {
    vouched::by_all(shared, LEARNING).await;
    shared.log.transfer_leader(to).await
}

async fn try_to(shared: &Shared, next: ReplicaId) {
    match tokio::time::timeout(HANDING_OVER, to(shared, next)).await {
        Ok(Ok(())) => tracing::info!(to = %next, "handed leadership over"),
        Ok(Err(cause)) => tracing::warn!(to = %next, %cause, "leadership could not be handed over"),
        Err(_) => tracing::warn!(to = %next, "leadership was not taken over in time"),
    }
}
