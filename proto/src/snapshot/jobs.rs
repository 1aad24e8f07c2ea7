//! Jobs, attempts, what they launch, why they were placed, and the indexes over them.

use std::sync::Arc;

use scheduler_core::decision::{Record, Start};
use scheduler_core::id::{
    AttemptId, AttemptNo, BudgetId, DecisionId, Generation, JobId, LogIndex, NodeId, Rank, RequestId, Slot,
    SpecHash, Term, TokenHash,
};
use scheduler_core::job::{
    Attempt, AttemptEnd, End, Ended, Exit, HeldBy, Job, PastAttempt, Phase, Placement, Stop, StopCause, Terms,
};
use scheduler_core::spec::{Shape, TermSource, Tier, Turn};
use scheduler_core::state::{InLine, Launch, Stray, Timer};
use scheduler_core::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

use super::books::tier;
use super::people::{attempt_id, read_attempt_id};
use crate::error::Error;
use crate::state::v1 as state;
use crate::wire::{Wire, account, fixed, label, moment, name, narrow, required};

pub(super) fn job(id: JobId, job: &Job) -> state::Job {
    state::Job {
        id: id.get(),
        name: job.name.to_string(),
        user: job.user.to_string(),
        account: job.account.as_str().to_owned(),
        budget: job.budget.get(),
        launch: job.launch.as_bytes().to_vec(),
        terms: Some(terms(&job.terms)),
        submitted_at_ms: job.submitted_at.as_millis(),
        phase: Some(phase(&job.phase)),
        next_attempt: u32::from(job.next_attempt.get()),
        retries_used: u32::from(job.retries_used),
        past: job.past.iter().map(past).collect(),
        charged: Some(job.charged.to_wire()),
        failed_on: job.failed_on.iter().map(|node| node.get()).collect(),
    }
}

pub(super) fn read_job(m: state::Job) -> Result<(JobId, Job), Error> {
    let job = Job {
        name: label("name", &m.name)?,
        user: name("user", &m.user)?,
        account: account("account", &m.account)?,
        budget: BudgetId::new(m.budget),
        launch: fixed("launch", &m.launch, SpecHash::from_slice)?,
        terms: read_terms(required("terms", m.terms)?)?,
        submitted_at: moment(m.submitted_at_ms),
        phase: read_phase(required("phase", m.phase)?)?,
        next_attempt: AttemptNo::new(narrow("next_attempt", m.next_attempt)?),
        retries_used: narrow("retries_used", m.retries_used)?,
        failed_on: m.failed_on.into_iter().map(NodeId::new).collect(),
        past: m.past.into_iter().map(read_past).collect::<Result<_, _>>()?,
        charged: ChargeMillis::from_wire(required("charged", m.charged)?)?,
    };
    Ok((JobId::new(m.id), job))
}

fn terms(terms: &Terms) -> state::Terms {
    state::Terms {
        cluster: terms.cluster.as_ref().map(ToString::to_string),
        shape: Some(terms.shape.to_wire()),
        funded: terms.tier == Tier::Funded,
        tier_source: source(terms.tier_source).into(),
        min_runtime_ms: terms.min_runtime.as_millis(),
        time_limit_ms: terms.time_limit.map(Span::as_millis),
        resumable: terms.resumable,
        resumable_source: source(terms.resumable_source).into(),
        grace_ms: terms.grace.as_millis(),
        signal: u32::from(terms.signal),
        checkpoint_every_ms: terms.checkpoint_every.map(Span::as_millis),
        requeue_code: terms.requeue_code.map(u32::from),
        retries: u32::from(terms.retries),
        turn: terms.turn.to_wire(),
    }
}

fn read_terms(m: state::Terms) -> Result<Terms, Error> {
    Ok(Terms {
        tier_source: read_source(m.tier_source())?,
        resumable_source: read_source(m.resumable_source())?,
        cluster: m.cluster.map(|text| name("cluster", &text)).transpose()?,
        shape: Shape::from_wire(required("shape", m.shape)?)?,
        tier: tier(m.funded),
        min_runtime: Span::from_millis(m.min_runtime_ms),
        time_limit: m.time_limit_ms.map(Span::from_millis),
        resumable: m.resumable,
        grace: Span::from_millis(m.grace_ms),
        signal: narrow("signal", m.signal)?,
        checkpoint_every: m.checkpoint_every_ms.map(Span::from_millis),
        requeue_code: m.requeue_code.map(|code| narrow("requeue_code", code)).transpose()?,
        retries: narrow("retries", m.retries)?,
        turn: Turn::from_wire(m.turn)?,
    })
}

