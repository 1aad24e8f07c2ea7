//! The whole line of a pool, as people look at it.

use alloc::collections::BTreeMap;
use core::ops::ControlFlow;

use super::{Ask, Line};
use crate::id::Name;
use crate::lifecycle::need::{could_hold, rate};
use crate::lifecycle::place::protection;
use crate::spec::{Shape, Tier};
use crate::state::State;
use crate::unit::{MilliGpus, Timestamp};

/// Shows a pool's waiting jobs to `visit` in the order in which they would start if GPUs became free one after the
/// other: each counts as placed before the next is looked for. Ends early when `visit` breaks.
pub(crate) fn walk<'a>(
    state: &'a State,
    pool: &'a Name,
    now: Timestamp,
    mut visit: impl FnMut(&Line<'a>, Ask<'a>) -> ControlFlow<()>,
) {
    for tier in [Tier::Funded, Tier::Free] {
        let mut line = Line::new(state, pool, tier, now);
        let mut rates: BTreeMap<usize, MilliGpus> = BTreeMap::new();
        while let Some(ask) = line.head() {
            if visit(&line, ask).is_break() {
                return;
            }
            let shape = line.class(&ask).shape;
            let rate = rates.entry(ask.class).or_insert_with(|| usual_rate(state, pool, shape));
            line.place(*rate, protection(state, ask.id, ask.job));
        }
    }
}

/// Returns what a job of `shape` is charged, by the first node of the pool that could hold a part of it.
#[must_use]
pub fn usual_rate(state: &State, pool: &Name, shape: &Shape) -> MilliGpus {
    let mut nodes = state.nodes.values().filter(|node| node.pool == *pool);
    let node = nodes.find(|node| could_hold(shape, node));
    let plain = MilliGpus::new(u64::from(shape.gpus_per_node.get()) * 1000);
    let one = node.map_or(plain, |node| rate(shape, node));
    MilliGpus::new(one.get().saturating_mul(shape.nodes.into()))
}
