//! Jobs, attempts, what they launch, why they were placed, and the indexes over them.

use std::sync::Arc;

use scheduler_core::array::Task;
use scheduler_core::id::{
    AttemptId, AttemptNo, BudgetId, EditId, GrantId, JobId, NodeId, Rank, RequestId, SpecHash, TokenHash,
};
use scheduler_core::job::{Before, End, Exit, HeldBy, Job, JobResult, Met, Need, Phase, Progress, Terms};
use scheduler_core::spec::{Shape, TermSource, Tier, Turn, Wants};
use scheduler_core::state::{InLine, Launch, Stray, Timer};
use scheduler_core::unit::{ChargeMillis, Span, Timestamp};

use super::attempts::{past, read_past, read_slots, slots};
use super::books::tier;
use crate::error::Error;
use crate::state::v1 as state;
use crate::wire::{Wire, account, fixed, label, moment, name, narrow, required};

pub(super) fn job(id: JobId, job: &Job) -> state::Job {
    state::Job {
        wants: job.wants.iter().map(ToString::to_string).collect(),
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
        progress: Some(progress(&job.progress)),
        before: Some(before(&job.before)),
        array: job.array.map(|task| state::ArrayTask { of: task.of.get(), index: task.index }),
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
        progress: read_progress(m.progress.unwrap_or_default())?,
        before: read_before(m.before.unwrap_or_default())?,
        array: m.array.map(|m| Task { of: JobId::new(m.of), index: m.index }),
        wants: m.wants.iter().map(|text| name("wants", text)).collect::<Result<_, _>>()?,
    };
    Ok((JobId::new(m.id), job))
}

fn before(before: &Before) -> state::Before {
    let need = |need: &Need| state::Need {
        job: need.job.get(),
        ok: need.wants == Wants::Success,
        met: match need.met {
            Met::Open => state::Met::Open,
            Met::Yes => state::Met::Yes,
            Met::Never => state::Met::Never,
        }
        .into(),
    };
    state::Before {
        begin_ms: before.begin.map(Timestamp::as_millis),
        needs: before.needs.iter().map(need).collect(),
    }
}

fn read_before(m: state::Before) -> Result<Before, Error> {
    let need = |m: state::Need| -> Result<Need, Error> {
        Ok(Need {
            job: JobId::new(m.job),
            wants: if m.ok { Wants::Success } else { Wants::End },
            met: match m.met() {
                state::Met::Unspecified => return Err(Error::Missing("met")),
                state::Met::Open => Met::Open,
                state::Met::Yes => Met::Yes,
                state::Met::Never => Met::Never,
            },
        })
    };
    let needs = m.needs.into_iter().map(need).collect::<Result<_, _>>()?;
    Ok(Before { begin: m.begin_ms.map(moment), needs })
}

fn progress(progress: &Progress) -> state::Progress {
    let ms = |spans: &[Span]| spans.iter().map(|span| span.as_millis()).collect();
    state::Progress {
        saved_by: progress.saved.map(|(no, _)| u32::from(no.get())),
        saved_at_ms: progress.saved.map_or(0, |(_, at)| at.as_millis()),
        intervals_ms: ms(&progress.intervals),
        restarts_ms: ms(&progress.restarts),
        preemptions: u32::from(progress.preemptions),
        barren: u32::from(progress.barren),
    }
}

fn read_progress(m: state::Progress) -> Result<Progress, Error> {
    let spans = |ms: Vec<u64>| ms.into_iter().map(Span::from_millis).collect();
    let saved_by = m.saved_by.map(|no| narrow("saved_by", no).map(AttemptNo::new)).transpose()?;
    Ok(Progress {
        saved: saved_by.map(|no| (no, moment(m.saved_at_ms))),
        intervals: spans(m.intervals_ms),
        restarts: spans(m.restarts_ms),
        preemptions: narrow("preemptions", m.preemptions)?,
        barren: narrow("barren", m.barren)?,
    })
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
        exclude: terms.exclude.iter().map(|node| node.get()).collect(),
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
        exclude: m.exclude.into_iter().map(NodeId::new).collect(),
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
        Phase::Held { since, by } => {
            Kind::Held(state::Held { since_ms: since.as_millis(), by: Some(held(by)) })
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
        Kind::Held(held) => {
            Phase::Held { since: moment(held.since_ms), by: read_held(required("by", held.by)?)? }
        }
        Kind::WaitingSinceMs(ms) => Phase::Waiting { since: moment(ms) },
        Kind::Live(no) => Phase::Live(AttemptNo::new(narrow("live", no)?)),
        Kind::Ended(ended) => Phase::Ended {
            at: moment(ended.at_ms),
            end: read_job_end(ended.end())?,
            exit: ended.exit.map(Exit::from_wire).transpose()?,
        },
    })
}