fn source(source: TermSource) -> state::TermSource {
    match source {
        TermSource::Submission => state::TermSource::Submission,
        TermSource::BudgetDefault => state::TermSource::BudgetDefault,
        TermSource::Unsaid => state::TermSource::Unsaid,
    }
}

fn read_source(m: state::TermSource) -> Result<TermSource, Error> {
    match m {
        state::TermSource::Unspecified => Err(Error::Missing("source")),
        state::TermSource::Submission => Ok(TermSource::Submission),
        state::TermSource::BudgetDefault => Ok(TermSource::BudgetDefault),
        state::TermSource::Unsaid => Ok(TermSource::Unsaid),
    }
}

fn phase(phase: &Phase) -> state::Phase {
    use state::phase::Phase as Kind;
    let kind = match phase {
        Phase::Held { since, by: HeldBy::Person { who, reason } } => Kind::Held(state::Held {
            since_ms: since.as_millis(),
            who: Some(who.to_string()),
            reason: reason.clone(),
        }),
        Phase::Held { since, by: HeldBy::FailedLaunches { reason } } => {
            Kind::Held(state::Held { since_ms: since.as_millis(), who: None, reason: reason.clone() })
        }
        Phase::Waiting { since } => Kind::WaitingSinceMs(since.as_millis()),
        Phase::Live(no) => Kind::Live(u32::from(no.get())),
        Phase::Ended { at, end, exit } => Kind::Ended(state::EndedPhase {
            at_ms: at.as_millis(),
            end: job_end(*end).into(),
            exit: exit.map(|exit| exit.to_wire()),
        }),
    };
    state::Phase { phase: Some(kind) }
}

fn read_phase(m: state::Phase) -> Result<Phase, Error> {
    use state::phase::Phase as Kind;
    Ok(match required("phase", m.phase)? {
        Kind::Held(held) => Phase::Held {
            since: moment(held.since_ms),
            by: match held.who {
                Some(who) => HeldBy::Person { who: name("who", &who)?, reason: held.reason },
                None => HeldBy::FailedLaunches { reason: held.reason },
            },
        },
        Kind::WaitingSinceMs(ms) => Phase::Waiting { since: moment(ms) },
        Kind::Live(no) => Phase::Live(AttemptNo::new(narrow("live", no)?)),
        Kind::Ended(ended) => Phase::Ended {
            at: moment(ended.at_ms),
            end: read_job_end(ended.end())?,
            exit: ended.exit.map(Exit::from_wire).transpose()?,
        },
    })
}

fn job_end(end: End) -> state::End {
    match end {
        End::Completed => state::End::Completed,
        End::Failed => state::End::Failed,
        End::Preempted => state::End::Preempted,
        End::TimedOut => state::End::TimedOut,
        End::Cancelled => state::End::Cancelled,
        End::Lost => state::End::Lost,
        End::Superseded => state::End::Superseded,
    }
}

fn read_job_end(m: state::End) -> Result<End, Error> {
    Ok(match m {
        state::End::Unspecified => return Err(Error::Missing("end")),
        state::End::Completed => End::Completed,
        state::End::Failed => End::Failed,
        state::End::Preempted => End::Preempted,
        state::End::TimedOut => End::TimedOut,
        state::End::Cancelled => End::Cancelled,
        state::End::Lost => End::Lost,
        state::End::Superseded => End::Superseded,
    })
}

fn past(past: &PastAttempt) -> state::PastAttempt {
    state::PastAttempt {
        no: u32::from(past.no.get()),
        node: past.node.get(),
        gpus: past.gpus,
        decision: Some(decision_id(past.decision)),
        placed_at_ms: past.placed_at.as_millis(),
        go_at_ms: past.go_at.map(Timestamp::as_millis),
        started_at_ms: past.started_at.map(Timestamp::as_millis),
        ended: Some(ended(&past.ended)),
        charged: Some(past.charged.to_wire()),
    }
}

