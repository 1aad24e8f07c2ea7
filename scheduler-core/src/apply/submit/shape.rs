//! Whether any node can ever hold a job: judged against all known nodes, those that are down too.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::command::{Code, Rejection};
use crate::id::Name;
use crate::lifecycle::need;
use crate::node::Node;
use crate::spec::{Request, Shape};
use crate::state::State;

/// Refuses a shape that no known node could hold if it were empty; with none known yet, the job waits.
pub(super) fn check(state: &State, request: &Request) -> Result<(), Rejection> {
    let shape = &request.shape;
    if shape.nodes == 0 || shape.gpus_per_node.get() == 0 {
        let what = String::from("the job asks for no GPU");
        return Err(Rejection::new(Code::BadSpec, what, "", String::from("--gpus 1 or more")));
    }
    if shape.nodes > 1 {
        return Err(Rejection::new(
            Code::ImpossibleShape,
            format!("the job asks for {} nodes", shape.nodes),
            "jobs over several nodes come later; this build places a job on one",
            String::from("--gpus up to the size of a node"),
        ));
    }
    if shape.cpus == Some(0) || shape.memory.is_some_and(|memory| memory.get() == 0) {
        let what = String::from("the job asks for no core or no memory");
        let fix = String::from("leave it out: a job gets its GPUs' part of the node");
        return Err(Rejection::new(Code::BadSpec, what, "", fix));
    }
    let known: Vec<&Node> = state.nodes.values().filter(|node| node.facts.is_some()).collect();
    if known.is_empty() {
        return Ok(());
    }
    let is_in = |node: &&&Node| request.cluster.as_ref().is_none_or(|cluster| node.pool == *cluster);
    let there: Vec<&Node> = known.iter().filter(is_in).copied().collect();
    match &request.cluster {
        Some(cluster) if there.is_empty() => Err(unknown_cluster(state, cluster)),
        _ if there.iter().any(|node| need::could_hold(shape, node)) => Ok(()),
        _ => Err(impossible(shape, there)),
    }
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
        format!("no node has {asked} on one node"),
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