fn held(by: &HeldBy) -> state::held::By {
    use state::held::By;
    match by {
        HeldBy::Person { who, reason } => {
            By::Person(state::Person { who: who.to_string(), reason: reason.clone() })
        }
        HeldBy::FailedLaunches { reason } => By::FailedLaunches(reason.clone()),
        HeldBy::Backoff { until } => By::BackoffUntilMs(until.as_millis()),
        HeldBy::Barren { preemptions } => By::Barren(u32::from(*preemptions)),
        HeldBy::Begin { until } => By::BeginUntilMs(until.as_millis()),
        HeldBy::Dependency { never } => By::Dependency(state::Dependency { never: never.map(JobId::get) }),
    }
}

fn read_held(m: state::held::By) -> Result<HeldBy, Error> {
    use state::held::By;
    Ok(match m {
        By::Person(by) => HeldBy::Person { who: name("who", &by.who)?, reason: by.reason },
        By::FailedLaunches(reason) => HeldBy::FailedLaunches { reason },
        By::BackoffUntilMs(ms) => HeldBy::Backoff { until: moment(ms) },
        By::Barren(count) => HeldBy::Barren { preemptions: narrow("barren", count)? },
        By::BeginUntilMs(ms) => HeldBy::Begin { until: moment(ms) },
        By::Dependency(m) => HeldBy::Dependency { never: m.never.map(JobId::new) },
    })
}

pub(super) fn job_end(end: End) -> state::End {
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

pub(super) fn read_job_end(m: state::End) -> Result<End, Error> {
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

pub(super) fn result(id: JobId, result: &JobResult) -> state::JobResult {
    state::JobResult {
        job: id.get(),
        at_ms: result.at.as_millis(),
        end: job_end(result.end).into(),
        exit: result.exit.map(|exit| exit.to_wire()),
    }
}

pub(super) fn read_result(m: state::JobResult) -> Result<(JobId, JobResult), Error> {
    let result = JobResult {
        at: moment(m.at_ms),
        end: read_job_end(m.end())?,
        exit: m.exit.map(Exit::from_wire).transpose()?,
    };
    Ok((JobId::new(m.job), result))
}

pub(super) fn launch(hash: &SpecHash, launch: &Launch) -> state::Launch {
    state::Launch { hash: hash.as_bytes().to_vec(), launch: launch.bytes.to_vec(), jobs: launch.jobs }
}

pub(super) fn read_launch(m: state::Launch) -> Result<(SpecHash, Launch), Error> {
    let hash = fixed("hash", &m.hash, SpecHash::from_slice)?;
    Ok((hash, Launch { bytes: Arc::from(m.launch), jobs: m.jobs }))
}

/// Where a stray is, and what it seems to be.
type StrayKey = (NodeId, AttemptId, Rank);

pub(super) fn stray((node, attempt, rank): StrayKey, stray: &Stray) -> state::Stray {
    state::Stray {
        node: node.get(),
        attempt: Some(attempt.to_wire()),
        rank: u32::from(rank.get()),
        since_ms: stray.since.as_millis(),
        slots: slots(&stray.slots),
    }
}

pub(super) fn read_stray(m: state::Stray) -> Result<(StrayKey, Stray), Error> {
    let attempt = AttemptId::from_wire(required("attempt", m.attempt)?)?;
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
        Timer::ProtectionOver(id) => Kind::ProtectionOver(id.to_wire()),
        Timer::StartBy(id) => Kind::StartBy(id.to_wire()),
        Timer::Release(job) => Kind::Release(job.get()),
        Timer::Drain(node) => Kind::Drain(node.get()),
        Timer::BackoffOver(node) => Kind::BackoffOver(node.get()),
        Timer::JoinToken(token) => Kind::JoinToken(token.as_bytes().to_vec()),
        Timer::Request(id) => Kind::Request(id.as_bytes().to_vec()),
        Timer::Grant(id) => Kind::Grant(id.get()),
        Timer::Edit(id) => Kind::Edit(id.get()),
    };
    state::TimerEntry { at_ms: at.as_millis(), timer: Some(kind) }
}

pub(super) fn read_timer(m: state::TimerEntry) -> Result<(Timestamp, Timer), Error> {
    use state::timer_entry::Timer as Kind;
    let timer = match required("timer", m.timer)? {
        Kind::ProtectionOver(id) => Timer::ProtectionOver(AttemptId::from_wire(id)?),
        Kind::StartBy(id) => Timer::StartBy(AttemptId::from_wire(id)?),
        Kind::Release(job) => Timer::Release(JobId::new(job)),
        Kind::Drain(node) => Timer::Drain(NodeId::new(node)),
        Kind::BackoffOver(node) => Timer::BackoffOver(NodeId::new(node)),
        Kind::JoinToken(token) => Timer::JoinToken(fixed("token", &token, TokenHash::from_slice)?),
        Kind::Request(id) => Timer::Request(fixed("request", &id, RequestId::from_slice)?),
        Kind::Grant(id) => Timer::Grant(GrantId::new(id)),
        Kind::Edit(id) => Timer::Edit(EditId::new(id)),
    };
    Ok((moment(m.at_ms), timer))
}
