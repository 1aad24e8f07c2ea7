//! A node and its GPUs.

use proto::v1;
use scheduler_core::id::NodeId;
use scheduler_core::node::{Contact, Gpu, Node};
use scheduler_core::queue;
use scheduler_core::report;
use scheduler_core::unit::Timestamp;

use super::Scene;
use super::pool;

/// What this replica knows of a node's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It says that it lives.
    Lately,
    /// Not lately.
    NotLately,
    /// This replica does not lead, or not for long enough to know.
    Unknown,
}

/// Returns a node.
#[must_use]
pub fn view(scene: Scene<'_>, id: NodeId, node: &Node, heard: Heard) -> v1::NodeView {
    let state = scene.state();
    let counts = queue::of_node(state, node, scene.now);
    let facts = node.facts.as_ref();
    v1::NodeView {
        schema: "node/v1".to_owned(),
        as_of: scene.as_of(),
        node: id.get(),
        name: node.name.to_string(),
        pool: node.pool.to_string(),
        cluster: node.cluster.to_string(),
        topology: super::words::topology(node),
        state: state_word(node, heard, scene.now).to_owned(),
        gpus: counts.gpus,
        protected: counts.protected,
        interruptible: counts.interruptible,
        free_tier: counts.free_tier,
        idle: counts.idle,
        unavailable: counts.unavailable,
        changing: counts.changing,
        gpu_model: node.gpus.first().map(|gpu| gpu.model.to_string()),
        agent_version: facts.map(|facts| facts.agent.to_string()).unwrap_or_default(),
        containment: facts.map(|facts| facts.containment.to_string()).unwrap_or_default(),
        simulated: facts.is_some_and(|facts| facts.is_simulated),
        trouble: facts.map(|facts| facts.trouble.clone()).unwrap_or_default(),
        gpu_list: node.gpus.iter().enumerate().map(|(slot, gpu)| gpu_view(scene, node, slot, gpu)).collect(),
        backoff_until_at: backoff(node, scene.now).map(Timestamp::as_millis),
        cpus: facts.map_or(0, |facts| facts.cpus),
        memory_bytes: facts.map_or(0, |facts| facts.memory.get()),
        machine: node.machine.to_string(),
        boot: facts.map(|facts| facts.boot.to_string()).unwrap_or_default(),
        unreachable_since_at: match node.contact {
            Contact::Unreachable { since } => Some(since.as_millis()),
            Contact::Joined | Contact::Ready => None,
        },
        alarm: state.meta.alarms.get(&id).cloned(),
        cordon_reason: node.cordon.as_ref().map(|cordon| cordon.reason.clone()),
        cordoned_by: node.cordon.as_ref().and_then(|cordon| cordon.who.as_ref()).map(ToString::to_string),
        cordoned_since_at: node.cordon.as_ref().map(|cordon| cordon.since.as_millis()),
        drain_reason: node.drain.as_ref().map(|drain| drain.reason.clone()),
        drained_by: node.drain.as_ref().map(|drain| drain.who.to_string()),
        drain_begins_at: node.drain.as_ref().map(|drain| drain.begins_at.as_millis()),
        empty_by_at: node
            .drain
            .as_ref()
            .and_then(|_| report::empty_by(state, id, scene.now)?.at)
            .map(Timestamp::as_millis),
        address: facts.and_then(|facts| facts.address.as_ref()).map(ToString::to_string),
    }
}

fn backoff(node: &Node, now: Timestamp) -> Option<Timestamp> {
    node.backoff_until.filter(|until| *until > now)
}

fn state_word(node: &Node, heard: Heard, now: Timestamp) -> &'static str {
    match node.contact {
        Contact::Joined => "joined",
        Contact::Unreachable { .. } => "unreachable",
        Contact::Ready if heard == Heard::NotLately => "silent",
        Contact::Ready if node.is_draining() => "draining",
        Contact::Ready if node.cordon.is_some() => "cordoned",
        Contact::Ready if backoff(node, now).is_some() => "backing-off",
        Contact::Ready => "ready",
    }
}

fn gpu_view(scene: Scene<'_>, node: &Node, slot: usize, gpu: &Gpu) -> v1::GpuView {
    let state = scene.state();
    let word = match gpu.holder {
        Some(holder) => holder.to_string(),
        None if gpu.is_present => "idle".to_owned(),
        None => "not-present".to_owned(),
    };
    let standing = queue::standing(state, node, gpu, scene.now);
    v1::GpuView {
        slot: u32::try_from(slot).unwrap_or(u32::MAX),
        uuid: gpu.uuid.to_string(),
        model: gpu.model.to_string(),
        state: word,
        holding: pool::holding(standing).to_owned(),
        until_at: pool::until(standing).map(Timestamp::as_millis),
        next: gpu.next.map(|attempt| attempt.to_string()),
    }
}
