//! What is idle, what becomes free when, and the largest job that could start.

use proto::v1;
use scheduler_core::report::{Capacity, Within};
use scheduler_core::state::State;
use scheduler_core::unit::Span;

use super::{Scene, pool, words};

/// Returns every pool's capacity.
#[must_use]
pub fn view(scene: Scene<'_>, pools: &[Capacity]) -> v1::CapacityView {
    let state = scene.state();
    let counted = pool::pools(state, scene.now);
    v1::CapacityView {
        schema: "capacity/v1".to_owned(),
        as_of: scene.as_of(),
        pools: pools
            .iter()
            .map(|capacity| {
                let gpus = counted.iter().find(|pool| pool.name == capacity.pool.as_str()).cloned();
                pool_view(state, capacity, gpus)
            })
            .collect(),
    }
}

fn pool_view(state: &State, capacity: &Capacity, gpus: Option<v1::PoolView>) -> v1::PoolCapacity {
    // The largest of any model; rooms of one model alone are for pools with several.
    let largest = |within| {
        let room = capacity.rooms.iter().find(|room| room.within == within && room.model.is_none());
        room.map_or(0, |room| room.largest.gpus())
    };
    v1::PoolCapacity {
        gpus,
        largest_idle: largest(Within::Idle),
        largest_now: largest(Within::Unprotected(Span::ZERO)),
        largest_in_1h: largest(Within::Unprotected(Span::from_hours(1))),
        largest_in_8h: largest(Within::Unprotected(Span::from_hours(8))),
        nodes: capacity
            .idle
            .iter()
            .map(|shape| v1::NodeShape { idle: shape.idle, gpus: shape.of, nodes: shape.nodes })
            .collect(),
        next_ends: capacity
            .ends
            .iter()
            .map(|end| v1::ProtectionEnd {
                at: end.at.as_millis(),
                attempt: end.attempt.to_string(),
                budget: words::budget_path(state, end.budget),
                gpus: end.gpus,
            })
            .collect(),
    }
}
