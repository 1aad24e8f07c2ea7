//! How the GPUs of a pool or a node stand right now.

use std::collections::BTreeSet;

use proto::v1;
use scheduler_core::id::Name;
use scheduler_core::queue::{self, Standing};
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

/// Returns the word for how an occupied GPU is held; empty if it is not.
#[must_use]
pub fn holding(standing: Standing) -> &'static str {
    match standing {
        Standing::Protected { .. } => "protected",
        Standing::Interruptible => "interruptible",
        Standing::Free => "free",
        Standing::Starting { .. } | Standing::Clearing => "changing",
        Standing::Idle | Standing::Unavailable => "",
    }
}

/// Returns until when nobody may take a GPU, if that is known.
#[must_use]
pub fn until(standing: Standing) -> Option<Timestamp> {
    match standing {
        Standing::Protected { until } => Some(until),
        Standing::Starting { until } => until,
        Standing::Interruptible
        | Standing::Free
        | Standing::Clearing
        | Standing::Idle
        | Standing::Unavailable => None,
    }
}

/// Returns every pool, by name.
#[must_use]
pub fn pools(state: &State, now: Timestamp) -> Vec<v1::PoolView> {
    let names: BTreeSet<&Name> = state.nodes.values().map(|node| &node.pool).collect();
    let view = |name: &Name| {
        let counts = queue::of_pool(state, name, now);
        v1::PoolView {
            name: name.to_string(),
            gpus: counts.gpus,
            protected: counts.protected,
            interruptible: counts.interruptible,
            free_tier: counts.free_tier,
            idle: counts.idle,
            unavailable: counts.unavailable,
            changing: counts.changing,
        }
    };
    names.into_iter().map(view).collect()
}
