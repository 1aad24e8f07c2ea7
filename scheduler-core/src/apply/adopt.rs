//! A plan takes effect: each of its decisions is checked again, alone, against state as it is now.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::adopt_dates::Steps;
use super::context::Context;
use crate::command::{Answer, Code, Outcome, Rejection};
use crate::date::Promise;
use crate::decision::{Dropped, Plan, Record, Right, Start, Take};
use crate::id::{AttemptId, AttemptNo, DecisionId, JobId, Name, NodeId, Slot};
use crate::job::{Attempt, Job, Phase};
use crate::lifecycle::lane::{self, Lane, Part};
use crate::lifecycle::reserve::{self, Stay};
use crate::lifecycle::{leaving, need, place, retain};
use crate::mutant::{self, Mutant};
use crate::node::Node;
use crate::spec::{Shape, Tier};
use crate::state::State;
use crate::unit::Timestamp;

/// Adopts the decisions that still hold; the others are dropped, each with its reason.
pub(super) fn adopt(state: &mut State, cx: &Context<'_>, plan: &Plan) -> Answer {
    check_plan(state, plan)?;
    let mut adopted = 0u32;
    let mut dropped = Vec::new();
    let mut dates = Steps::of(plan);
    let mut lanes = Lanes::default();
    for (n, start) in (0u16..).zip(&plan.decisions) {
        dates.up_to(state, cx, n, &mut dropped);
        match check(state, start, &mut lanes, cx.now) {
            Ok(()) => {
                lanes.starts(state, start);
                let record =
                    Record { at: cx.now, made_at: plan.index, term: plan.term, start: start.clone() };
                place::place(state, DecisionId { index: cx.index, n }, start, record);
                adopted += 1;
            }
            Err(why) => dropped.push((n, why)),
        }
    }
    dates.up_to(state, cx, u16::MAX, &mut dropped);
    retain::decisions(state);
    Ok(Outcome::Adopted { adopted, dropped })
}

fn check_plan(state: &State, plan: &Plan) -> Result<(), Rejection> {
    if plan.term != state.meta.term {
        return Err(Rejection::new(
            Code::WrongTerm,
            format!("the plan was made in term {}, this entry is of term {}", plan.term, state.meta.term),
            "a plan holds only for the leader that made it",
            String::new(),
        ));
    }
    if state.meta.safe_mode.is_some() {
        return Err(Rejection::new(
            Code::SafeMode,
            String::from("the control plane is in safe mode: no job is placed"),
            "an entry would have broken the state",
            String::from("`bursar cluster status` says why; `bursar cluster safe-mode end --reason …`"),
        ));
    }
    if plan.decisions.len() > Plan::DECISIONS_MAX || plan.dates.len() > Plan::DATES_MAX {
        let (starts, dates) = (plan.decisions.len(), plan.dates.len());
        let what = format!("a plan of {starts} decisions and {dates} steps of dates");
        let fix = format!("at most {} and {} an entry", Plan::DECISIONS_MAX, Plan::DATES_MAX);
        return Err(Rejection::new(Code::BadSpec, what, "", fix));
    }
    Ok(())
}

/// Checks one decision against state as it is, with the decisions before it taken.
fn check(state: &State, start: &Start, lanes: &mut Lanes, now: Timestamp) -> Result<(), Dropped> {
    let job = state.jobs.get(&start.job).ok_or(Dropped::NotWaiting)?;
    match job.phase {
        Phase::Waiting { .. } => {}
        Phase::Held { .. } | Phase::Live(_) | Phase::Ended { .. } => return Err(Dropped::NotWaiting),
    }
    if job.next_attempt != start.attempt || start.attempt == AttemptNo::new(u16::MAX) {
        return Err(Dropped::AttemptTaken);
    }
    let shape = &job.terms.shape;
    if u32::try_from(start.on.len()) != Ok(shape.nodes) {
        return Err(Dropped::WrongShape);
    }
    check_takes(state, job, start, now)?;
    check_lane(state, job, start, lanes, now)?;
    let latest_go = leaving::latest_go(state, start, now);
    let over_by = reserve::certain(state, start.job, job).map(|certain| latest_go.plus(certain));
    let mut seen = BTreeSet::new();
    let mut cluster = None;
    for (id, slots) in &start.on {
        let node = state.nodes.get(id).ok_or(Dropped::NodeNotReady)?;
        if !seen.insert(*id) || *cluster.get_or_insert(&node.cluster) != &node.cluster {
            return Err(Dropped::WrongShape);
        }
        if !node.takes_work() || !is_over_before_drain(node, over_by) {
            return Err(Dropped::NodeNotReady);
        }
        check_node(state, (start, job), (*id, node), slots)?;
        if let Some(until) = over_by {
            let stay = Stay { job: start.job, need: need::need(shape, node), from: Timestamp::ZERO, until };
            check_dates(state, (*id, node), slots, &stay)?;
        }
    }
    check_together(state, &start.on, shape)
}

