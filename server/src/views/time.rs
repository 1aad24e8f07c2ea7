//! Cluster time and clocks.

use std::collections::BTreeMap;

use proto::v1;
use scheduler_core::cluster_time::BootTime;
use scheduler_core::report::PassedOver;
use scheduler_core::unit::{Span, Timestamp};

use super::{Scene, words};
use crate::peers::Clocks;

/// Returns what everybody's clocks say, as of `now` on this machine's boot clock.
#[must_use]
pub fn view(scene: Scene<'_>, members: &[u64], answers: &[Clocks], now: BootTime) -> v1::ClusterTimeView {
    let meta = &scene.state().meta;
    let leader = answers.iter().find(|answer| answer.reply.leads);
    let time = leader.and_then(|answer| Some(as_of(answer.reply.cluster_time_at?, answer, now)));
    let time = time.unwrap_or(scene.now);
    let mut walls: Vec<Timestamp> =
        answers.iter().map(|answer| as_of(answer.reply.wall_at, answer, now)).collect();
    walls.sort_unstable();
    let wall = walls.get(walls.len().saturating_sub(1) / 2).copied();
    // One node may have greeted several replicas.
    let heard =
        answers.iter().flat_map(|answer| answer.reply.claims.iter().map(move |claim| (claim, answer)));
    let heard = heard.map(|(claim, answer)| (claim.node, as_of(claim.cluster_time_at, answer, now)));
    let mut agents: Vec<Timestamp> = heard.collect::<BTreeMap<_, _>>().into_values().collect();
    agents.sort_unstable();
    let agent = agents.get(agents.len().saturating_sub(1) / 2).copied();
    let mut alarms: Vec<String> = meta.time_alarm.iter().map(|alarm| alarm.what.clone()).collect();
    alarms.extend(leader.into_iter().flat_map(|answer| answer.reply.alarms.iter().cloned()));
    v1::ClusterTimeView {
        schema: "cluster-time/v1".to_owned(),
        as_of: scene.as_of(),
        cluster_time_at: time.as_millis(),
        entry_at: meta.time.as_millis(),
        wall_at: wall.map(Timestamp::as_millis),
        wall_ahead_ms: wall.map(|wall| ahead(wall, time)),
        slew_ppm: leader.map_or(0, |answer| answer.reply.slew_ppm),
        replicas: members.iter().map(|member| replica(*member, answers, time, now)).collect(),
        alarms,
        agents: u32::try_from(agents.len()).unwrap_or(u32::MAX),
        agents_ahead_ms: agent.map(|agent| ahead(agent, time)),
        set_last_at: meta.time_jump.map(|jump| jump.to.as_millis()),
    }
}

fn replica(member: u64, answers: &[Clocks], time: Timestamp, now: BootTime) -> v1::ReplicaClock {
    let Some(answer) = answers.iter().find(|answer| answer.reply.replica == member) else {
        return v1::ReplicaClock {
            replica: member,
            role: "no answer".to_owned(),
            ..v1::ReplicaClock::default()
        };
    };
    let reply = &answer.reply;
    let wall = as_of(reply.wall_at, answer, now);
    let own = reply.cluster_time_at.map(|at| as_of(at, answer, now).as_millis());
    v1::ReplicaClock {
        replica: member,
        role: if reply.leads { "leader" } else { "follower" }.to_owned(),
        cluster_time_at: own,
        wall_at: Some(wall.as_millis()),
        wall_ahead_ms: Some(ahead(wall, time)),
        boot: Some(reply.boot.clone()),
        up_ms: Some(reply.boot_ms),
        source: reply.cluster_time_at.map(|_| reply.source.clone()),
    }
}

/// Returns a moment of an answer, as of now: half of its way and what has passed since.
fn as_of(at: u64, answer: &Clocks, now: BootTime) -> Timestamp {
    let way = answer.received.since(answer.sent).as_millis() / 2;
    let age = Span::from_millis(way).plus(now.since(answer.received));
    Timestamp::from_millis(at).plus(age)
}

/// Returns by how much one moment is ahead of another, in ms.
fn ahead(one: Timestamp, of: Timestamp) -> i64 {
    let ms = |span: Span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    ms(one.since(of)) - ms(of.since(one))
}

/// Returns what setting cluster time to `to` passes over.
#[must_use]
pub fn outlook(scene: Scene<'_>, to: Timestamp, passed: &PassedOver) -> v1::SetTimeView {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let ends = passed.ended.iter().map(|cut| v1::ProtectionEnd {
        at: cut.until.as_millis(),
        attempt: cut.attempt.to_string(),
        budget: words::budget_path(scene.state(), cut.budget),
        gpus: cut.gpus,
    });
    v1::SetTimeView {
        schema: "set-time/v1".to_owned(),
        as_of: scene.as_of(),
        from_at: scene.now.as_millis(),
        to_at: to.as_millis(),
        ahead_ms: passed.span.as_millis(),
        protections: ends.collect(),
        shortened: count(passed.shortened),
        booked_gpu_ms: passed.booked.get(),
        starts: count(passed.starts),
        drains: count(passed.drains),
        waits: count(passed.waits),
        join_tokens: count(passed.joins),
        ended_jobs: count(passed.leaving),
        requests: count(passed.requests),
        alarm: scene.state().meta.time_alarm.as_ref().map(|alarm| alarm.what.clone()),
    }
}
