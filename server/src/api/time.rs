//! Cluster time: what it is, what everybody's clocks say, and an operator's word.

use std::time::Duration;

use proto::v1;
use scheduler_core::apply::check_set_time;
use scheduler_core::command::{Command, SetTime};
use scheduler_core::principal::Actor;
use scheduler_core::report;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;
use tonic::{Request, Status};

use crate::clock;
use crate::peers::Clocks;
use crate::refusal;
use crate::shared::{self, Admitted, Shared};
use crate::time;
use crate::views::{self, Scene};
use crate::write::{mark, write};

/// How long a replica may take to say what its clocks show.
const PATIENCE: Duration = Duration::from_millis(700);

/// Shows cluster time and the clocks of all replicas.
pub async fn show(
    shared: &Shared,
    asked: Request<v1::ClusterTimeRequest>,
) -> Result<v1::ClusterTimeView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, asked.into_inner().read.unwrap_or_default().stale).await?;
    let standing = shared.standing();
    let own = shared.replica().get();
    let others = standing.members.iter().filter(|member| member.id.get() != own);
    let others: Vec<String> = others.map(|member| member.peer_addr.clone()).collect();
    let mut answers = shared.peers.clocks(others, true, PATIENCE).await;
    let now = clock::boot();
    answers.push(Clocks { reply: time::standing(shared, true), sent: now, received: now });
    let members: Vec<u64> = standing.members.iter().map(|member| member.id.get()).collect();
    Ok(views::time::view(shared.scene(&read), &members, &answers, now))
}

/// Sets cluster time, or only says what that would do.
pub async fn set(
    shared: &Shared,
    asked: Request<v1::SetClusterTimeRequest>,
) -> Result<v1::SetTimeView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let to = message.to_at.map(Timestamp::from_millis);
    let read = shared.read(&caller, false).await?;
    let scene = shared.scene(&read);
    operators_only(&caller, scene.state())?;
    if let Some(to) = to {
        check_set_time(scene.now, to).map_err(|rejection| refusal::status(&rejection))?;
    }
    let seen = outlook(scene, to);
    if message.preview {
        return Ok(seen);
    }
    let body = v1::SetClusterTimeRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "set-cluster-time", &body)?;
    let command = Command::SetTime(SetTime { to, reason: message.reason });
    let written = write(shared, Actor::Principal(caller.name.clone()), Some(mark), command, deadline).await?;
    let read = shared.after(written.index).await?;
    let scene = shared.scene(&read);
    let jump = scene.state().meta.time_jump.filter(|jump| Some(jump.to) == to);
    let from_at = jump.map_or(seen.from_at, |jump| jump.from.as_millis());
    let to_at = jump.map_or(seen.to_at, |jump| jump.to.as_millis());
    Ok(v1::SetTimeView {
        as_of: scene.as_of(),
        from_at,
        to_at,
        ahead_ms: to_at.saturating_sub(from_at),
        ..seen
    })
}

/// The effect names jobs and budgets of everybody: `apply` checks again.
fn operators_only(caller: &Admitted, state: &State) -> Result<(), Status> {
    match state.principals.get(&caller.name) {
        Some(principal) if principal.is_operator => Ok(()),
        Some(_) | None => Err(refusal::not_allowed(&format!("`{}` is not an operator", caller.name))),
    }
}

fn outlook(scene: Scene<'_>, to: Option<Timestamp>) -> v1::SetTimeView {
    let to = to.unwrap_or(scene.now);
    views::time::outlook(scene, to, &report::passed_over(scene.state(), scene.now, to))
}
