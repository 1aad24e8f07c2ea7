//! Who is first in order, asked from outside of a round.

use super::Line;
use crate::id::{JobId, Name};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// Returns the funded job that is first in order in a pool, waiting as it does at `now`; none if none waits.
#[must_use]
pub fn first(state: &State, pool: &Name, now: Timestamp) -> Option<JobId> {
    Line::new(state, pool, Tier::Funded, now).head().map(|ask| ask.id)
}
