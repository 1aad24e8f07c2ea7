//! Whether any node can ever hold a job: judged against all known nodes, those that are down too.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::command::{Code, Rejection};
use crate::id::{Label, Name, NodeId};
use crate::lifecycle::need;
use crate::node::Node;
use crate::spec::{Request, Shape};
use crate::state::State;
use crate::unit::GpuCount;

/// The most nodes of one job.
const JOB_NODES_MAX: u32 = 4_096;
/// The most GPU types of one job.
const TYPES_MAX: usize = 8;

/// Returns the shape of a job: more GPUs than any node has become whole nodes. Refuses one that no set of known nodes
/// could hold if they were empty, but for those that are excluded; with none known yet, the job waits.
pub(super) fn complete(
    state: &State,
    request: &Request,
    exclude: &BTreeSet<NodeId>,
) -> Result<Shape, Rejection> {
    let shape = &request.shape;
    check_numbers(shape)?;
    check_types(shape)?;
    let known = state.nodes.iter().filter(|(_, node)| node.facts.is_some());
    let known: Vec<(NodeId, &Node)> = known.map(|(id, node)| (*id, node)).collect();
    if known.is_empty() {
        return Ok(shape.clone());
    }
    let is_in = |node: &Node| request.cluster.as_ref().is_none_or(|cluster| node.cluster == *cluster);
    let there: Vec<(NodeId, &Node)> = known.into_iter().filter(|(_, node)| is_in(node)).collect();
    match &request.cluster {
        Some(cluster) if there.is_empty() => return Err(unknown_cluster(state, cluster)),
        _ => {}
    }
    let all: Vec<&Node> = there.iter().map(|(_, node)| *node).collect();
    check_level(shape, &all)?;
    let left: Vec<&Node> =
        there.iter().filter(|(id, _)| !exclude.contains(id)).map(|(_, node)| *node).collect();
    match fitting(shape, &left) {
        Some(shape) => Ok(shape),
        None if fitting(shape, &all).is_some() => Err(excluded(state, exclude)),
        None if most_nodes(shape, &all) == 0 => Err(impossible(shape, all)),
        None => Err(too_few(shape, &all)),
    }
}

/// Returns the nodes that are never to be used. Refuses names that no node has.
pub(super) fn exclude(state: &State, request: &Request) -> Result<BTreeSet<NodeId>, Rejection> {
    let find = |name: &Name| {
        let found = state.nodes.iter().find(|(_, node)| node.name == *name);
        found.map(|(id, _)| *id).ok_or_else(|| {
            let what = format!("there is no node `{name}` to exclude");
            Rejection::new(Code::BadSpec, what, "", String::from("`bursar node list` has their names"))
        })
    };
    request.asks.exclude.iter().map(find).collect()
}

/// Returns the shape, as it is or as whole nodes, if `nodes` could hold it.
fn fitting(shape: &Shape, nodes: &[&Node]) -> Option<Shape> {
    let whole = shape.of_each_type().into_iter().filter_map(|of_type| {
        let whole = whole_nodes(&of_type, nodes)?;
        Some(Shape { nodes: whole.nodes, gpus_per_node: whole.gpus_per_node, ..shape.clone() })
    });
    [shape.clone()].into_iter().chain(whole).find(|shape| most_nodes(shape, nodes) >= shape.nodes)
}

fn check_types(shape: &Shape) -> Result<(), Rejection> {
    let types: Vec<&Label> = shape.gpu_type.iter().chain(&shape.or_types).collect();
    let refuse = |what: String, fix: &str| Err(Rejection::new(Code::BadSpec, what, "", String::from(fix)));
    if shape.gpu_type.is_none() && !shape.or_types.is_empty() {
        return refuse(String::from("the first GPU type is missing"), "name it, or leave all of them out");
    }
    if types.len() > TYPES_MAX {
        return refuse(format!("the job names {} GPU types; at most {TYPES_MAX}", types.len()), "name fewer");
    }
    let is_same = |a: &Label, b: &Label| a.as_str().eq_ignore_ascii_case(b.as_str());
    match types.iter().enumerate().find(|(at, kind)| types[..*at].iter().any(|other| is_same(other, kind))) {
        Some((_, twice)) => refuse(format!("the job names the GPU type `{twice}` twice"), "name it once"),
        None => Ok(()),
    }
}

