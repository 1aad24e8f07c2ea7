//! The control plane itself: who answers, how it stands, the end of safe mode.

use std::collections::BTreeSet;
use std::time::Duration;

use proto::v1;
use scheduler_core::command::Command;
use scheduler_core::node::Node;
use scheduler_core::principal::Actor;
use scheduler_core::unit::Span;
use tonic::{Request, Status};

use crate::shared::{self, Shared, VERSION};
use crate::views::cluster::{self, Gathered};
use crate::write::{mark, write};

/// How long a replica may take to say how it stands.
const PATIENCE: Duration = Duration::from_millis(700);

/// Says who answers: the only call without a token.
pub fn hello(shared: &Shared) -> Result<v1::HelloReply, Status> {
    let _place = shared.calls.enter()?;
    let (standing, view) = (shared.standing(), shared.views.now());
    Ok(v1::HelloReply {
        cluster: view.state.meta.cluster.map(|cluster| cluster.to_string()),
        replica: shared.replica().get(),
        version: VERSION.to_owned(),
        role: shared.role().to_owned(),
        leader: standing.leader.as_ref().map(|leader| leader.client_addr.clone()),
        cluster_time_at: shared.clock.roughly().as_millis(),
        time_unknown: shared.clock.now().is_none() && view.state.meta.cluster.is_some(),
        time_alarm: view.state.meta.time_alarm.as_ref().map(|alarm| alarm.what.clone()),
        replicas: addresses(&standing),
        peer: shared.addresses.peer.to_string(),
    })
}

/// Returns the addresses of the members for clients and agents, each once.
pub fn addresses(standing: &raft_store::Status) -> Vec<String> {
    let mut addresses: Vec<String> = Vec::new();
    for member in &standing.members {
        if !addresses.contains(&member.client_addr) {
            addresses.push(member.client_addr.clone());
        }
    }
    addresses
}

/// Says how this replica stands.
pub fn standing(shared: &Shared) -> v1::StandingReply {
    let view = shared.views.now();
    let log = shared.standing();
    let room = shared.disk.room();
    let usage = *shared.usage.borrow();
    let peer = |(id, peer): (&raft_store::ReplicaId, &raft_store::Peer)| v1::PeerStanding {
        replica: id.get(),
        matched: peer.matched,
        lag: peer.lag,
        silent_ms: peer.silent_ms,
        snapshot_sent: peer.snapshot.map(|sending| sending.sent),
        snapshot_parts: peer.snapshot.map(|sending| sending.parts),
    };
    let alarms = alarms(shared);
    // A copy: who holds it and asks for it again waits for a round that ends meanwhile, which waits for him.
    let last_plan = shared.last_plan.borrow().clone();
    v1::StandingReply {
        replica: shared.replica().get(),
        role: shared.role().to_owned(),
        version: VERSION.to_owned(),
        applied: view.index.get(),
        digest: cluster::digest(&view.state),
        agents_connected: u32::try_from(shared.links.count()).unwrap_or(u32::MAX),
        last_plan: last_plan.as_ref().map(|(at, said)| {
            let age = shared.clock.roughly().since(*at).as_millis();
            format!("{}.{} s ago: {said}", age / 1000, age % 1000 / 100)
        }),
        last_plan_at: last_plan.map(|(at, _)| at.as_millis()),
        cluster_time_at: shared.clock.now().map(|now| now.as_millis()),
        entry_at: view.state.meta.time.as_millis(),
        time_alarms: shared.clock.walls().alarms.iter().map(ToString::to_string).collect(),
        trouble: alarms.first().cloned(),
        term: log.term,
        leader: log.leader.as_ref().map(|leader| leader.id.get()),
        last_log: log.last_log,
        snapshot: log.snapshot,
        purged: log.purged,
        log_bytes: usage.log_bytes,
        snapshot_bytes: usage.snapshot_bytes,
        disk_free_bytes: room.free,
        disk_bytes: room.size,
        disk_stall_ms: shared.log.disk_stall_ms(),
        led_for_ms: shared.log.led_for().map(millis),
        up_ms: millis(shared.began.elapsed()),
        quorum_ack_ms: log.quorum_ack_ms,
        peers: log.peers.iter().map(peer).collect(),
        alarms,
        is_short_of_disk: shared.disk.shortage().is_some(),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn alarms(shared: &Shared) -> Vec<String> {
    let disk = shared.disk.shortage().map(|why| format!("new jobs are refused: {why}"));
    let own = shared.clock.trouble().into_iter().chain(disk).chain(stuck(shared));
    own.chain(shared.history.coverage().trouble).collect()
}

/// A round takes milliseconds; whoever could start has not to wait for one so long.
const ROUND_MAX: Span = Span::from_secs(10);

/// Says whether GPUs are idle and jobs wait, and the round that would bring them together does not come.
fn stuck(shared: &Shared) -> Option<String> {
    if shared.role() != "leader" {
        return None;
    }
    let since = (*shared.undecided.borrow())?;
    let age = shared.clock.roughly().since(since);
    let view = shared.views.now();
    let is_idle = |node: &Node| {
        node.gpus.iter().any(|gpu| gpu.is_present && gpu.holder.is_none() && gpu.next.is_none())
    };
    let is_owed = age > ROUND_MAX && !view.state.line.is_empty() && view.state.nodes.values().any(is_idle);
    is_owed.then(|| {
        let secs = age.as_millis() / 1_000;
        format!("GPUs are idle and jobs wait, and no round of planning has been finished for {secs} s")
    })
}

/// Asks all replicas how they stand.
pub async fn gathered(shared: &Shared) -> Gathered {
    let standing = shared.standing();
    let own = shared.replica().get();
    let others = standing.members.iter().filter(|member| member.id.get() != own);
    // Two members may have one address: a replica that was rebuilt, and what it was before.
    let others: BTreeSet<String> = others.map(|member| member.peer_addr.clone()).collect();
    let replies = shared.peers.standings(others.into_iter().collect(), PATIENCE).await;
    let mut replies: Vec<_> = replies.into_iter().map(|(_, reply)| reply).collect();
    replies.push(self::standing(shared));
    Gathered { standing, replies }
}

/// Returns when the leader's last round of planning was finished; none if it does not say.
pub async fn last_round(shared: &Shared) -> Option<u64> {
    if shared.role() == "leader" {
        return shared.last_plan.borrow().as_ref().map(|(at, _)| at.as_millis());
    }
    let leader = shared.standing().leader?;
    let replies = shared.peers.standings(vec![leader.peer_addr.clone()], PATIENCE).await;
    replies.into_iter().next()?.1.last_plan_at
}

/// Shows the control plane.
pub async fn status(
    shared: &Shared,
    asked: Request<v1::ClusterStatusRequest>,
) -> Result<v1::ClusterView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, asked.into_inner().read.unwrap_or_default().stale).await?;
    let gathered = gathered(shared).await;
    Ok(cluster::view(shared.scene(&read), &gathered))
}

/// Ends safe mode.
pub async fn end_safe_mode(
    shared: &Shared,
    asked: Request<v1::EndSafeModeRequest>,
) -> Result<v1::Done, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::EndSafeModeRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "end-safe-mode", &body)?;
    let command = Command::EndSafeMode { reason: message.reason };
    write(shared, Actor::Principal(caller.name.clone()), Some(mark), command, deadline).await?;
    Ok(v1::Done {})
}
