//! The founding of a control plane, on one of its replicas.

use std::time::Duration;

use proto::v1;
use proto::v1::setup_server::Setup;
use raft_store::{ClusterId as LogCluster, Member, ReplicaId as LogReplica, found};
use scheduler_core::command::{Code, Command, Entry, Found, Rejection};
use scheduler_core::id::{ClusterId, Epoch};
use scheduler_core::principal::Actor;
use scheduler_core::settings::{self, Settings};
use scheduler_core::unit::Timestamp;
use tonic::{Request, Response, Status};

use super::{Api, name, principals};
use crate::auth;
use crate::clock::Deadline;
use crate::refusal;
use crate::shared::Shared;
use crate::time::vouched;
use crate::write::{self, Tried};

/// The founders elect a leader and write the first entry within this time.
const PATIENCE: Duration = Duration::from_secs(15);
/// The founders may take so long to learn cluster time.
const LEARNING: Duration = Duration::from_secs(5);
/// The most founders.
const FOUNDERS_MAX: usize = 9;

#[tonic::async_trait]
impl Setup for Api {
    async fn found(&self, asked: Request<v1::FoundRequest>) -> Result<Response<v1::FoundReply>, Status> {
        let shared = &self.shared;
        let _place = shared.calls.enter()?;
        let shown = auth::bearer(asked.metadata()).ok_or_else(refusal::not_logged_in)?;
        if !shared.setup.is(&shown) {
            return Err(refusal::not_logged_in());
        }
        let message = asked.into_inner();
        let command = command(&message)?;
        if let Some(done) = is_done(shared, &command) {
            return done.map(Response::new);
        }
        found_log(shared, &message.founders).await?;
        first_entry(shared, command).await.map(Response::new)
    }
}

/// Answers a repeated founding: the same one as the first time, another one with a refusal.
fn is_done(shared: &Shared, asked: &Found) -> Option<Result<v1::FoundReply, Status>> {
    let state = &shared.views.now().state;
    let cluster = state.meta.cluster?;
    let is_same = state.principals.get(&asked.admin).is_some_and(|admin| admin.token == asked.admin_token);
    Some(if is_same { Ok(reply(cluster)) } else { Err(already()) })
}

fn reply(cluster: ClusterId) -> v1::FoundReply {
    v1::FoundReply { cluster: cluster.to_string() }
}

fn already() -> Status {
    refusal::status(&Rejection::new(
        Code::Founding,
        "this control plane is founded already".to_owned(),
        "a second founding would be a second control plane over the same nodes",
        "use its administrator's token; to begin anew, stop all replicas and move their data directories away"
            .to_owned(),
    ))
}

fn command(asked: &v1::FoundRequest) -> Result<Found, Status> {
    let mut settings = Settings { allow_simulated: asked.allow_simulated, ..Settings::default() };
    for (key, value) in &asked.settings_ms {
        settings::set(&mut settings, key, *value)
            .map_err(|cause| refusal::bad(&proto::Error::bad("settings", cause.to_string())))?;
    }
    Ok(Found {
        // Made below, once the log has its own.
        cluster: ClusterId::new([0; 16]),
        epoch: Epoch::new(1),
        root: name("root", &asked.root)?,
        admin: name("admin", &asked.admin)?,
        admin_token: principals::token("admin_token_hash", &asked.admin_token_hash)?,
        admin_account: principals::account("admin_account", &asked.admin_account)?,
        settings,
    })
}

/// Founds the log: invites the founders and writes who they are. Done already if it was cut off after that.
async fn found_log(shared: &Shared, founders: &[v1::Founder]) -> Result<(), Status> {
    let members = members(founders)?;
    let own_addr = shared.addresses.peer.to_string();
    let own = members.iter().find(|member| member.peer_addr == own_addr).map(|member| member.id);
    let own = own.ok_or_else(|| {
        let what = format!("none of them is this replica, {own_addr}");
        refusal::bad(&proto::Error::bad("founders", what))
    })?;
    let cluster = match shared.log.identity() {
        Some(identity) => identity.cluster,
        None => LogCluster::new(random()?),
    };
    match shared.log.found(cluster, own, members).await {
        Ok(()) | Err(found::Error::AlreadyFounded) => Ok(()),
        Err(cause) => {
            let mut why = String::new();
            let mut next = std::error::Error::source(&cause);
            while let Some(source) = next {
                why = format!("{why}{}{source}", if why.is_empty() { "" } else { ": " });
                next = source.source();
            }
            let fix = "see that every replica runs with an empty data directory and the same peer secret, then repeat";
            let what = cause.to_string();
            Err(refusal::status(&Rejection::new(Code::Founding, what, &why, fix.to_owned())))
        }
    }
}

fn members(founders: &[v1::Founder]) -> Result<Vec<Member>, Status> {
    if founders.is_empty() || founders.len() > FOUNDERS_MAX {
        return Err(refusal::bad(&proto::Error::bad("founders", "one to nine, three or five are usual")));
    }
    let member = |(id, founder): (u64, &v1::Founder)| Member {
        id: LogReplica::new(id),
        peer_addr: founder.peer.clone(),
        client_addr: founder.client.clone(),
    };
    Ok((1..).zip(founders).map(member).collect())
}

fn random() -> Result<[u8; 16], Status> {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(cause) => Err(Status::internal(format!("the system gives no random bytes: {cause}"))),
    }
}

/// Writes the first entry, with the wall clock as the beginning of cluster time.
async fn first_entry(shared: &Shared, mut found: Found) -> Result<v1::FoundReply, Status> {
    let identity = shared.log.identity().ok_or_else(refusal::no_leader)?;
    let cluster = ClusterId::new(identity.cluster.get());
    found.cluster = cluster;

    let actor = Actor::Replica(shared.replica());
    let command = Command::Found(found.clone());
    let entry = Entry { time: Timestamp::ZERO, actor, via: Some(shared.replica()), request: None, command };
    let deadline = Deadline::after(PATIENCE);
    let mut standing = shared.log.watch();
    while !deadline.is_over() {
        // A founder elected another leader: it takes the entry.
        match write::anywhere(shared, &entry).await {
            Tried::Applied(index, answer) => {
                shared.after(index).await?;
                // From here on any founder may lead.
                vouched::by_all(shared, LEARNING).await;
                return match *answer {
                    Ok(_) => Ok(reply(cluster)),
                    // Written before, by a try whose answer was lost.
                    Err(rejection) => {
                        is_done(shared, &found).unwrap_or_else(|| Err(refusal::status(&rejection)))
                    }
                };
            }
            Tried::Refused(rejection) => return Err(refusal::status(&rejection)),
            Tried::Elsewhere(_) => {
                let pause = Duration::from_millis(50).min(deadline.left());
                let _ = tokio::time::timeout(pause, standing.changed()).await;
            }
        }
    }
    Err(refusal::no_leader())
}
