//! An operator makes a pool of clusters, or says what its types of GPU count.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::context::Context;
use super::entry::DONE;
use super::rights;
use crate::command::{Answer, Code, Rejection, SetPool};
use crate::id::{Name, NodeId};
use crate::ledger::{Class, Weighed};
use crate::lifecycle::{gpu, need, want};
use crate::node::{Node, POOLS_MAX};
use crate::pool::{self, Pool, WEIGHTS_MAX};
use crate::state::State;
use crate::table::Table;
use crate::unit::Weight;

/// Takes a pool as it is to be. What was charged stays as it was, and in the books where it was; so does the rate of what
/// runs. Capacity counts by the new weights from now on.
pub(super) fn set_pool(state: &mut State, cx: &Context<'_>, set: &SetPool) -> Answer {
    rights::operator(state, cx)?;
    check(set)?;
    let pools = with(state, set)?;
    let moves = moves(state, &pools);
    check_books(state, &moves)?;
    moves.iter().try_for_each(|(id, to)| check_empty(state, *id, to))?;
    state.pools = pools;
    let is_moved = !moves.is_empty();
    for (id, to) in moves {
        move_node(state, cx, id, &to);
    }
    let here: Vec<NodeId> =
        state.nodes.iter().filter(|(_, node)| node.pool == set.pool).map(|(id, _)| *id).collect();
    here.into_iter().for_each(|id| reweigh(state, cx, id));
    if is_moved {
        want::pools_changed(state, cx.now);
    }
    DONE
}

fn check(set: &SetPool) -> Result<(), Rejection> {
    let refuse = |what: String, fix: &str| Err(Rejection::new(Code::BadSpec, what, "", String::from(fix)));
    if set.clusters.len() > POOLS_MAX {
        return refuse(format!("a pool of {} clusters", set.clusters.len()), "there are at most 64");
    }
    if set.weights.len() > WEIGHTS_MAX {
        let what = format!("weights for {} types of GPU; at most {WEIGHTS_MAX}", set.weights.len());
        return refuse(what, "name fewer: a part of a model's name stands for all that have it");
    }
    let mut seen = BTreeSet::new();
    match set.weights.iter().find(|(kind, _)| !seen.insert(kind.as_str().to_ascii_lowercase())) {
        Some((twice, _)) => refuse(format!("the GPU type `{twice}` has two weights"), "name it once"),
        None => Ok(()),
    }
}

/// Returns the pools with this one as it is to be: a cluster is in one pool alone.
fn with(state: &State, set: &SetPool) -> Result<Table<Name, Pool>, Rejection> {
    let mut pools = state.pools.clone();
    if set.clusters.is_empty() && set.weights.is_empty() {
        pools.remove(&set.pool);
        return Ok(pools);
    }
    let others = state.pools.iter().filter(|(name, _)| **name != set.pool);
    let mut theirs = others.flat_map(|(name, pool)| pool.clusters.iter().map(move |cluster| (name, cluster)));
    if let Some((other, cluster)) = theirs.find(|(_, cluster)| set.clusters.contains(*cluster)) {
        let what = format!("cluster `{cluster}` is in pool `{other}`");
        let fix = format!("take it out there first: `bursar cluster pool set {other}` with the others alone");
        return Err(Rejection::new(Code::Conflict, what, "a cluster is in one pool", fix));
    }
    if pools.len() >= POOLS_MAX && !pools.contains(&set.pool) {
        let what = format!("there are {POOLS_MAX} pools");
        return Err(Rejection::new(Code::Full, what, "", String::from("change one of those")));
    }
    pools.insert(set.pool.clone(), Pool { clusters: set.clusters.clone(), weights: set.weights.clone() });
    Ok(pools)
}

/// Returns the nodes that would be in another pool, and in which.
fn moves(state: &State, pools: &Table<Name, Pool>) -> Vec<(NodeId, Name)> {
    let to = |(id, node): (&NodeId, &Node)| {
        let to = pool::of_cluster(pools, &node.cluster);
        (to != node.pool).then_some((*id, to))
    };
    state.nodes.iter().filter_map(to).collect()
}

/// Refuses what would need more books than there may be: those of a pool that was left stay.
fn check_books(state: &State, moves: &[(NodeId, Name)]) -> Result<(), Rejection> {
    let new = moves.iter().map(|(_, to)| to);
    let all: BTreeSet<&Name> = state.books.pools().keys().chain(new).collect();
    if all.len() <= POOLS_MAX {
        return Ok(());
    }
    let what = format!("there would be books of {} pools; at most {POOLS_MAX}", all.len());
    Err(Rejection::new(Code::Full, what, "", String::from("use the name of a pool that there was")))
}

/// Refuses to move a node with anything on it: what runs there is in the books of its pool, and a date there is of that
/// pool's head.
fn check_empty(state: &State, id: NodeId, to: &Name) -> Result<(), Rejection> {
    let Some(node) = state.nodes.get(&id) else { return Ok(()) };
    let running = need::attempts_on(node).into_iter().next().map(|attempt| format!("{attempt} is on it"));
    let is_here = |on: &[(NodeId, Vec<crate::id::Slot>)]| on.iter().any(|(at, _)| *at == id);
    let dated = || {
        let date = state.dates.iter().find(|(_, date)| is_here(&date.promise.on));
        date.map(|((job, _), _)| format!("job {job} has a date there"))
    };
    let Some(why) = running.or_else(dated) else { return Ok(()) };
    Err(Rejection::new(
        Code::Conflict,
        format!("node `{}` can't go from pool `{}` to `{to}`: {why}", node.name, node.pool),
        "what runs, and what is promised, stays in the books where it was placed",
        format!("drain the nodes of cluster `{}` first, and undrain them then", node.cluster),
    ))
}

/// Books an empty node's GPUs out of one pool and into another.
fn move_node(state: &mut State, cx: &Context<'_>, id: NodeId, to: &Name) {
    let Some(node) = state.nodes.get_mut(&id) else { return };
    let from = core::mem::replace(&mut node.pool, to.clone());
    let mut booked: Vec<(Weighed, Weight, Class)> = Vec::new();
    for at in 0..node.gpus.len() {
        let class = gpu::class_when_free(node, &node.gpus[at]);
        let gpu = &mut node.gpus[at];
        let before = gpu.weighed();
        gpu.weight = pool::weight_of(&state.pools, to, &gpu.model);
        booked.push((before, gpu.weight, class));
    }
    for (before, weight, class) in booked {
        state.books.gpus_removed(&from, before, class, cx.now);
        state.books.gpus_added(to, Weighed { weight, ..before }, class, cx.now);
    }
}

/// Has a node's GPUs count what their pool says now.
fn reweigh(state: &mut State, cx: &Context<'_>, id: NodeId) {
    let pools = state.pools.clone();
    crate::lifecycle::service::change(state, id, cx.now, |node| {
        let pool = node.pool.clone();
        for gpu in &mut node.gpus {
            gpu.weight = pool::weight_of(&pools, &pool, &gpu.model);
        }
    });
}
