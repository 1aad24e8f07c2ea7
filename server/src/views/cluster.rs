//! The control plane itself.

use proto::v1;
use raft_store::Status as Standing;
use scheduler_core::budget::{Became, TimedEdit};
use scheduler_core::id::EditId;
use scheduler_core::job::Phase;
use scheduler_core::node::Node;
use scheduler_core::state::State;

use super::{Scene, pool, replicas, words};

/// What is asked of replicas and not in state.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// How this replica's log stands.
    pub standing: Standing,
    /// What each replica that answered said of itself.
    pub replies: Vec<v1::StandingReply>,
}

/// Returns the control plane's view.
#[must_use]
pub fn view(scene: Scene<'_>, gathered: &Gathered) -> v1::ClusterView {
    let state = scene.state();
    let meta = &state.meta;
    let leader = gathered.standing.leader.as_ref();
    let of_leader = leader.and_then(|leader| gathered.reply(leader.id));
    let (waiting, running) = counts(state);
    let mut alarms: Vec<String> = meta.time_alarm.iter().map(|alarm| alarm.what.clone()).collect();
    alarms.extend(of_leader.into_iter().flat_map(|reply| reply.time_alarms.iter().cloned()));
    for reply in &gathered.replies {
        alarms.extend(reply.alarms.iter().map(|alarm| format!("r{}: {alarm}", reply.replica)));
    }
    alarms
        .extend(meta.alarms.iter().map(|(node, what)| format!("{}: {what}", words::node_name(state, *node))));
    alarms.extend(state.nodes.values().filter_map(closed));
    alarms.extend(state.edits.iter().filter_map(dropped));
    v1::ClusterView {
        schema: "cluster/v1".to_owned(),
        as_of: scene.as_of(),
        cluster: meta.cluster.map(|cluster| cluster.to_string()).unwrap_or_default(),
        epoch: meta.epoch.get(),
        replicas: gathered.standing.members.iter().map(|member| replicas::view(member, gathered)).collect(),
        pools: pool::pools(state, scene.now),
        agents_connected: of_leader.map_or(0, |reply| reply.agents_connected),
        agents: u32::try_from(state.nodes.len()).unwrap_or(u32::MAX),
        safe_mode: meta.safe_mode.as_ref().map(|mode| mode.what.clone()),
        jobs_waiting: waiting,
        jobs_running: running,
        term: gathered.standing.term,
        last_plan: of_leader.and_then(|reply| reply.last_plan.clone()),
        last_plan_at: of_leader.and_then(|reply| reply.last_plan_at),
        simulated_allowed: meta.settings.allow_simulated,
        digest: digest(state),
        alarms,
        led_for_ms: of_leader.and_then(|reply| reply.led_for_ms),
        changing: gathered.standing.is_changing,
    }
}

/// Returns what became of an edit of the tree that did not hold any more when its time came.
fn dropped((id, edit): (&EditId, &TimedEdit)) -> Option<String> {
    match edit.became.as_ref()? {
        Became::Dropped { why } => Some(format!(
            "edit {id} of the budgets, by {}, was dropped when its time came: {why} (`bursar budget cancel {id} --reason \
             seen` takes this away)",
            edit.by
        )),
        Became::Applied { .. } => None,
    }
}

/// Returns what an operator has to look at on a node that the control plane itself took out of use.
fn closed(node: &Node) -> Option<String> {
    let cordon = node.cordon.as_ref().filter(|cordon| cordon.who.is_none())?;
    Some(format!("{} takes no work until an operator uncordons it: {}", node.name, cordon.reason))
}

/// Returns the state's digest as text.
#[must_use]
pub fn digest(state: &State) -> String {
    state.digest().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn counts(state: &State) -> (u64, u64) {
    let waiting = u64::try_from(state.line.len()).unwrap_or(u64::MAX);
    let live = state.jobs.values().filter(|job| matches!(job.phase, Phase::Live(_))).count();
    (waiting, u64::try_from(live).unwrap_or(u64::MAX))
}
