//! What a running replica watches about itself.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use openraft::metrics::{RaftMetrics, RaftServerMetrics};
use tokio::sync::watch as channel;

use super::{Inner, Replica};
use crate::raft::Raft;
use crate::raft::types::C;
use crate::{Identity, ReplicaId, Role, Status, fatal};

/// A leader whose disk stands still so long gives up leadership.
const STALL_MS: u64 = 1000;
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What is remembered of the others is written down this often, if it has changed.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// A replica that nobody leads, or that has no vote, asks this often whether it still is a member.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// A change of who votes that stays half done so long is brought to its end.
const HALF_DONE: Duration = Duration::from_secs(2);

/// Publishes the status, and stops the process if the consensus ends by itself. Who leads and who is a member is told at
/// once; how far everybody is changes several times with each write, and is looked at now and then.
pub(super) fn spawn(inner: &Arc<Inner>, identity: Identity, raft: Raft) {
    let weak = Arc::downgrade(inner);
    let mut removed = inner.standing().removed();
    inner.workers().spawn(async move {
        let (mut metrics, mut roles) = (raft.metrics(), raft.server_metrics());
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut chores = Chores::new();
        let mut seen = None;
        loop {
            let now = metrics.borrow_watched().clone();
            if !publish(&weak, identity, &now) {
                return;
            }
            note_members(&weak, identity, &raft, &mut seen);
            let is_behind = !is_same(&now, &roles.borrow_watched());
            tokio::select! {
                changed = roles.changed() => if changed.is_err() {
                    return ended(&weak, &metrics.borrow_watched());
                },
                changed = metrics.changed(), if is_behind => if changed.is_err() {
                    return ended(&weak, &metrics.borrow_watched());
                },
                by = removal(&mut removed) => return leave(&weak, &raft, by).await,
                _ = look.tick() => {
                    let now = metrics.borrow_watched().clone();
                    leave_if_stalled(&weak, &raft, &now).await;
                    chores.look(&weak, identity, &now);
                }
            }
        }
    });
}

/// Whether the whole view tells the same roles: it is made known right after them.
fn is_same(whole: &RaftMetrics<C>, roles: &RaftServerMetrics<C>) -> bool {
    whole.state == roles.state
        && whole.current_leader == roles.current_leader
        && whole.vote == roles.vote
        && whole.membership_config == roles.membership_config
        && whole.committed_membership_config == roles.committed_membership_config
}

/// Returns which entry removed this replica, once one has.
async fn removal(removed: &mut channel::Receiver<Option<u64>>) -> u64 {
    if let Ok(by) = removed.wait_for(Option::is_some).await {
        return by.unwrap_or_default();
    }
    // The sender goes with the replica.
    std::future::pending().await
}

/// The consensus is gone. If nobody asked it to go, this replica must not look alive.
fn ended(inner: &Weak<Inner>, last: &RaftMetrics<C>) {
    let was_told = matches!(last.running_state, Err(Fatal::Stopped));
    if was_told || inner.upgrade().is_none() {
        return;
    }
    fatal::dead_core(&"it panicked");
}

/// Takes no part any more: this replica was removed.
async fn leave(inner: &Weak<Inner>, raft: &Raft, by: u64) {
    let Some(inner) = inner.upgrade() else { return };
    inner.note_removal(by);
    inner.status.send_modify(|status| {
        if status.role != Role::Stopped {
            status.role = Role::Removed;
            status.leader = None;
            status.peers.clear();
        }
    });
    if raft.shutdown().await.is_err() {
        tracing::warn!("the consensus ended with a panic while this replica left");
    }
}

/// Returns whether there is anything left to watch.
fn publish(inner: &Weak<Inner>, identity: Identity, metrics: &RaftMetrics<C>) -> bool {
    match &metrics.running_state {
        Err(error @ Fatal::StorageError(_)) => fatal::stop("keep the replicated log", error),
        Err(error @ Fatal::Panicked) => fatal::dead_core(error),
        Err(Fatal::Stopped) => return false,
        Ok(()) => {}
    }
    let Some(inner) = inner.upgrade() else { return false };
    let status = inner.view(identity, metrics);
    note_leader(&inner, &status);
    inner.status.send_if_modified(|shown| {
        if matches!(shown.role, Role::Stopped | Role::Removed) {
            // It has been shut down since: what was true a moment ago must not be shown again.
            return false;
        }
        let differs = *shown != status;
        *shown = status;
        differs
    });
    true
}

