//! The task that keeps cluster time: asks for it after a restart of the machine, follows the leader, slews as one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use scheduler_core::cluster_time::{Source, Wall};
use scheduler_core::command::{Command, Entry};
use scheduler_core::id::{NodeId, ReplicaId};
use scheduler_core::principal::Actor;
use scheduler_core::unit::{Span, Timestamp};

use super::held::Wait;
use crate::clock::{self, Deadline};
use crate::peers::Clocks;
use crate::shared::Shared;
use crate::write::{self, Tried};

/// How often the leader looks at the wall clocks, and a follower at the leader's time.
const ROUND: Duration = Duration::from_secs(5);
/// How often a replica without cluster time asks.
const ASK: Duration = Duration::from_millis(100);
/// How long one replica may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// A wall clock that was longer on its way says too little.
const WAY: Duration = Duration::from_millis(500);
/// How many agents' words one replica passes on: a median needs no more.
const CLAIMS: usize = 256;

/// Keeps cluster time until the replica stops.
pub async fn run(shared: Arc<Shared>) {
    let mut stopping = shared.stopping.subscribe();
    let mut asking = None;
    loop {
        let pause = tokio::select! {
            pause = round(&shared, &mut asking) => pause,
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopping.wait_for(|stopping| *stopping) => return,
        }
    }
}

/// Returns what this replica's clocks say.
#[must_use]
pub fn standing(shared: &Shared, with_claims: bool) -> v1::ClocksReply {
    let reading = clock::read();
    let line = shared.clock.line();
    let claims = if with_claims { shared.clock.claims(CLAIMS) } else { Vec::new() };
    v1::ClocksReply {
        replica: shared.replica().get(),
        cluster_time_at: shared.clock.now().map(Timestamp::as_millis),
        source: line.map(|(_, source)| word(source)).unwrap_or_default(),
        leads: shared.standing().is_leader(),
        wall_at: reading.wall.as_millis(),
        boot: shared.clock.boot_id().to_owned(),
        boot_ms: reading.boot.as_millis(),
        slew_ppm: line
            .map(|(line, _)| line.slew())
            .filter(|slew| slew.until > reading.boot)
            .map_or(0, |s| s.ppm),
        claims: claims
            .into_iter()
            .map(|(node, time)| v1::AgentClaim { node: node.get(), cluster_time_at: time.as_millis() })
            .collect(),
        alarms: shared.clock.walls().alarms.iter().map(ToString::to_string).collect(),
    }
}

fn word(source: Source) -> String {
    match source {
        Source::Founding => "the founding".to_owned(),
        Source::Kept => "kept".to_owned(),
        Source::Replicas(1) => "another replica".to_owned(),
        Source::Replicas(count) => format!("{count} replicas"),
        Source::Agents(1) => "an agent".to_owned(),
        Source::Agents(count) => format!("{count} agents"),
        Source::WallClock { .. } => "the wall clock".to_owned(),
        Source::LastEntry { .. } => "the last entry".to_owned(),
    }
}

/// Does what is to be done now, and returns after how long to look again.
async fn round(shared: &Arc<Shared>, asking: &mut Option<Deadline>) -> Duration {
    shared.clock.keep();
    if shared.clock.now().is_none() {
        // Before the founding there is no time to ask for.
        if shared.views.now().state.meta.time > Timestamp::ZERO {
            ask(shared, asking).await;
        }
        if shared.clock.now().is_none() {
            return ASK;
        }
    }
    *asking = None;
    if shared.standing().is_leader() {
        say(shared).await;
        slew(shared).await;
    } else {
        follow(shared).await;
    }
    ROUND
}

