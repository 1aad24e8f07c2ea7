//! A plan takes effect: each of its decisions is checked again, alone, against state as it is now.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::context::Context;
use crate::command::{Answer, Code, Outcome, Rejection};
use crate::decision::{Dropped, Plan, Record, Start};
use crate::id::{AttemptNo, DecisionId, NodeId, Slot};
use crate::job::{Job, Phase};
use crate::lifecycle::{need, place};
use crate::node::Node;
use crate::state::State;

/// Adopts the decisions that still hold; the others are dropped, each with its reason.
pub(super) fn adopt(state: &mut State, cx: &Context<'_>, plan: &Plan) -> Answer {
    check_plan(state, plan)?;
    let mut adopted = 0u32;
    let mut dropped = Vec::new();
    for (n, start) in (0u16..).zip(&plan.decisions) {
        match check(state, start) {
            Ok(()) => {
                let record =
                    Record { at: cx.now, made_at: plan.index, term: plan.term, start: start.clone() };
                place::place(state, DecisionId { index: cx.index, n }, start, record);
                adopted += 1;
            }
            Err(why) => dropped.push((n, why)),
        }
    }
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
    if plan.decisions.len() > Plan::DECISIONS_MAX {
        let what = format!("a plan of {} decisions", plan.decisions.len());
        let fix = format!("at most {} an entry", Plan::DECISIONS_MAX);
        return Err(Rejection::new(Code::BadSpec, what, "", fix));
    }
    Ok(())
}

/// Checks one decision against state as it is, with the decisions before it taken.
fn check(state: &State, start: &Start) -> Result<(), Dropped> {
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
    let mut seen = BTreeSet::new();
    let mut pools = BTreeSet::new();
    for (id, slots) in &start.on {
        let node = state.nodes.get(id).ok_or(Dropped::NodeNotReady)?;
        if !seen.insert(*id) || !pools.is_empty() && !pools.contains(&node.pool) {
            return Err(Dropped::WrongShape);
        }
        pools.insert(node.pool.clone());
        check_node(state, job, (*id, node), slots)?;
    }
    Ok(())
}

fn check_node(state: &State, job: &Job, on: (NodeId, &Node), slots: &[Slot]) -> Result<(), Dropped> {
    let (id, node) = on;
    let shape = &job.terms.shape;
    if !node.takes_work() {
        return Err(Dropped::NodeNotReady);
    }
    let distinct: BTreeSet<Slot> = slots.iter().copied().collect();
    let is_in_cluster = job.terms.cluster.as_ref().is_none_or(|cluster| *cluster == node.pool);
    if !is_in_cluster
        || distinct.len() != slots.len()
        || u32::try_from(slots.len()) != Ok(shape.gpus_per_node.get())
    {
        return Err(Dropped::WrongShape);
    }
    for slot in distinct {
        let gpu = node.gpus.get(usize::from(slot.get())).ok_or(Dropped::GpuTaken)?;
        if !gpu.is_present || gpu.holder.is_some() {
            return Err(Dropped::GpuTaken);
        }
        if !need::is_of_type(shape, gpu) {
            return Err(Dropped::WrongShape);
        }
    }
    if need::has_room(state, id, shape) { Ok(()) } else { Err(Dropped::NodeFull) }
}
