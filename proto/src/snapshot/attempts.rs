//! Attempts, past and present, how they stop and end, and the decisions that placed them.

use scheduler_core::decision::{Price, Record, Right, Start};
use scheduler_core::id::{
    AttemptId, AttemptNo, BudgetId, DecisionId, Generation, LogIndex, Name, NodeId, Rank, Slot, Term,
};
use scheduler_core::job::{Attempt, AttemptEnd, Ended, Exit, PastAttempt, Placement, Stop, StopCause, Taken};
use scheduler_core::spec::Tier;
use scheduler_core::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

use super::books::tier;
use crate::error::Error;
use crate::state::v1 as state;
use crate::wire::{Wire, moment, name, narrow, required};

pub(super) fn past(past: &PastAttempt) -> state::PastAttempt {
    state::PastAttempt {
        no: u32::from(past.no.get()),
        nodes: past.nodes.iter().map(|node| node.get()).collect(),
        gpus: past.gpus,
        decision: Some(past.decision.to_wire()),
        placed_at_ms: past.placed_at.as_millis(),
        go_at_ms: past.go_at.map(Timestamp::as_millis),
        started_at_ms: past.started_at.map(Timestamp::as_millis),
        ended: Some(ended(&past.ended)),
        charged: Some(past.charged.to_wire()),
        saved_at_ms: past.saved_at.map(Timestamp::as_millis),
        stop: past.stop.as_ref().map(stop),
    }
}

pub(super) fn read_past(m: state::PastAttempt) -> Result<PastAttempt, Error> {
    Ok(PastAttempt {
        no: AttemptNo::new(narrow("no", m.no)?),
        nodes: m.nodes.into_iter().map(NodeId::new).collect(),
        gpus: m.gpus,
        decision: DecisionId::from_wire(required("decision", m.decision)?)?,
        placed_at: moment(m.placed_at_ms),
        go_at: m.go_at_ms.map(moment),
        started_at: m.started_at_ms.map(moment),
        ended: read_ended(required("ended", m.ended)?)?,
        charged: ChargeMillis::from_wire(required("charged", m.charged)?)?,
        saved_at: m.saved_at_ms.map(moment),
        stop: m.stop.map(read_stop).transpose()?,
    })
}

fn ended(ended: &Ended) -> state::Ended {
    let (cause, what) = match &ended.cause {
        AttemptEnd::Exited => (state::AttemptEnd::Exited, ""),
        AttemptEnd::TimeLimit => (state::AttemptEnd::TimeLimit, ""),
        AttemptEnd::Stopped => (state::AttemptEnd::Stopped, ""),
        AttemptEnd::LaunchFailedNode(what) => (state::AttemptEnd::LaunchFailedNode, what.as_str()),
        AttemptEnd::LaunchFailedJob(what) => (state::AttemptEnd::LaunchFailedJob, what.as_str()),
        AttemptEnd::NodeLost => (state::AttemptEnd::NodeLost, ""),
        AttemptEnd::Preempted => (state::AttemptEnd::Preempted, ""),
    };
    state::Ended {
        at_ms: ended.at.as_millis(),
        cause: cause.into(),
        what: what.to_owned(),
        exit: ended.exit.map(|exit| exit.to_wire()),
    }
}

fn read_ended(m: state::Ended) -> Result<Ended, Error> {
    let cause = match m.cause() {
        state::AttemptEnd::Unspecified => return Err(Error::Missing("cause")),
        state::AttemptEnd::Exited => AttemptEnd::Exited,
        state::AttemptEnd::TimeLimit => AttemptEnd::TimeLimit,
        state::AttemptEnd::Stopped => AttemptEnd::Stopped,
        state::AttemptEnd::LaunchFailedNode => AttemptEnd::LaunchFailedNode(m.what),
        state::AttemptEnd::LaunchFailedJob => AttemptEnd::LaunchFailedJob(m.what),
        state::AttemptEnd::NodeLost => AttemptEnd::NodeLost,
        state::AttemptEnd::Preempted => AttemptEnd::Preempted,
    };
    Ok(Ended { at: moment(m.at_ms), cause, exit: m.exit.map(Exit::from_wire).transpose()? })
}

pub(super) fn attempt(id: AttemptId, attempt: &Attempt) -> state::Attempt {
    state::Attempt {
        id: Some(id.to_wire()),
        budget: attempt.budget.get(),
        funded: attempt.tier == Tier::Funded,
        pool: attempt.pool.to_string(),
        placements: attempt.placements.iter().map(placement).collect(),
        rate: attempt.rate.get(),
        decision: Some(attempt.decision.to_wire()),
        placed_at_ms: attempt.placed_at.as_millis(),
        go_at_ms: attempt.go_at.map(Timestamp::as_millis),
        start_by_ms: attempt.start_by.as_millis(),
        protection_ms: attempt.protection.as_millis(),
        started_at_ms: attempt.started_at.map(Timestamp::as_millis),
        stop: attempt.stop.as_ref().map(stop),
        ended: attempt.ended.as_ref().map(ended),
        latest_go_ms: attempt.latest_go.as_millis(),
        port: attempt.port.map(u32::from),
        saved_at_ms: attempt.saved_at.map(Timestamp::as_millis),
        signed_at_ms: attempt.signed_at.map(Timestamp::as_millis),
        first_end: attempt.first_end.as_ref().map(ended),
    }
}

