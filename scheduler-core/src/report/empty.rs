//! When a node is empty by: for the preview of a drain, and while it drains.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::id::{AttemptId, BudgetId, Label, Name, NodeId};
use crate::job::{Attempt, Job};
use crate::lifecycle::need::holders;
use crate::node::{Contact, Node, Urgency};
use crate::queue::is_with_stray;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// How a node is, or would be, drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Order {
    /// When it begins.
    pub begins_at: Timestamp,
    /// How much it hurries.
    pub urgency: Urgency,
}

/// What empties a node, and by when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emptying {
    /// Which node.
    pub node: NodeId,
    /// The latest moment at which everything has left it, if its agent confirms what it stops; none while nobody hears
    /// of it, or while something on it waits for proof that has no bound.
    pub at: Option<Timestamp>,
    /// What is on it, the last to leave first.
    pub jobs: Vec<Leaving>,
}

/// One attempt on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Which.
    pub attempt: AttemptId,
    /// Its job's name.
    pub name: Label,
    /// Whose it is.
    pub user: Name,
    /// Its leaf.
    pub budget: BudgetId,
    /// Funded or free.
    pub tier: Tier,
    /// Its GPUs on this node.
    pub gpus: u32,
    /// On how many nodes it is: it leaves them all.
    pub nodes: u32,
    /// The end of its protection, the latest one if it has not started; none in the free tier.
    pub protected_until: Option<Timestamp>,
    /// Whether it waits again afterwards, instead of ending.
    pub is_resumable: bool,
    /// When it is told to leave; none if it was told, or has ended.
    pub notice_at: Option<Timestamp>,
    /// When it has left at the latest; none if only proof is missing.
    pub leaves_by: Option<Timestamp>,
    /// How much of its protection is cut.
    pub cuts: Span,
}

/// Returns when `node` is empty by: as it is drained, or as it would be from `now` on if nobody drains it yet.
#[must_use]
pub fn empty_by(state: &State, node: NodeId, now: Timestamp) -> Option<Emptying> {
    let drain = state.nodes.get(&node)?.drain.as_ref();
    let order = drain.map_or(Order { begins_at: now, urgency: Urgency::Normal }, |drain| Order {
        begins_at: drain.begins_at,
        urgency: drain.urgency,
    });
    empty_by_order(state, node, order, now)
}

/// Returns when `node` would be empty by under `order`.
#[must_use]
pub fn empty_by_order(state: &State, node: NodeId, order: Order, now: Timestamp) -> Option<Emptying> {
    let record = state.nodes.get(&node)?;
    let begins = order.begins_at.max(now);
    let mut jobs = Vec::new();
    for id in on(record) {
        let attempt_and_job = state.attempts.get(&id).zip(state.jobs.get(&id.job));
        jobs.extend(attempt_and_job.map(|(attempt, job)| leaving(id, attempt, job, node, order, now)));
    }
    jobs.sort_by_key(|job| (core::cmp::Reverse(job.leaves_by.unwrap_or(Timestamp::ZERO)), job.attempt));
    let is_heard = !matches!(record.contact, Contact::Unreachable { .. });
    let has_stray = record.gpus.iter().any(|gpu| is_with_stray(state, record, gpu));
    let is_bounded = is_heard && !has_stray && jobs.iter().all(|job| job.leaves_by.is_some());
    let last = jobs.iter().filter_map(|job| job.leaves_by).max();
    Some(Emptying { node, at: is_bounded.then(|| last.unwrap_or(begins).max(begins)), jobs })
}

/// Returns the attempts that have GPUs of a node, or were promised some.
fn on(node: &Node) -> BTreeSet<AttemptId> {
    let mut attempts = holders(node);
    attempts.extend(node.gpus.iter().filter_map(|gpu| gpu.next));
    attempts
}

fn leaving(
    id: AttemptId,
    attempt: &Attempt,
    job: &Job,
    node: NodeId,
    order: Order,
    now: Timestamp,
) -> Leaving {
    let here = attempt.placements.iter().filter(|placement| placement.node == node);
    let gpus = here.map(|placement| placement.slots.len()).sum::<usize>();
    let latest = || attempt.start_by.plus(attempt.protection);
    let protected_until = match attempt.tier {
        Tier::Free => None,
        Tier::Funded => Some(attempt.protected_until().unwrap_or_else(latest)),
    };
    let (notice_at, leaves_by, cuts) = when(attempt, job, protected_until, order, now);
    Leaving {
        attempt: id,
        name: job.name.clone(),
        user: job.user.clone(),
        budget: attempt.budget,
        tier: attempt.tier,
        gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
        nodes: u32::try_from(attempt.placements.len()).unwrap_or(u32::MAX),
        protected_until,
        is_resumable: job.terms.resumable,
        notice_at,
        leaves_by,
        cuts,
    }
}

/// Returns when an attempt is told to leave, when it has left, and how much of its protection that cuts.
fn when(
    attempt: &Attempt,
    job: &Job,
    protected_until: Option<Timestamp>,
    order: Order,
    now: Timestamp,
) -> (Option<Timestamp>, Option<Timestamp>, Span) {
    if attempt.ended.is_some() {
        return (None, None, Span::ZERO);
    }
    if let Some(stop) = &attempt.stop {
        return (None, Some(stop.killed_at().max(now)), Span::ZERO);
    }
    let begins = order.begins_at.max(now);
    if attempt.go_at.is_none() {
        // Nothing of it runs: it waits again at once.
        return (Some(begins), Some(begins), Span::ZERO);
    }
    let grace = job.terms.grace;
    let unprotected = protected_until.map_or(begins, |until| until.max(begins));
    let notice = match order.urgency {
        Urgency::Normal => unprotected,
        Urgency::Deadline(at) => unprotected.min(at.minus(grace).max(begins)),
        Urgency::Now => begins,
    };
    // One that is ordered shortly before its deadline still has the node empty by then.
    let grace = match order.urgency {
        Urgency::Deadline(at) => grace.min(at.since(notice)),
        Urgency::Normal | Urgency::Now => grace,
    };
    let cuts = match (protected_until, attempt.started_at) {
        (Some(until), Some(_)) => until.since(notice),
        // Its protection has not begun: all of it is cut, or nothing.
        (Some(until), None) if notice < until => attempt.protection,
        (Some(_), None) | (None, _) => Span::ZERO,
    };
    (Some(notice), Some(notice.plus(grace)), cuts)
}