fn read_past(m: state::PastAttempt) -> Result<PastAttempt, Error> {
    Ok(PastAttempt {
        no: AttemptNo::new(narrow("no", m.no)?),
        node: NodeId::new(m.node),
        gpus: m.gpus,
        decision: read_decision_id(&required("decision", m.decision)?)?,
        placed_at: moment(m.placed_at_ms),
        go_at: m.go_at_ms.map(moment),
        started_at: m.started_at_ms.map(moment),
        ended: read_ended(required("ended", m.ended)?)?,
        charged: ChargeMillis::from_wire(required("charged", m.charged)?)?,
    })
}

fn decision_id(id: DecisionId) -> state::DecisionId {
    state::DecisionId { index: id.index.get(), n: u32::from(id.n) }
}

fn read_decision_id(m: &state::DecisionId) -> Result<DecisionId, Error> {
    Ok(DecisionId { index: LogIndex::new(m.index), n: narrow("decision", m.n)? })
}

fn ended(ended: &Ended) -> state::Ended {
    let (cause, what) = match &ended.cause {
        AttemptEnd::Exited => (state::AttemptEnd::Exited, ""),
        AttemptEnd::TimeLimit => (state::AttemptEnd::TimeLimit, ""),
        AttemptEnd::Stopped => (state::AttemptEnd::Stopped, ""),
        AttemptEnd::LaunchFailedNode(what) => (state::AttemptEnd::LaunchFailedNode, what.as_str()),
        AttemptEnd::LaunchFailedJob(what) => (state::AttemptEnd::LaunchFailedJob, what.as_str()),
        AttemptEnd::NodeLost => (state::AttemptEnd::NodeLost, ""),
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
    };
    Ok(Ended { at: moment(m.at_ms), cause, exit: m.exit.map(Exit::from_wire).transpose()? })
}

pub(super) fn attempt(id: AttemptId, attempt: &Attempt) -> state::Attempt {
    state::Attempt {
        id: Some(attempt_id(id)),
        budget: attempt.budget.get(),
        funded: attempt.tier == Tier::Funded,
        pool: attempt.pool.to_string(),
        placements: attempt.placements.iter().map(placement).collect(),
        rate: attempt.rate.get(),
        decision: Some(decision_id(attempt.decision)),
        placed_at_ms: attempt.placed_at.as_millis(),
        go_at_ms: attempt.go_at.map(Timestamp::as_millis),
        start_by_ms: attempt.start_by.as_millis(),
        protection_ms: attempt.protection.as_millis(),
        started_at_ms: attempt.started_at.map(Timestamp::as_millis),
        stop: attempt.stop.as_ref().map(stop),
        ended: attempt.ended.as_ref().map(ended),
    }
}

pub(super) fn read_attempt(m: state::Attempt) -> Result<(AttemptId, Attempt), Error> {
    let attempt = Attempt {
        budget: BudgetId::new(m.budget),
        tier: tier(m.funded),
        pool: name("pool", &m.pool)?,
        placements: m.placements.into_iter().map(read_placement).collect::<Result<_, _>>()?,
        rate: MilliGpus::new(m.rate),
        decision: read_decision_id(&required("decision", m.decision)?)?,
        placed_at: moment(m.placed_at_ms),
        go_at: m.go_at_ms.map(moment),
        start_by: moment(m.start_by_ms),
        protection: Span::from_millis(m.protection_ms),
        started_at: m.started_at_ms.map(moment),
        stop: m.stop.map(read_stop).transpose()?,
        ended: m.ended.map(read_ended).transpose()?,
    };
    Ok((read_attempt_id(required("id", m.id)?)?, attempt))
}

fn slots(slots: &[Slot]) -> Vec<u32> {
    slots.iter().map(|slot| u32::from(slot.get())).collect()
}

fn read_slots(m: Vec<u32>) -> Result<Vec<Slot>, Error> {
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
    })
}

fn stop(stop: &Stop) -> state::Stop {
    let (cancelled_by, reason) = match &stop.cause {
        StopCause::Cancel { who, reason } => (Some(who.to_string()), reason.clone()),
        StopCause::Unwanted => (None, String::new()),
    };
    state::Stop { at_ms: stop.at.as_millis(), cancelled_by, reason, grace_ms: stop.grace.as_millis() }
}