impl Inner {
    /// Returns what the consensus says of itself and the others, with the snapshots on their way.
    pub(super) fn view(&self, identity: Identity, metrics: &RaftMetrics<C>) -> Status {
        let mut status = Status::of(identity, metrics);
        for (id, peer) in &mut status.peers {
            peer.snapshot = self.links.sending(*id);
        }
        status
    }
}

/// Remembers since when there is this leader.
fn note_leader(inner: &Inner, status: &Status) {
    let mut led = inner.led.lock().unwrap_or_else(PoisonError::into_inner);
    let now = status.leader.as_ref().map(|leader| (leader.id, status.term));
    if led.map(|(id, term, _)| (id, term)) != now {
        *led = now.map(|(id, term)| (id, term, Instant::now()));
    }
}

/// The entries of the newest members, and of the newest that are committed.
type Seen = Option<(Option<u64>, Option<u64>)>;

/// Notes who is a member, and whether this replica is one, when that is another than what was `seen`.
fn note_members(inner: &Weak<Inner>, identity: Identity, raft: &Raft, seen: &mut Seen) {
    let Some(inner) = inner.upgrade() else { return };
    let metrics = raft.server_metrics();
    let now = metrics.borrow_watched();
    let index = |at: &Option<openraft::alias::LogIdOf<C>>| at.map(|at| at.index);
    let entries =
        Some((index(now.membership_config.log_id()), index(now.committed_membership_config.log_id())));
    if *seen == entries {
        return;
    }
    *seen = entries;
    let standing = inner.standing();
    let own = identity.replica.get();
    let (newest, committed) = (&now.membership_config, &now.committed_membership_config);
    if let Some(at) = newest.log_id().filter(|_| newest.get_node(&own).is_some()) {
        standing.is_member_by(at.index);
    }
    let Some(at) = committed.log_id() else { return };
    if committed.get_node(&own).is_none() {
        standing.is_removed_by(at.index);
        return;
    }
    let members: BTreeSet<_> =
        committed.nodes().chain(newest.nodes()).map(|(id, _)| ReplicaId::new(*id)).collect();
    standing.keep_only(&members);
}

/// What is looked after now and then.
struct Chores {
    saved: Instant,
    asked: Instant,
    /// Since when this leader sees a change of who votes half done.
    half_done: Option<Instant>,
}

impl Chores {
    fn new() -> Self {
        Self { saved: Instant::now(), asked: Instant::now(), half_done: None }
    }

    /// Starts what is due. Nothing is waited for: each leaves the watch free.
    fn look(&mut self, inner: &Weak<Inner>, identity: Identity, metrics: &RaftMetrics<C>) {
        let Some(inner) = inner.upgrade() else { return };
        if self.saved.elapsed() > SAVE_EVERY {
            self.saved = Instant::now();
            let links = Arc::clone(&inner.links);
            tokio::task::spawn_blocking(move || links.standing().save());
        }
        let status = inner.status.borrow().clone();
        let is_alone = status.role == Role::Learner || status.leader.is_none();
        if is_alone && self.asked.elapsed() > ASK_EVERY {
            self.asked = Instant::now();
            tokio::spawn(ask(Arc::downgrade(&inner), identity, status.clone()));
        }
        let is_half_done = status.is_leader() && metrics.membership_config.get_joint_config().len() > 1;
        self.half_done = is_half_done.then(|| self.half_done.unwrap_or_else(Instant::now));
        if self.half_done.is_some_and(|since| since.elapsed() > HALF_DONE) {
            self.half_done = None;
            tokio::spawn(async move { Replica { inner }.finish_change().await });
        }
    }
}

/// Asks the other members whether this replica is one, and whether it holds what it had.
async fn ask(inner: Weak<Inner>, identity: Identity, status: Status) {
    let Some(inner) = inner.upgrade() else { return };
    let others = status.members.into_iter().map(|member| (member.id.get(), member.peer_addr));
    if let Some(what) = inner.what_others_miss(identity, others).await {
        fatal::forgotten(&what);
    }
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
