//! What a node should be doing, read from state: always the full set.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{ArrayTask, Assignment, Assignments, Order, Token};
use crate::budget;
use crate::id::{AttemptId, Generation, GpuUuid, Name, NodeId, Rank, Slot, SpecHash};
use crate::job::{Attempt, Job, Placement, Stop, StopCause};
use crate::lifecycle::{need, stray};
use crate::node::Node;
use crate::principal::AccountName;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// A stray is of no order that state knows, so its stop is above every one.
const STRAY_GENERATION: Generation = Generation::new(u32::MAX);

/// Returns one item for each rank on `node` that is live or not yet proven empty; none for an unknown node.
#[must_use]
pub fn assignments(state: &State, node: NodeId) -> Vec<Assignment> {
    let Some(record) = state.nodes.get(&node) else { return Vec::new() };
    let mut items = Vec::new();
    for id in need::attempts_on(record) {
        let Some((attempt, job)) = state.attempts.get(&id).zip(state.jobs.get(&id.job)) else { continue };
        let here = attempt.placements.iter().filter(|p| p.node == node && p.freed_at.is_none());
        items.extend(here.map(|placement| placed(state, (id, attempt), job, (record, placement))));
    }
    let strays = stray::on(state, node);
    items.extend(strays.map(|((_, id, rank), stray)| strayed(state, record, (*id, *rank), &stray.slots)));
    items
}

/// Returns everything that `node` should be doing, with the token that fences it; none before the founding and for an
/// unknown node.
#[must_use]
pub fn full_set(state: &State, node: NodeId) -> Option<Assignments> {
    let cluster = state.meta.cluster?;
    state.nodes.get(&node)?;
    let token = Token { epoch: state.meta.epoch, term: state.meta.term, index: state.meta.index };
    Some(Assignments { cluster, token, time: state.meta.time, items: assignments(state, node) })
}

fn placed(
    state: &State,
    (id, attempt): (AttemptId, &Attempt),
    job: &Job,
    (node, placement): (&Node, &Placement),
) -> Assignment {
    Assignment {
        attempt: id,
        rank: placement.rank,
        generation: placement.generation,
        order: order(attempt),
        launch: job.launch,
        account: job.account.clone(),
        gpus: uuids(node, &placement.slots),
        budget: budget::label(state, attempt.budget),
        tier: attempt.tier,
        start_by: attempt.start_by,
        protection: attempt.protection,
        time_limit: job.terms.time_limit,
        grace: job.terms.grace,
        signal: job.terms.signal,
        nodes: names(state, attempt),
        addresses: addresses(state, attempt),
        port: attempt.port,
        array: job.array.and_then(|task| {
            let indexes = &state.arrays.get(&task.of)?.indexes;
            Some(ArrayTask {
                of: task.of,
                index: task.index,
                count: indexes.count(),
                min: indexes.lowest(),
                max: indexes.highest(),
            })
        }),
    }
}

fn order(attempt: &Attempt) -> Order {
    match (&attempt.ended, &attempt.stop) {
        (Some(_), _) => Order::Clear,
        (None, Some(stop)) => {
            Order::Stop { reason: reason(stop), grace: stop.grace, has_notice: stop.has_notice() }
        }
        (None, None) if attempt.go_at.is_none() => Order::Prepare,
        (None, None) => Order::Run,
    }
}

fn reason(stop: &Stop) -> String {
    match &stop.cause {
        StopCause::Cancel { who, reason } if reason.is_empty() => alloc::format!("cancelled by {who}"),
        StopCause::Cancel { who, reason } => alloc::format!("cancelled by {who}: {reason}"),
        StopCause::Unwanted => String::from(UNWANTED),
        StopCause::Preempt(taken) => alloc::format!("preempted for {}", taken.by),
        StopCause::Drain { who, reason, .. } => alloc::format!("its node is drained by {who}: {reason}"),
        StopCause::Requeue { who, reason } if reason.is_empty() => {
            alloc::format!("to be started again, by {who}")
        }
        StopCause::Requeue { who, reason } => alloc::format!("to be started again, by {who}: {reason}"),
        StopCause::Rank { rank } => alloc::format!("rank {rank} has ended"),
    }
}

const UNWANTED: &str = "the control plane did not place it here";

/// What a stray is told: to stop. Whatever else an item says is as far as state knows it.
fn strayed(state: &State, node: &Node, (id, rank): (AttemptId, Rank), slots: &[Slot]) -> Assignment {
    let job = state.jobs.get(&id.job);
    let nobody = || AccountName::new("nobody").expect("it has only letters");
    Assignment {
        attempt: id,
        rank,
        generation: STRAY_GENERATION,
        order: Order::Stop {
            reason: UNWANTED.to_string(),
            grace: job.map_or(state.meta.settings.grace, |job| job.terms.grace),
            has_notice: false,
        },
        launch: job.map_or(SpecHash::new([0; 32]), |job| job.launch),
        account: job.map_or_else(nobody, |job| job.account.clone()),
        gpus: uuids(node, slots),
        budget: job.map_or_else(String::new, |job| budget::label(state, job.budget)),
        tier: job.map_or(Tier::Free, |job| job.terms.tier),
        start_by: Timestamp::ZERO,
        protection: Span::ZERO,
        time_limit: None,
        grace: job.map_or(state.meta.settings.grace, |job| job.terms.grace),
        signal: job.map_or(10, |job| job.terms.signal),
        nodes: alloc::vec![node.name.clone()],
        addresses: Vec::new(),
        port: None,
        array: None,
    }
}

fn uuids(node: &Node, slots: &[Slot]) -> Vec<GpuUuid> {
    let uuid = |slot: &Slot| node.gpus.get(usize::from(slot.get())).map(|gpu| gpu.uuid.clone());
    slots.iter().filter_map(uuid).collect()
}

fn addresses(state: &State, attempt: &Attempt) -> Vec<String> {
    let address = |node: &Node| {
        let said = node.facts.as_ref().and_then(|facts| facts.address.as_ref());
        said.map_or_else(|| node.name.to_string(), ToString::to_string)
    };
    let nodes = attempt.placements.iter().filter_map(|placement| state.nodes.get(&placement.node));
    nodes.map(address).collect()
}

fn names(state: &State, attempt: &Attempt) -> Vec<Name> {
    let name = |placement: &Placement| state.nodes.get(&placement.node).map(|node| node.name.clone());
    attempt.placements.iter().filter_map(name).collect()
}
