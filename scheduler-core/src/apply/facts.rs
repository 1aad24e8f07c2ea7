//! What an agent says of its node.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::context::Context;
use super::entry::DONE;
use super::rights;
use crate::command::{Answer, Code, Rejection};
use crate::id::{AttemptId, GpuUuid, Label, Name, NodeId, Rank};
use crate::job::{AttemptEnd, Ended, Exit};
use crate::ledger::{Class, Weighed};
use crate::lifecycle::gpu::class_when_free;
use crate::lifecycle::{freed, go, need, rank, service, stray, want};
use crate::node::{Contact, Facts, GPUS_MAX, Gpu, GpuFacts, Node};
use crate::pool;
use crate::state::State;
use crate::unit::Timestamp;

/// The most lines about what is wrong with a node, and the longest.
const TROUBLE_MAX: usize = 32;
const TROUBLE_LEN_MAX: usize = 1_024;

/// Takes the facts of a node. Another boot id ends everything that ran there: the machine restarted.
pub(super) fn node_facts(state: &mut State, cx: &Context<'_>, id: NodeId, facts: &Facts) -> Answer {
    let Some(node) = state.nodes.get(&id) else {
        return Err(Rejection::new(Code::NotFound, format!("there is no node {id}"), "", String::new()));
    };
    check(state, id, node, facts)?;
    let has_restarted = node.facts.as_ref().is_some_and(|before| before.boot != facts.boot);
    if has_restarted {
        let confirmed = match node.contact {
            Contact::Unreachable { since } => since,
            Contact::Joined | Contact::Ready => cx.now,
        };
        restarted(state, id, confirmed, cx.now);
    }
    let elsewhere = present_elsewhere(state, id, facts);
    if let Some(uuid) = elsewhere.iter().next() {
        rights::raise(state, id, format!("GPU {uuid} is on another node too; it is not used here"));
    }
    let wanted: BTreeMap<&GpuUuid, &GpuFacts> = facts
        .gpus
        .iter()
        .map(|gpu| (&gpu.uuid, gpu))
        .filter(|(uuid, _)| !elsewhere.contains(*uuid))
        .collect();
    let (pools, pool) = (state.pools.clone(), node_pool(state, id));
    let counts = |model: &Label| pool::weight_of(&pools, &pool, model);
    service::change(state, id, cx.now, |node| {
        node.contact = Contact::Ready;
        node.facts = Some(facts.clone());
        for gpu in &mut node.gpus {
            gpu.is_present = false;
            if let Some(now) = wanted.get(&gpu.uuid) {
                (gpu.is_present, gpu.memory, gpu.weight) = (true, now.memory, counts(&now.model));
                gpu.model = now.model.clone();
            }
        }
    });
    add_new(state, id, facts, &wanted, cx.now);
    // A GPU that is back, or cores: somebody may have waited for them.
    go::go_on(state, id, cx.now);
    DONE
}

fn check(state: &State, id: NodeId, node: &Node, facts: &Facts) -> Result<(), Rejection> {
    if facts.is_simulated && !state.meta.settings.allow_simulated {
        return Err(Rejection::new(
            Code::Simulated,
            format!("node `{}` simulates its GPUs", node.name),
            "this control plane has real GPUs alone",
            String::from("use one that was founded with --allow-simulated"),
        ));
    }
    let known: BTreeSet<&GpuUuid> = node.gpus.iter().map(|gpu| &gpu.uuid).collect();
    let new = facts.gpus.iter().filter(|gpu| !known.contains(&gpu.uuid)).count();
    let is_long = |line: &String| line.len() > TROUBLE_LEN_MAX;
    if known.len() + new > GPUS_MAX || facts.trouble.len() > TROUBLE_MAX || facts.trouble.iter().any(is_long)
    {
        let what = format!("the facts of node {id} are larger than any node's");
        return Err(Rejection::new(Code::BadSpec, what, "", format!("at most {GPUS_MAX} GPUs")));
    }
    Ok(())
}

/// The same GPU on two nodes would be two placements on one device: the node that had it first keeps it.
fn present_elsewhere(state: &State, id: NodeId, facts: &Facts) -> BTreeSet<GpuUuid> {
    let here: BTreeSet<&GpuUuid> = facts.gpus.iter().map(|gpu| &gpu.uuid).collect();
    let others = state.nodes.iter().filter(|(other, _)| **other != id);
    others
        .flat_map(|(_, node)| &node.gpus)
        .filter(|gpu| (gpu.is_present || gpu.holder.is_some()) && here.contains(&gpu.uuid))
        .map(|gpu| gpu.uuid.clone())
        .collect()
}

fn add_new(
    state: &mut State,
    id: NodeId,
    facts: &Facts,
    wanted: &BTreeMap<&GpuUuid, &GpuFacts>,
    now: Timestamp,
) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let mut added: Vec<(Weighed, Class)> = Vec::new();
    // In the order of the facts, which is the driver's: slots are what people see.
    for gpu in facts.gpus.iter().filter(|gpu| wanted.contains_key(&gpu.uuid)) {
        if node.gpus.iter().any(|known| known.uuid == gpu.uuid) {
            continue;
        }
        let gpu = Gpu {
            uuid: gpu.uuid.clone(),
            model: gpu.model.clone(),
            memory: gpu.memory,
            weight: pool::weight_of(&state.pools, &node.pool, &gpu.model),
            is_present: true,
            holder: None,
            next: None,
        };
        added.push((gpu.weighed(), class_when_free(node, &gpu)));
        node.gpus.push(gpu);
    }
    let pool = node.pool.clone();
    let is_new = state.books.pool(&pool).is_none() && !added.is_empty();
    for (gpu, class) in added {
        state.books.gpus_added(&pool, gpu, class, now);
    }
    if is_new {
        want::pool_opened(state);
    }
}

/// The machine restarted, so every process there is gone: ranks end, and their GPUs are proven empty. What waits for
/// its go had no process there; only its agent has to make everything ready once more.
fn restarted(state: &mut State, id: NodeId, confirmed: Timestamp, now: Timestamp) {
    stray::all_gone(state, id, now);
    let attempts = state.nodes.get(&id).map(need::attempts_on).unwrap_or_default();
    let has_go = |id: &AttemptId| state.attempts.get(id).is_some_and(|attempt| attempt.go_at.is_some());
    let (ran, waiting): (Vec<AttemptId>, Vec<AttemptId>) = attempts.into_iter().partition(has_go);
    for attempt in waiting {
        let Some(attempt) = state.attempts.get_mut(&attempt) else { continue };
        for placement in attempt.placements.iter_mut().filter(|placement| placement.node == id) {
            placement.ready_at = None;
        }
    }
    for attempt in ran {
        for rank in ranks_on(state, attempt, id) {
            let ended = Ended { at: confirmed, cause: AttemptEnd::NodeLost, exit: Some(Exit::Unknown) };
            rank::ended(state, attempt, rank, ended, now);
            freed::freed(state, attempt, rank, confirmed, now);
        }
    }
}

fn node_pool(state: &State, id: NodeId) -> Name {
    state.nodes.get(&id).map(|node| node.pool.clone()).expect("the caller found the node")
}

fn ranks_on(state: &State, attempt: AttemptId, node: NodeId) -> Vec<Rank> {
    let placements = state.attempts.get(&attempt).map(|attempt| attempt.placements.as_slice());
    let here = placements.unwrap_or_default().iter().filter(|placement| placement.node == node);
    here.map(|placement| placement.rank).collect()
}
