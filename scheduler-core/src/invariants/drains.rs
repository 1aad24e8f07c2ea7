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
        let may_stay = |attempt: &Attempt, grace| {
            let is_kept = match drain.urgency {
                Urgency::Normal => true,
                Urgency::Deadline(deadline) => deadline.minus(grace) > now,
                Urgency::Now => false,
            };
            attempt.is_leaving() || attempt.go_at.is_some() && attempt.is_protected(now) && is_kept
        };
        for attempt in need::attempts_on(node) {
            let here = state.attempts.get(&attempt).filter(|a| a.placements.iter().any(|p| p.node == *id));
            let grace = state.jobs.get(&attempt.job).map(|job| job.terms.grace);
            if here.zip(grace).is_some_and(|(attempt, grace)| !may_stay(attempt, grace)) {
                return Err(format!("attempt {attempt} stays on node {id}, which is drained"));
            }
        }
    }
    Ok(())
}