fn read_stop(m: state::Stop) -> Result<Stop, Error> {
    let cause = match m.cancelled_by {
        Some(who) => StopCause::Cancel { who: name("cancelled_by", &who)?, reason: m.reason },
        None => StopCause::Unwanted,
    };
    Ok(Stop { at: moment(m.at_ms), cause, grace: Span::from_millis(m.grace_ms) })
}

pub(super) fn launch(hash: &SpecHash, launch: &Launch) -> state::Launch {
    state::Launch { hash: hash.as_bytes().to_vec(), launch: launch.bytes.to_vec(), jobs: launch.jobs }
}

pub(super) fn read_launch(m: state::Launch) -> Result<(SpecHash, Launch), Error> {
    let hash = fixed("hash", &m.hash, SpecHash::from_slice)?;
    Ok((hash, Launch { bytes: Arc::from(m.launch), jobs: m.jobs }))
}

pub(super) fn decision(id: DecisionId, record: &Record) -> state::Decision {
    state::Decision {
        id: Some(decision_id(id)),
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
    Ok((read_decision_id(&required("id", m.id)?)?, record))
}

/// Where a stray is, and what it seems to be.
type StrayKey = (NodeId, AttemptId, Rank);

pub(super) fn stray((node, attempt, rank): StrayKey, stray: &Stray) -> state::Stray {
    state::Stray {
        node: node.get(),
        attempt: Some(attempt_id(attempt)),
        rank: u32::from(rank.get()),
        since_ms: stray.since.as_millis(),
        slots: slots(&stray.slots),
    }
}

pub(super) fn read_stray(m: state::Stray) -> Result<(StrayKey, Stray), Error> {
    let attempt = read_attempt_id(required("attempt", m.attempt)?)?;
    let key = (NodeId::new(m.node), attempt, Rank::new(narrow("rank", m.rank)?));
    Ok((key, Stray { since: moment(m.since_ms), slots: read_slots(m.slots)? }))
}

pub(super) fn in_line(place: &InLine) -> state::InLine {
    state::InLine {
        budget: place.budget.get(),
        funded: place.tier == Tier::Funded,
        turn: place.turn.to_wire(),
        submitted_at_ms: place.submitted_at.as_millis(),
        job: place.job.get(),
    }
}

pub(super) fn read_in_line(m: state::InLine) -> Result<InLine, Error> {
    Ok(InLine {
        budget: BudgetId::new(m.budget),
        tier: tier(m.funded),
        turn: Turn::from_wire(m.turn)?,
        submitted_at: moment(m.submitted_at_ms),
        job: JobId::new(m.job),
    })
}

pub(super) fn ended_job((at, job): (Timestamp, JobId)) -> state::EndedJob {
    state::EndedJob { at_ms: at.as_millis(), job: job.get() }
}

pub(super) fn read_ended_job(m: &state::EndedJob) -> (Timestamp, JobId) {
    (moment(m.at_ms), JobId::new(m.job))
}

pub(super) fn timer((at, timer): &(Timestamp, Timer)) -> state::TimerEntry {
    use state::timer_entry::Timer as Kind;
    let kind = match timer {
        Timer::ProtectionOver(id) => Kind::ProtectionOver(attempt_id(*id)),
        Timer::BackoffOver(node) => Kind::BackoffOver(node.get()),
        Timer::JoinToken(token) => Kind::JoinToken(token.as_bytes().to_vec()),
        Timer::Request(id) => Kind::Request(id.as_bytes().to_vec()),
    };
    state::TimerEntry { at_ms: at.as_millis(), timer: Some(kind) }
}

pub(super) fn read_timer(m: state::TimerEntry) -> Result<(Timestamp, Timer), Error> {
    use state::timer_entry::Timer as Kind;
    let timer = match required("timer", m.timer)? {
        Kind::ProtectionOver(id) => Timer::ProtectionOver(read_attempt_id(id)?),
        Kind::BackoffOver(node) => Timer::BackoffOver(NodeId::new(node)),
        Kind::JoinToken(token) => Timer::JoinToken(fixed("token", &token, TokenHash::from_slice)?),
        Kind::Request(id) => Timer::Request(fixed("request", &id, RequestId::from_slice)?),
    };
    Ok((moment(m.at_ms), timer))
}
