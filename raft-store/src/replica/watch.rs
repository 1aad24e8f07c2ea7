//! What a running replica watches about itself.

use std::sync::{Arc, Weak};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use openraft::metrics::RaftMetrics;

use super::Inner;
use crate::raft::Raft;
use crate::raft::types::C;
use crate::{Identity, Role, Status, fatal};

/// A leader whose disk stands still so long gives up leadership.
const STALL_MS: u64 = 1000;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Publishes the status, and stops the process if the consensus ends by itself.
pub(super) fn spawn(inner: &Arc<Inner>, identity: Identity, raft: Raft) {
    let weak = Arc::downgrade(inner);
    inner.workers().spawn(async move {
        let mut metrics = raft.metrics();
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = metrics.borrow_watched().clone();
            if !publish(&weak, identity, &now) {
                return;
            }
            tokio::select! {
                changed = metrics.changed() => if changed.is_err() { return },
                _ = look.tick() => leave_if_stalled(&weak, &raft, &now).await,
            }
        }
    });
}

/// Returns whether there is anything left to watch.
fn publish(inner: &Weak<Inner>, identity: Identity, metrics: &RaftMetrics<C>) -> bool {
    match &metrics.running_state {
        Err(error @ (Fatal::StorageError(_) | Fatal::Panicked)) => {
            fatal::stop("keep the replicated log", error)
        }
        Err(Fatal::Stopped) => return false,
        Ok(()) => {}
    }
    let Some(inner) = inner.upgrade() else { return false };
    let status = Status::of(identity, metrics);
    inner.status.send_if_modified(|shown| {
        if shown.role == Role::Stopped {
            // It has been shut down since: what was true a moment ago must not be shown again.
            return false;
        }
        let differs = *shown != status;
        *shown = status;
        differs
    });
    true
}

/// Hands leadership to the replica that has most of the log, if this one's disk no longer moves.
async fn leave_if_stalled(inner: &Weak<Inner>, raft: &Raft, metrics: &RaftMetrics<C>) {
    let Some(stores) = inner.upgrade().and_then(|inner| inner.stores()) else { return };
    let stalled = stores.log.stalled_ms();
    let Some(replication) = metrics.replication.as_ref().filter(|_| stalled >= STALL_MS) else { return };
    let others = replication.iter().filter(|(id, _)| **id != metrics.id);
    let voters: Vec<_> = metrics.membership_config.voter_ids().collect();
    let best = others.filter(|(id, _)| voters.contains(id)).max_by_key(|(_, matched)| **matched);
    // A replica that holds no more than this one's disk does is as slow: an election would help nobody.
    let own = replication.get(&metrics.id).copied().flatten();
    if let Some((to, _)) = best.filter(|(_, matched)| **matched > own) {
        tracing::warn!("the disk has not moved for {stalled} ms: handing leadership to replica {to}");
        // A core that has stopped is seen at the next look.
        let _ = raft.trigger().transfer_leader(*to).await;
    }
}