/// Refuses a level of topology that no node has.
fn check_level(shape: &Shape, nodes: &[&Node]) -> Result<(), Rejection> {
    let Some(level) = shape.within else { return Ok(()) };
    if level > 0 && nodes.iter().any(|node| node.group(level).is_some()) {
        return Ok(());
    }
    let deepest = nodes.iter().map(|node| node.topology.len()).max().unwrap_or(0);
    let example = nodes.iter().find(|node| node.topology.len() == deepest);
    let fix = match (deepest, example) {
        (0, _) | (_, None) => {
            String::from("leave `within` out: nobody has said yet where nodes are (`bursar node set`)")
        }
        (_, Some(node)) => {
            let names: Vec<&str> = node.topology.iter().map(Name::as_str).collect();
            format!("name a level from 1 to {deepest}: `{}` is in {}", node.name, names.join("/"))
        }
    };
    Err(Rejection::new(
        Code::BadSpec,
        format!("the job is to be within one group of level {level}, and no node has such a level"),
        "1 is the outermost level of the nodes' topology",
        fix,
    ))
}

fn excluded(state: &State, exclude: &BTreeSet<NodeId>) -> Rejection {
    let names = exclude.iter().filter_map(|id| state.nodes.get(id)).map(|node| node.name.as_str());
    let names: Vec<&str> = names.take(8).collect();
    Rejection::new(
        Code::ImpossibleShape,
        format!("without {} no set of nodes could hold the job", names.join(", ")),
        "it would wait for ever",
        String::from("exclude fewer nodes, or ask for less"),
    )
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
/// it the largest that enough nodes of one cluster have.
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

/// Returns how many nodes of one cluster, and of one group of it where the shape says so, could each hold a rank: in the one
/// that has the most.
fn most_nodes(shape: &Shape, nodes: &[&Node]) -> u32 {
    need::most_together(shape, nodes)
}

fn too_few(shape: &Shape, nodes: &[&Node]) -> Rejection {
    let most = most_nodes(shape, nodes);
    let gpus = if shape.gpus_per_node.get() == 1 { "GPU" } else { "GPUs" };
    let Some(level) = shape.within else {
        return Rejection::new(
            Code::ImpossibleShape,
            format!("the job asks for {} nodes with {} {gpus} each", shape.nodes, shape.gpus_per_node),
            "a job is in one cluster, and none has so many nodes that could hold a part of it; it would wait for ever",
            format!("ask for at most {most} nodes of this kind"),
        );
    };
    let anywhere = most_nodes(&Shape { within: None, ..shape.clone() }, nodes);
    let far = if anywhere >= shape.nodes { ", or leave `within` out" } else { "" };
    Rejection::new(
        Code::ImpossibleShape,
        format!(
            "the job asks for {} nodes with {} {gpus} each within one group of level {level}",
            shape.nodes, shape.gpus_per_node
        ),
        "no group has so many; it would wait for ever",
        format!("ask for at most {most} of them{far}; the largest: {}", largest(shape, level, nodes)),
    )
}

/// Names the two groups with the most nodes that could hold a part of a job.
fn largest(shape: &Shape, level: u8, nodes: &[&Node]) -> String {
    let mut groups: BTreeMap<(&Name, &[Name]), u32> = BTreeMap::new();
    for node in nodes.iter().filter(|node| need::could_hold(shape, node)) {
        if let Some(group) = node.group(level) {
            *groups.entry((&node.cluster, group)).or_default() += 1;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, count)| core::cmp::Reverse(*count));
    let named = groups.into_iter().take(2).map(|((_, group), count)| {
        let names: Vec<&str> = group.iter().map(Name::as_str).collect();
        format!("{} with {count}", names.join("/"))
    });
    named.collect::<Vec<_>>().join(", ")
}

fn unknown_cluster(state: &State, cluster: &Name) -> Rejection {
    let known: BTreeSet<&str> = state.nodes.values().map(|node| node.cluster.as_str()).collect();
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
    let types: Vec<String> =
        shape.gpu_type.iter().chain(&shape.or_types).map(|kind| format!("`{kind}`")).collect();
    let named = if types.is_empty() { String::new() } else { format!(" {}", types.join(" or ")) };
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
