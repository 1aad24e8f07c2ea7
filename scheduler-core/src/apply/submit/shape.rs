//! Whether any node can ever hold a job: judged against all known nodes, those that are down too.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::command::{Code, Rejection};
use crate::id::Name;
use crate::lifecycle::need;
use crate::node::Node;
use crate::spec::{Request, Shape};
use crate::state::State;
use crate::unit::GpuCount;

/// The most nodes of one job.
const JOB_NODES_MAX: u32 = 4_096;

/// Returns the shape of a job: more GPUs than any node has become whole nodes. Refuses one that no set of known nodes
/// could hold if they were empty; with none known yet, the job waits.
pub(super) fn complete(state: &State, request: &Request) -> Result<Shape, Rejection> {
    let shape = &request.shape;
    check_numbers(shape)?;
    let known: Vec<&Node> = state.nodes.values().filter(|node| node.facts.is_some()).collect();
    if known.is_empty() {
        return Ok(shape.clone());
    }
    let is_in = |node: &&&Node| request.cluster.as_ref().is_none_or(|cluster| node.pool == *cluster);
    let there: Vec<&Node> = known.iter().filter(is_in).copied().collect();
    match &request.cluster {
        Some(cluster) if there.is_empty() => return Err(unknown_cluster(state, cluster)),
        _ => {}
    }
    let whole = whole_nodes(shape, &there);
    match [shape.clone()].into_iter().chain(whole).find(|shape| most_nodes(shape, &there) >= shape.nodes) {
        Some(shape) => Ok(shape),
        None if most_nodes(shape, &there) == 0 => Err(impossible(shape, there)),
        None => Err(too_few(shape, &there)),
    }
}

fn check_numbers(shape: &Shape) -> Result<(), Rejection> {
    if shape.nodes == 0 || shape.gpus_per_node.get() == 0 {
        let what = String::from("the job asks for no GPU");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("--gpus 1 or more")));
    }
    if shape.nodes > JOB_NODES_MAX {
        let what = format!("the job asks for {} nodes", shape.nodes);
        let fix = format!("at most {JOB_NODES_MAX}");
        return Err(Rejection::new(Code::ImpossibleShape, what, "", fix));
    }
    if shape.cpus == Some(0) || shape.memory.is_some_and(|memory| memory.get() == 0) {
        let what = String::from("the job asks for no core or no memory");
        let fix = String::from("leave it out: a job gets its GPUs' part of the node");
        return Err(Rejection::new(Code::BadSpec, what, "", fix));
    }
    Ok(())
}

/// Returns the shape as whole nodes, if it is larger than a node and such nodes make it up: of the sizes that divide
/// it the largest that enough nodes of one pool have.
fn whole_nodes(shape: &Shape, nodes: &[&Node]) -> Option<Shape> {
    let asked = shape.gpus_per_node.get();
    if shape.nodes != 1 {
        return None;
    }
    let size = |node: &&Node| u32::try_from(of_type(shape, node)).unwrap_or(0);
    let sizes: BTreeSet<u32> = nodes.iter().map(size).collect();
    let divide =
        sizes.into_iter().rev().filter(|size| *size > 0 && *size < asked && asked.is_multiple_of(*size));
    divide
        .map(|size| Shape { nodes: asked / size, gpus_per_node: GpuCount::new(size), ..shape.clone() })
        .find(|whole| whole.nodes <= JOB_NODES_MAX && most_nodes(whole, nodes) >= whole.nodes)
}

/// Returns how many nodes of one pool could each hold a rank, in the pool that has the most.
fn most_nodes(shape: &Shape, nodes: &[&Node]) -> u32 {
    let mut by_pool: BTreeMap<&Name, u32> = BTreeMap::new();
    for node in nodes.iter().filter(|node| need::could_hold(shape, node)) {
        *by_pool.entry(&node.pool).or_default() += 1;
    }
    by_pool.into_values().max().unwrap_or(0)
}

fn too_few(shape: &Shape, nodes: &[&Node]) -> Rejection {
    let most = most_nodes(shape, nodes);
    let gpus = if shape.gpus_per_node.get() == 1 { "GPU" } else { "GPUs" };
    Rejection::new(
        Code::ImpossibleShape,
        format!("the job asks for {} nodes with {} {gpus} each", shape.nodes, shape.gpus_per_node),
        "a job is in one cluster, and none has so many nodes that could hold a part of it; it would wait for ever",
        format!("ask for at most {most} nodes of this kind"),
    )
}

fn unknown_cluster(state: &State, cluster: &Name) -> Rejection {
    let known: BTreeSet<&str> = state.nodes.values().map(|node| node.pool.as_str()).collect();
    let known: Vec<&str> = known.into_iter().take(8).collect();
    Rejection::new(
        Code::ImpossibleShape,
        format!("no node is in cluster `{cluster}`"),
        "",
        format!("leave --cluster out, or name one of: {}", known.join(", ")),
    )
}

fn impossible(shape: &Shape, mut nodes: Vec<&Node>) -> Rejection {
    // Nearest first: right type, then the GPUs nearest in number, then cores and memory; names settle ties.
    nodes.sort_by_key(|node| {
        let of_type = of_type(shape, node);
        let facts = node.facts.as_ref().map(|facts| (facts.cpus, facts.memory));
        let far = of_type.abs_diff(usize::try_from(shape.gpus_per_node.get()).unwrap_or(usize::MAX));
        (of_type == 0, far, core::cmp::Reverse(facts), &node.name)
    });
    let mut seen = BTreeSet::new();
    let nearest: Vec<String> = nodes
        .into_iter()
        .filter_map(|node| {
            let has = has(node);
            seen.insert(has.clone()).then(|| format!("{has} (such as `{}`)", node.name))
        })
        .take(2)
        .collect();
    let named = shape.gpu_type.as_ref().map_or_else(String::new, |t| format!(" `{t}`"));
    let mut asked = format!("{}{named} GPUs", shape.gpus_per_node);
    if let Some(cpus) = shape.cpus {
        asked += &format!(", {cpus} cores");
    }
    if let Some(memory) = shape.memory {
        asked += &format!(", {} GiB of memory", memory.get().div_ceil(GIB));
    }
    Rejection::new(
        Code::ImpossibleShape,
        match shape.nodes {
            1 => format!("no node has {asked}, and no whole nodes make that up"),
            _ => format!("no node has {asked}"),
        },
        "the job would wait for ever",
        format!("ask for what a node has; the nearest: {}", nearest.join("; ")),
    )
}

const GIB: u64 = 1 << 30;

fn of_type(shape: &Shape, node: &Node) -> usize {
    node.gpus.iter().filter(|gpu| need::is_of_type(shape, gpu)).count()
}

fn has(node: &Node) -> String {
    let models: BTreeSet<&str> = node.gpus.iter().map(|gpu| gpu.model.as_str()).collect();
    let models: Vec<&str> = models.into_iter().collect();
    let (cpus, memory) = node.facts.as_ref().map_or((0, 0), |facts| (facts.cpus, facts.memory.get() / GIB));
    let gpus = match models.as_slice() {
        [] => String::from("no GPU"),
        some => format!("{} x {}", node.gpus.len(), some.join(" and ")),
    };
    let cpus = cpus.to_string();
    format!("{gpus}, {cpus} cores, {memory} GiB")
}
