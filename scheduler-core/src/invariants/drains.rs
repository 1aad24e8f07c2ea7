//! On a node whose drain has begun, only protected work is left that nobody told to leave.

use alloc::format;
use alloc::string::String;

use crate::job::Attempt;
use crate::lifecycle::need;
use crate::node::Urgency;
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    let now = state.meta.time;
    for (id, node) in state.nodes.iter() {
        let Some(drain) = node.drain.as_ref().filter(|drain| drain.is_active) else { continue };
        let may_stay = |attempt: &Attempt| {
            let is_kept = attempt.go_at.is_some() && attempt.is_protected(now);
            attempt.is_leaving() || is_kept && drain.urgency != Urgency::Now
        };
        for attempt in need::attempts_on(node) {
            let stays = state.attempts.get(&attempt).filter(|a| a.placements.iter().any(|p| p.node == *id));
            if stays.is_some_and(|attempt| !may_stay(attempt)) {
                return Err(format!("attempt {attempt} stays on node {id}, which is drained"));
            }
        }
    }
    Ok(())
}
