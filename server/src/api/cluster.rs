//! The control plane itself: who answers, how it stands, the end of safe mode.

use std::time::Duration;

use proto::v1;
use scheduler_core::command::Command;
use scheduler_core::principal::Actor;
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
        leader: standing.leader.map(|leader| leader.client_addr),
        cluster_time_at: shared.clock.roughly().as_millis(),
        replicas: standing.members.into_iter().map(|member| member.client_addr).collect(),
        time_unknown: shared.clock.now().is_none() && view.state.meta.cluster.is_some(),
        time_alarm: view.state.meta.time_alarm.as_ref().map(|alarm| alarm.what.clone()),
    })
}

/// Says how this replica stands.
pub fn standing(shared: &Shared) -> v1::StandingReply {
    let view = shared.views.now();
    v1::StandingReply {
        replica: shared.replica().get(),
        role: shared.role().to_owned(),
        version: VERSION.to_owned(),
        applied: view.index.get(),
        digest: cluster::digest(&view.state),
        agents_connected: u32::try_from(shared.links.count()).unwrap_or(u32::MAX),
        last_plan: shared.last_plan.borrow().as_ref().map(|(at, said)| {
            let age = shared.clock.roughly().since(*at).as_millis();
            format!("{}.{} s ago: {said}", age / 1000, age % 1000 / 100)
        }),
        cluster_time_at: shared.clock.now().map(|now| now.as_millis()),
        entry_at: view.state.meta.time.as_millis(),
        trouble: alarms(shared).first().cloned(),
        time_alarms: shared.clock.walls().alarms.iter().map(ToString::to_string).collect(),
    }
}

fn alarms(shared: &Shared) -> Vec<String> {
    let disk = shared.disk.shortage().map(|why| format!("new jobs are refused: {why}"));
    shared.clock.trouble().into_iter().chain(disk).chain(shared.history.coverage().trouble).collect()
}

/// Shows the control plane.
pub async fn status(
    shared: &Shared,
    asked: Request<v1::ClusterStatusRequest>,
) -> Result<v1::ClusterView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, asked.into_inner().read.unwrap_or_default().stale).await?;
    let standing = shared.standing();
    let own = shared.replica().get();
    let others = standing.members.iter().filter(|member| member.id.get() != own);
    let others: Vec<String> = others.map(|member| member.peer_addr.clone()).collect();
    let mut replies = shared.peers.standings(others, PATIENCE).await;
    if let Some(member) = standing.members.iter().find(|member| member.id.get() == own) {
        replies.push((member.peer_addr.clone(), self::standing(shared)));
    }
    Ok(cluster::view(shared.scene(&read), &Gathered { standing, replies, alarms: alarms(shared) }))
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
