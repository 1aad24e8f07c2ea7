//! Pools: their clusters, and what their GPUs count.

use proto::v1::{ClusterPoolList, ClusterPoolView};

use crate::form::table::Table;
use crate::form::text::plain;
use crate::form::weight;

/// Renders the pools.
pub fn pools(list: &ClusterPoolList) -> String {
    if list.pools.is_empty() {
        return "no nodes yet: `bursar node token NAME` makes a token for one to join with\n".into();
    }
    let mut table = Table::new(&["POOL", "CLUSTERS", ">NODES", ">GPUS", ">IN SERVICE COUNT"]);
    for pool in &list.pools {
        table.row([
            pool.name.clone(),
            pool.clusters.join(", "),
            pool.nodes.to_string(),
            pool.gpus.to_string(),
            count(pool.worth_milli),
        ]);
    }
    let mut out = table.render();
    list.pools.iter().for_each(|pool| out.push_str(&types(pool)));
    out
}

fn count(milli: u64) -> String {
    match u32::try_from(milli) {
        Ok(milli) => weight::show(milli),
        Err(_) => (milli / 1000).to_string(),
    }
}

/// What each type counts, where not every GPU counts one.
fn types(pool: &ClusterPoolView) -> String {
    if pool.weights.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}: what a GPU counts in charge and in allocation\n", plain(&pool.name));
    for kind in &pool.types {
        let (gpus, weight) = (kind.gpus, weight::show(kind.weight_milli));
        out.push_str(&format!("  {:<40} {gpus:>5} GPUs  x {weight}\n", plain(&kind.gpu_model)));
    }
    let names = |wanted: &str| {
        let is_named = |model: &str| model.to_lowercase().contains(&wanted.to_lowercase());
        pool.types.iter().any(|kind| is_named(&kind.gpu_model))
    };
    for idle in pool.weights.iter().filter(|weight| !names(&weight.gpu_type)) {
        let weight = weight::show(idle.weight_milli);
        out.push_str(&format!("  {} x {weight}: no GPU here has that name\n", plain(&idle.gpu_type)));
    }
    out
}