/// Asks the other replicas; one that leads, and finds nobody among them who knows, goes by the agents.
async fn ask(shared: &Arc<Shared>, asking: &mut Option<Deadline>) {
    let others = others(shared);
    let asked = others.len();
    let answers = shared.peers.clocks(others, true, ANSWER).await;
    if let Some((time, answer)) = answers.iter().find(|answer| answer.reply.leads).and_then(known) {
        shared.clock.follow(time, answer.sent, answer.received);
        return;
    }
    let now = clock::boot();
    let replicas: Vec<Timestamp> = answers
        .iter()
        .filter_map(known)
        .map(|(time, answer)| time.plus(now.since(answer.received)))
        .collect();
    // Only the leader needs cluster time at any price: a follower gets the leader's.
    let view = shared.views.now();
    let standing = shared.standing();
    let is_to_decide = standing.is_leader() && view.term.get() >= standing.term;
    if replicas.is_empty() && !is_to_decide {
        *asking = None;
        return;
    }
    let deadline = *asking.get_or_insert_with(|| Deadline::after(shared.config.witness_wait()));
    let wait = Wait {
        have_replicas_answered: answers.len() == asked,
        agents: view.state.nodes.len(),
        is_over: deadline.is_over(),
    };
    if shared.clock.ask(&replicas, &heard(&answers), wait) {
        let source = shared.clock.line().map(|(_, source)| word(source)).unwrap_or_default();
        tracing::warn!(source, "this machine restarted: cluster time was asked for");
    }
}

/// Returns an answer's cluster time with it, if it has one.
fn known(answer: &Clocks) -> Option<(Timestamp, &Clocks)> {
    answer.reply.cluster_time_at.map(|time| (Timestamp::from_millis(time), answer))
}

/// Returns what agents said to other replicas, as of now.
fn heard(answers: &[Clocks]) -> BTreeMap<NodeId, Timestamp> {
    let now = clock::boot();
    let mut heard = BTreeMap::new();
    for answer in answers {
        for claim in &answer.reply.claims {
            let time = Timestamp::from_millis(claim.cluster_time_at).plus(now.since(answer.received));
            heard.insert(NodeId::new(claim.node), time);
        }
    }
    heard
}

/// Has the log say where cluster time was taken from, if no replica had kept it.
async fn say(shared: &Arc<Shared>) {
    let Some(resume) = shared.clock.to_say() else { return };
    tracing::warn!(what = %resume.what, "cluster time");
    let actor = Actor::Replica(shared.replica());
    let entry = Entry {
        time: Timestamp::ZERO,
        actor,
        via: None,
        request: None,
        command: Command::ResumeTime(resume),
    };
    match write::here(shared, entry).await {
        Tried::Applied(..) => shared.clock.said(),
        // Somebody else leads, who may say better; or it is tried again.
        Tried::Refused(_) | Tried::Elsewhere(_) => {}
    }
}

async fn slew(shared: &Arc<Shared>) {
    let answers = shared.peers.clocks(others(shared), false, ANSWER).await;
    let reading = clock::read();
    let own = Wall { replica: shared.replica(), at: reading.wall };
    let mut walls = vec![own];
    for answer in answers {
        let way = answer.received.since(answer.sent);
        if u128::from(way.as_millis()) > WAY.as_millis() {
            continue;
        }
        // As of now: half of the way and what has passed since.
        let age = Span::from_millis(way.as_millis() / 2).plus(reading.boot.since(answer.received));
        let at = Timestamp::from_millis(answer.reply.wall_at).plus(age);
        walls.push(Wall { replica: ReplicaId::new(answer.reply.replica), at });
    }
    if shared.standing().is_leader() {
        shared.clock.slew(&walls);
    }
}

async fn follow(shared: &Arc<Shared>) {
    let standing = shared.standing();
    let Some(leader) = standing.leader.filter(|leader| leader.id.get() != shared.replica().get()) else {
        return;
    };
    let answers = shared.peers.clocks(vec![leader.peer_addr], false, ANSWER).await;
    let Some((time, answer)) = answers.iter().find(|answer| answer.reply.leads).and_then(known) else {
        return;
    };
    if !shared.standing().is_leader() {
        shared.clock.follow(time, answer.sent, answer.received);
    }
}

/// Returns where the other members are.
pub(super) fn others(shared: &Shared) -> Vec<String> {
    let own = shared.replica().get();
    let members = shared.standing().members;
    members.into_iter().filter(|member| member.id.get() != own).map(|member| member.peer_addr).collect()
}
