//! Pools: clusters that are accounted together, and what their types of GPU count (DESIGN 2, 4).
//!
//! ```text
//!   node ──> cluster (said at joining; what a job may name; a gang never leaves one)
//!                └──> pool: books, order, head and dates     GPU ──> weight of its type in that pool
//! ```
//!
//! A pool that an operator made is one record; a cluster that none of them names is in the pool of its own name, where
//! every GPU counts one. A node and its GPUs carry what follows from that, so that nothing looks it up.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::id::{Label, Name};
use crate::lifecycle::need::is_named;
use crate::state::State;
use crate::table::Table;
use crate::unit::Weight;

/// The most types of GPU that a pool has weights for.
pub const WEIGHTS_MAX: usize = 32;

/// A pool as an operator made it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Pool {
    /// Its clusters, besides the one of its own name if no other pool has that.
    pub clusters: BTreeSet<Name>,
    /// Types of GPU, each the model's name as the driver gives it or a part of it, and what they count: the first that
    /// fits a model counts, and one if none does.
    pub weights: Vec<(Label, Weight)>,
}

/// Returns the pool of a cluster.
#[must_use]
pub fn of_cluster(pools: &Table<Name, Pool>, cluster: &Name) -> Name {
    let made = pools.iter().find(|(_, pool)| pool.clusters.contains(cluster));
    made.map_or_else(|| cluster.clone(), |(name, _)| name.clone())
}

/// Whether a cluster is in a pool.
#[must_use]
pub fn has(state: &State, pool: &Name, cluster: &Name) -> bool {
    if state.pools.is_empty() { pool == cluster } else { of_cluster(&state.pools, cluster) == *pool }
}

/// Returns what a GPU of a model counts in a pool.
#[must_use]
pub fn weight_of(pools: &Table<Name, Pool>, pool: &Name, model: &Label) -> Weight {
    let weights = pools.get(pool).map(|pool| pool.weights.as_slice()).unwrap_or_default();
    weights.iter().find(|(kind, _)| is_named(kind, model)).map_or(Weight::ONE, |(_, weight)| *weight)
}