/// Checks what the shape asks of all nodes together: GPUs of one type, and one group of a level.
pub(super) fn check_together(
    state: &State,
    on: &[(NodeId, Vec<Slot>)],
    shape: &Shape,
) -> Result<(), Dropped> {
    let nodes = on.iter().filter_map(|(id, slots)| Some((state.nodes.get(id)?, slots)));
    let gpus = nodes
        .clone()
        .flat_map(|(node, slots)| slots.iter().filter_map(|slot| node.gpus.get(usize::from(slot.get()))));
    if !shape.or_types.is_empty() && !need::are_of_one_type(shape, gpus) {
        return Err(Dropped::WrongShape);
    }
    let Some(level) = shape.within.filter(|_| shape.nodes > 1) else { return Ok(()) };
    let mut groups = nodes.map(|(node, _)| node.group(level));
    match groups.next().flatten() {
        Some(first) if groups.all(|group| group == Some(first)) => Ok(()),
        Some(_) | None => Err(Dropped::WrongShape),
    }
}

/// Checks that no date is in the way.
fn check_dates(
    state: &State,
    (id, node): (NodeId, &Node),
    slots: &[Slot],
    stay: &Stay,
) -> Result<(), Dropped> {
    if state.dates.is_empty() || mutant::is(Mutant::BackfillAnything) {
        return Ok(());
    }
    let reserved = reserve::on_node(state, id, node);
    let is_kept =
        slots.iter().all(|slot| reserved.lets(*slot, stay)) && reserved.has_room(reserve::whole(node), stay);
    if is_kept { Ok(()) } else { Err(Dropped::Reserved) }
}

/// Checks the attempts that are to give way: each is still what was judged, has no protection, and has a GPU that the
/// job gets, or cores or memory that it lacks. The right to take it was judged by the plan.
fn check_takes(state: &State, job: &Job, start: &Start, now: Timestamp) -> Result<(), Dropped> {
    let mut seen = BTreeSet::new();
    for take in &start.takes {
        let attempt = state.attempts.get(&take.attempt).ok_or(Dropped::VictimChanged)?;
        let generation = attempt.placements.first().map(|placement| placement.generation);
        if attempt.is_leaving() || generation != Some(take.generation) || !is_of_right(state, job, take) {
            return Err(Dropped::VictimChanged);
        }
        if attempt.is_protected(now) {
            return Err(Dropped::VictimProtected);
        }
        if let Right::Claim { date, .. } = take.right {
            check_claim(state, (start.job, &attempt.pool), date, attempt, now)?;
        }
        let gives = |(node, slots): &(NodeId, Vec<Slot>)| {
            slots.iter().any(|slot| attempt.placement_of(*node, *slot).is_some())
                || attempt.placements.iter().any(|placement| placement.node == *node)
                    && !need::has_room(state, *node, &job.terms.shape, &without(start, take.attempt))
        };
        if job.terms.tier == Tier::Free || !seen.insert(take.attempt) || !start.on.iter().any(gives) {
            return Err(Dropped::WrongShape);
        }
    }
    Ok(())
}

/// Returns the attempts that give way to a decision, but for one.
fn without(start: &Start, stays: AttemptId) -> BTreeSet<AttemptId> {
    let mut taken = leaving::taken(start);
    taken.remove(&stays);
    taken
}

/// Checks that a date gives the right to take an attempt: it has come, and the attempt is on one of its nodes.
fn check_claim(
    state: &State,
    (job, pool): (JobId, &Name),
    decision: DecisionId,
    attempt: &Attempt,
    now: Timestamp,
) -> Result<(), Dropped> {
    let date = state.dates.get(&(job, pool.clone())).filter(|date| date.decision == decision);
    let is_on = |promise: &Promise| attempt.placements.iter().any(|p| promise.slots_on(p.node).is_some());
    let gives_right = date.is_some_and(|date| date.promise.at <= now && is_on(&date.promise));
    if gives_right { Ok(()) } else { Err(Dropped::NotDue) }
}

