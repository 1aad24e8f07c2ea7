//! Dates: what a waiting job is promised.

use proto::v1;
use scheduler_core::date::{Awaited, Move};
use scheduler_core::explain::{DateOf, how, trouble};
use scheduler_core::state::State;

use super::words;

/// Returns a date as people read it.
#[must_use]
pub fn view(state: &State, date: &DateOf) -> v1::DateView {
    let promise = &date.promise;
    let reserved = promise.on.iter().map(|(node, slots)| v1::ReservedView {
        node: state.nodes.get(node).map_or_else(String::new, |node| node.name.to_string()),
        gpus: u32::try_from(slots.len()).unwrap_or(u32::MAX),
    });
    v1::DateView {
        pool: date.pool.to_string(),
        date_at: promise.at.as_millis(),
        go_by_at: date.go_by.as_millis(),
        unless: ["a node of it fails", "a node of it is drained"].map(String::from).to_vec(),
        issued_at: date.issued_at.as_millis(),
        decision: date.decision.map(|id| id.to_string()),
        reserved: reserved.collect(),
        awaits: promise.awaits.iter().map(|awaited| awaited_view(state, awaited)).collect(),
        moved: date.moved,
        moves: date.moves.iter().map(|moved| moved_view(state, moved)).collect(),
    }
}

fn awaited_view(state: &State, awaited: &Awaited) -> v1::AwaitedView {
    let job = state.jobs.get(&awaited.attempt.job);
    v1::AwaitedView {
        attempt: awaited.attempt.to_string(),
        budget: job.map(|job| words::budget_path(state, job.budget)).unwrap_or_default(),
        gpus: awaited.gpus,
        free_at: awaited.free_at.as_millis(),
        how: how(awaited.how).to_owned(),
    }
}

fn moved_view(state: &State, moved: &Move) -> v1::DateMoveView {
    v1::DateMoveView {
        at: moved.at.as_millis(),
        from_at: moved.from.as_millis(),
        to_at: moved.to.as_millis(),
        why: trouble(state, &moved.trouble),
    }
}
