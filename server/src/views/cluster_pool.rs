//! Pools: their clusters, and what their GPUs count.

use std::collections::{BTreeMap, BTreeSet};

use proto::v1;
use scheduler_core::id::{Label, Name};
use scheduler_core::node::Node;
use scheduler_core::state::State;
use scheduler_core::unit::Weight;

use super::Scene;

/// Returns all pools, by name: those that an operator made, and those of clusters that none of them names.
#[must_use]
pub fn list(scene: Scene<'_>) -> v1::ClusterPoolList {
    let state = scene.state();
    let of_nodes = state.nodes.values().map(|node| &node.pool);
    let names: BTreeSet<&Name> = state.pools.keys().chain(of_nodes).collect();
    v1::ClusterPoolList {
        schema: "pool-list/v1".to_owned(),
        as_of: scene.as_of(),
        pools: names.into_iter().map(|name| view(state, name)).collect(),
    }
}

fn view(state: &State, name: &Name) -> v1::ClusterPoolView {
    let made = state.pools.get(name);
    let nodes: Vec<&Node> = state.nodes.values().filter(|node| node.pool == *name).collect();
    let named = made.into_iter().flat_map(|pool| &pool.clusters);
    let clusters: BTreeSet<&Name> = nodes.iter().map(|node| &node.cluster).chain(named).collect();
    let mut types: BTreeMap<(&Label, Weight), u32> = BTreeMap::new();
    let (mut gpus, mut worth) = (0, 0);
    for node in &nodes {
        for gpu in &node.gpus {
            *types.entry((&gpu.model, gpu.weight)).or_default() += 1;
            gpus += 1;
            worth += if node.is_in_service(gpu) { u64::from(gpu.weight.milli()) } else { 0 };
        }
    }
    let weights = made.map(|pool| pool.weights.as_slice()).unwrap_or_default();
    v1::ClusterPoolView {
        name: name.to_string(),
        made: made.is_some(),
        clusters: clusters.into_iter().map(ToString::to_string).collect(),
        weights: weights
            .iter()
            .map(|(kind, weight)| v1::TypeWeightView {
                gpu_type: kind.to_string(),
                weight_milli: weight.milli(),
            })
            .collect(),
        types: types
            .into_iter()
            .map(|((model, weight), gpus)| v1::PoolTypeView {
                gpu_model: model.to_string(),
                gpus,
                weight_milli: weight.milli(),
            })
            .collect(),
        nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        gpus,
        worth_milli: worth,
    }
}