/// The short lanes of pools, each looked at once, with the decisions of the plan so far.
#[derive(Default)]
struct Lanes(BTreeMap<Name, Option<Lane>>);

impl Lanes {
    fn of(&mut self, state: &State, pool: &Name, now: Timestamp) -> Option<Lane> {
        if state.meta.settings.short_lane_ppm == 0 {
            return None;
        }
        *self.0.entry(pool.clone()).or_insert_with(|| Lane::of(state, pool, now))
    }

    fn starts(&mut self, state: &State, start: &Start) {
        let node = start.on.first().and_then(|(node, _)| state.nodes.get(node));
        let lane = node.and_then(|node| self.0.get_mut(&node.pool)).and_then(Option::as_mut);
        if let (Some(lane), Some(job)) = (lane, state.jobs.get(&start.job)) {
            lane.starts(&job.terms);
        }
    }
}

/// Checks that a job has the rights of the short lane that it takes by, and leaves the lane unprotected if it has none.
fn check_lane(
    state: &State,
    job: &Job,
    start: &Start,
    lanes: &mut Lanes,
    now: Timestamp,
) -> Result<(), Dropped> {
    let node = start.on.first().and_then(|(node, _)| state.nodes.get(node));
    let pool = &node.ok_or(Dropped::NodeNotReady)?.pool;
    let lane = lanes.of(state, pool, now);
    let takes_by_it = start.takes.iter().any(|take| matches!(take.right, Right::Lane { .. }));
    if takes_by_it && !lane.is_some_and(|lane| lane.gives_right() && Part::of(&job.terms) == Part::Lane) {
        return Err(Dropped::NoLane);
    }
    let is_kept = lane.is_none_or(|lane| lane.lets(&job.terms));
    if is_kept || lane::is_due(state, start.job, pool, now) { Ok(()) } else { Err(Dropped::LaneKept) }
}

/// Whether an attempt is one of those that the right is about.
fn is_of_right(state: &State, job: &Job, take: &Take) -> bool {
    let Some(victim) = state.jobs.get(&take.attempt.job) else { return false };
    match take.right {
        Right::FreeTier => victim.terms.tier == Tier::Free,
        Right::Turn => victim.budget == job.budget && victim.terms.turn > job.terms.turn,
        Right::Share { .. } => victim.budget != job.budget,
        Right::Claim { .. } => victim.terms.tier == Tier::Funded,
        Right::Lane { .. } => victim.terms.tier == Tier::Funded && Part::of(&victim.terms) != Part::Lane,
    }
}

/// Whether nothing keeps the job there when a drain to come begins: the free tier is never protected.
fn is_over_before_drain(node: &Node, over_by: Option<Timestamp>) -> bool {
    let begins_at = node.drain.as_ref().map(|drain| drain.begins_at);
    over_by.zip(begins_at).is_none_or(|(over_by, begins_at)| over_by <= begins_at)
}

fn check_node(
    state: &State,
    (start, job): (&Start, &Job),
    (id, node): (NodeId, &Node),
    slots: &[Slot],
) -> Result<(), Dropped> {
    let shape = &job.terms.shape;
    let distinct: BTreeSet<Slot> = slots.iter().copied().collect();
    let is_in_cluster = job.terms.cluster.as_ref().is_none_or(|cluster| *cluster == node.cluster);
    if !is_in_cluster
        || job.terms.exclude.contains(&id)
        || distinct.len() != slots.len()
        || u32::try_from(slots.len()) != Ok(shape.gpus_per_node.get())
    {
        return Err(Dropped::WrongShape);
    }
    let taken = leaving::taken(start);
    for slot in distinct {
        let gpu = node.gpus.get(usize::from(slot.get())).ok_or(Dropped::GpuTaken)?;
        // Nobody waits for the free tier, and it waits for nobody.
        let comes_free = |holder| {
            let holds = |attempt: &&Attempt| attempt.placement_of(id, slot).is_some();
            let attempt = state.attempts.get(&holder).filter(holds);
            let leaves = attempt.is_some_and(|attempt| attempt.is_leaving() || taken.contains(&holder));
            leaves && job.terms.tier == Tier::Funded
        };
        if !gpu.is_present || gpu.next.is_some() || !gpu.holder.is_none_or(comes_free) {
            return Err(Dropped::GpuTaken);
        }
        if !need::is_of_type(shape, gpu) {
            return Err(Dropped::WrongShape);
        }
    }
    if need::has_room(state, id, shape, &taken) { Ok(()) } else { Err(Dropped::NodeFull) }
}