pub(super) fn read_attempt(m: state::Attempt) -> Result<(AttemptId, Attempt), Error> {
    let attempt = Attempt {
        budget: BudgetId::new(m.budget),
        tier: tier(m.funded),
        pool: name("pool", &m.pool)?,
        placements: m.placements.into_iter().map(read_placement).collect::<Result<_, _>>()?,
        rate: MilliGpus::new(m.rate),
        decision: DecisionId::from_wire(required("decision", m.decision)?)?,
        placed_at: moment(m.placed_at_ms),
        go_at: m.go_at_ms.map(moment),
        start_by: moment(m.start_by_ms),
        protection: Span::from_millis(m.protection_ms),
        started_at: m.started_at_ms.map(moment),
        stop: m.stop.map(read_stop).transpose()?,
        ended: m.ended.map(read_ended).transpose()?,
        latest_go: moment(m.latest_go_ms),
        port: m.port.map(|port| narrow("port", port)).transpose()?,
        saved_at: m.saved_at_ms.map(moment),
        signed_at: m.signed_at_ms.map(moment),
        first_end: m.first_end.map(read_ended).transpose()?,
    };
    Ok((AttemptId::from_wire(required("id", m.id)?)?, attempt))
}

pub(super) fn slots(slots: &[Slot]) -> Vec<u32> {
    slots.iter().map(|slot| u32::from(slot.get())).collect()
}

pub(super) fn read_slots(m: Vec<u32>) -> Result<Vec<Slot>, Error> {
    m.into_iter().map(|slot| narrow("slots", slot).map(Slot::new)).collect()
}

fn placement(placement: &Placement) -> state::Placement {
    state::Placement {
        rank: u32::from(placement.rank.get()),
        node: placement.node.get(),
        slots: slots(&placement.slots),
        generation: placement.generation.get(),
        started_at_ms: placement.started_at.map(Timestamp::as_millis),
        exited_at_ms: placement.exited.map(|(at, _)| at.as_millis()),
        exit: placement.exited.map(|(_, exit)| exit.to_wire()),
        freed_at_ms: placement.freed_at.map(Timestamp::as_millis),
        ready_at_ms: placement.ready_at.map(Timestamp::as_millis),
    }
}

fn read_placement(m: state::Placement) -> Result<Placement, Error> {
    let exit = m.exit.map(Exit::from_wire).transpose()?;
    Ok(Placement {
        rank: Rank::new(narrow("rank", m.rank)?),
        node: NodeId::new(m.node),
        slots: read_slots(m.slots)?,
        generation: Generation::new(m.generation),
        started_at: m.started_at_ms.map(moment),
        exited: m.exited_at_ms.map(moment).zip(exit),
        freed_at: m.freed_at_ms.map(moment),
        ready_at: m.ready_at_ms.map(moment),
    })
}

fn stop(stop: &Stop) -> state::Stop {
    use state::stop::Cause as Kind;
    let cause = match &stop.cause {
        StopCause::Cancel { who, reason } => Kind::Cancel(person(who, reason)),
        StopCause::Unwanted => Kind::Unwanted(state::Unwanted {}),
        StopCause::Preempt(taken) => Kind::Preempt(state::Taken {
            by: Some(taken.by.to_wire()),
            decision: Some(taken.decision.to_wire()),
            right: Some(taken.right.to_wire()),
            price: Some(taken.price.to_wire()),
            considered: taken.considered,
        }),
        StopCause::Drain { who, reason, cuts } => Kind::Drain(state::DrainStop {
            who: who.to_string(),
            reason: reason.clone(),
            cuts_ms: cuts.as_millis(),
        }),
        StopCause::Requeue { who, reason } => Kind::Requeue(person(who, reason)),
        StopCause::Rank { rank } => Kind::Rank(u32::from(rank.get())),
    };
    state::Stop { at_ms: stop.at.as_millis(), grace_ms: stop.grace.as_millis(), cause: Some(cause) }
}

fn person(who: &Name, reason: &str) -> state::Person {
    state::Person { who: who.to_string(), reason: reason.to_owned() }
}

fn read_stop(m: state::Stop) -> Result<Stop, Error> {
    use state::stop::Cause as Kind;
    let cause = match required("cause", m.cause)? {
        Kind::Cancel(by) => StopCause::Cancel { who: name("who", &by.who)?, reason: by.reason },
        Kind::Unwanted(_) => StopCause::Unwanted,
        Kind::Preempt(taken) => StopCause::Preempt(Taken {
            by: AttemptId::from_wire(required("by", taken.by)?)?,
            decision: DecisionId::from_wire(required("decision", taken.decision)?)?,
            right: Right::from_wire(required("right", taken.right)?)?,
            price: Price::from_wire(required("price", taken.price)?)?,
            considered: taken.considered,
        }),
        Kind::Drain(drain) => StopCause::Drain {
            who: name("who", &drain.who)?,
            reason: drain.reason,
            cuts: Span::from_millis(drain.cuts_ms),
        },
        Kind::Requeue(by) => StopCause::Requeue { who: name("who", &by.who)?, reason: by.reason },
        Kind::Rank(rank) => StopCause::Rank { rank: Rank::new(narrow("rank", rank)?) },
    };
    Ok(Stop { at: moment(m.at_ms), cause, grace: Span::from_millis(m.grace_ms) })
}

pub(super) fn decision(id: DecisionId, record: &Record) -> state::Decision {
    state::Decision {
        id: Some(id.to_wire()),
        at_ms: record.at.as_millis(),
        made_at: record.made_at.get(),
        term: record.term.get(),
        start: Some(record.start.to_wire()),
    }
}

pub(super) fn read_decision(m: state::Decision) -> Result<(DecisionId, Record), Error> {
    let record = Record {
        at: moment(m.at_ms),
        made_at: LogIndex::new(m.made_at),
        term: Term::new(m.term),
        start: Start::from_wire(required("start", m.start)?)?,
    };
    Ok((DecisionId::from_wire(required("id", m.id)?)?, record))
}
