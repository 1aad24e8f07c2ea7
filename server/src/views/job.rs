//! A job and its attempts.

use proto::{Wire as _, v1};
use scheduler_core::explain::{self, Reason, Stage};
use scheduler_core::id::{AttemptId, AttemptNo, JobId, Name};
use scheduler_core::job::{Attempt, Before, Exit, Job, Met, Need, PastAttempt, Phase, Stop, StopCause};
use scheduler_core::lifecycle::book::charge_so_far;
use scheduler_core::spec::{Program, Wants};
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, Timestamp};

use super::{Scene, charge, cost, words};

/// Where a job stands and why, as core's explanation says.
#[derive(Debug, Clone)]
pub struct Stands {
    /// Where.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// Why: the reason that binds.
    pub reason: Option<Reason>,
}

/// Returns a job as `reader` may see it.
#[must_use]
pub fn view(scene: Scene<'_>, id: JobId, job: &Job, reader: &Name, stands: &Stands) -> v1::JobView {
    let state = scene.state();
    let terms = &job.terms;
    let (end, exit, ended_at) = match &job.phase {
        Phase::Ended { at, end, exit } => {
            (Some(words::end(*end).to_owned()), exit.map(exit_view), Some(at.as_millis()))
        }
        Phase::Held { .. } | Phase::Waiting { .. } | Phase::Live(_) => (None, None, None),
    };
    v1::JobView {
        schema: "job/v1".to_owned(),
        as_of: scene.as_of(),
        job: id.get(),
        name: job.name.to_string(),
        user: job.user.to_string(),
        account: job.account.as_str().to_owned(),
        budget: words::budget_path(state, job.budget),
        tier: words::tier(terms.tier).to_owned(),
        state: stands.stage.as_str().to_owned(),
        reason: stands.reason.as_ref().map(|reason| reason.token.as_str().to_owned()).unwrap_or_default(),
        since_at: Some(stands.since.as_millis()),
        submitted_at: job.submitted_at.as_millis(),
        shape: Some(terms.shape.to_wire()),
        gpus: gpus(job),
        min_runtime_ms: terms.min_runtime.as_millis(),
        time_limit_ms: terms.time_limit.map(|limit| limit.as_millis()),
        resumable: terms.resumable,
        turn: terms.turn.to_wire(),
        grace_ms: terms.grace.as_millis(),
        retries: u32::from(terms.retries),
        retries_used: u32::from(job.retries_used),
        charged_milli_gpu_ms: charge(charged(state, id, job, scene.now)),
        attempts: attempts(scene, id, job),
        end,
        exit,
        ended_at,
        launch: (job.user == *reader).then(|| launch(state, job)).flatten(),
        left_at: None,
        begin_at: job.before.begin.map(Timestamp::as_millis),
        after: needs(state, &job.before),
        shown_as: explain::shown(state, id),
        tasks: None,
        array: job.array.map(|task| task.of.get()),
        task: job.array.map(|task| task.index),
        date: None,
        exclude: terms.exclude.iter().map(|node| words::node_name(state, *node)).collect(),
    }
}

/// Returns a job, or what all tasks of an array are.
#[must_use]
pub fn of(state: &State, id: JobId) -> Option<&Job> {
    state.jobs.get(&id).or_else(|| state.arrays.get(&id).map(|array| &array.job))
}

/// Returns what a job waits for, or did.
#[must_use]
pub fn needs(state: &State, before: &Before) -> Vec<v1::NeedView> {
    let view = |need: &Need| v1::NeedView {
        job: need.job.get(),
        name: of(state, need.job).map(|job| job.name.to_string()).unwrap_or_default(),
        shown_as: explain::shown(state, need.job),
        wants: match need.wants {
            Wants::End => "end",
            Wants::Success => "success",
        }
        .to_owned(),
        met: match need.met {
            Met::Open => "open",
            Met::Yes => "yes",
            Met::Never => "never",
        }
        .to_owned(),
    };
    before.needs.iter().map(view).collect()
}

/// Returns how many GPUs a job needs.
#[must_use]
pub fn gpus(job: &Job) -> u32 {
    job.terms.shape.nodes.saturating_mul(job.terms.shape.gpus_per_node.get())
}

/// Returns what all a job's attempts were charged up to `now`. An ended attempt is in the job's own sum.
fn charged(state: &State, id: JobId, job: &Job, now: Timestamp) -> ChargeMillis {
    let live = of_job(state, id).filter(|(_, attempt)| attempt.ended.is_none());
    live.fold(job.charged, |sum, (_, attempt)| sum.checked_add(charge_so_far(attempt, now)).unwrap_or(sum))
}

pub(super) fn of_job(state: &State, job: JobId) -> impl Iterator<Item = (&AttemptId, &Attempt)> {
    let first = AttemptId { job, no: AttemptNo::new(0) };
    let last = AttemptId { job, no: AttemptNo::new(u16::MAX) };
    state.attempts.range(first..=last)
}

fn attempts(scene: Scene<'_>, id: JobId, job: &Job) -> Vec<v1::AttemptView> {
    let state = scene.state();
    let past = job.past.iter().map(|past| past_view(state, id, past));
    past.chain(of_job(state, id).map(|(id, attempt)| live_view(scene, *id, attempt))).collect()
}

fn past_view(state: &State, job: JobId, past: &PastAttempt) -> v1::AttemptView {
    let attempt = AttemptId { job, no: past.no };
    v1::AttemptView {
        attempt: u32::from(past.no.get()),
        node: past.nodes.first().map(|node| words::node_name(state, *node)).unwrap_or_default(),
        gpus: past.gpus,
        state: "past".to_owned(),
        placed_at: past.placed_at.as_millis(),
        go_at: past.go_at.map(Timestamp::as_millis),
        started_at: past.started_at.map(Timestamp::as_millis),
        ended_at: Some(past.ended.at.as_millis()),
        end: Some(words::attempt_end(&past.ended.cause).to_owned()),
        exit: past.ended.exit.map(exit_view),
        charged_milli_gpu_ms: charge(past.charged),
        decision: past.decision.to_string(),
        detail: words::attempt_detail(&past.ended.cause),
        nodes: past.nodes.iter().map(|node| words::node_name(state, *node)).collect(),
        saved_at: past.saved_at.map(Timestamp::as_millis),
        cost: cost::of_past(state, attempt, past),
        ..stopped(past.stop.as_ref())
    }
}

/// Returns what a stop says of an attempt.
fn stopped(stop: Option<&Stop>) -> v1::AttemptView {
    let taken_for = stop.and_then(|stop| match &stop.cause {
        StopCause::Preempt(taken) => Some(taken.by.to_string()),
        StopCause::Cancel { .. }
        | StopCause::Unwanted
        | StopCause::Drain { .. }
        | StopCause::Requeue { .. }
        | StopCause::Rank { .. } => None,
    });
    v1::AttemptView {
        stop: stop.map(|stop| words::stop(&stop.cause)),
        stop_at: stop.map(|stop| stop.at.as_millis()),
        stop_grace_ms: stop.map(|stop| stop.grace.as_millis()),
        taken_for,
        ..v1::AttemptView::default()
    }
}

fn live_view(scene: Scene<'_>, id: AttemptId, attempt: &Attempt) -> v1::AttemptView {
    let first = attempt.placements.first();
    let ended = attempt.ended.as_ref();
    let word = match (ended, &attempt.stop, attempt.started_at) {
        (Some(_), _, _) => "ended",
        (None, Some(_), _) => "stopping",
        (None, None, Some(_)) => "running",
        (None, None, None) if attempt.go_at.is_some() => "starting",
        (None, None, None) => "placed",
    };
    v1::AttemptView {
        attempt: u32::from(id.no.get()),
        node: first.map(|p| words::node_name(scene.state(), p.node)).unwrap_or_default(),
        gpus: attempt.placements.iter().map(|p| u32::try_from(p.slots.len()).unwrap_or(u32::MAX)).sum(),
        slots: first.map(|p| p.slots.iter().map(|slot| u32::from(slot.get())).collect()).unwrap_or_default(),
        state: word.to_owned(),
        placed_at: attempt.placed_at.as_millis(),
        go_at: attempt.go_at.map(Timestamp::as_millis),
        started_at: attempt.started_at.map(Timestamp::as_millis),
        protected_until_at: attempt.protected_until().map(Timestamp::as_millis),
        ended_at: ended.map(|ended| ended.at.as_millis()),
        end: ended.map(|ended| words::attempt_end(&ended.cause).to_owned()),
        exit: ended.and_then(|ended| ended.exit).map(exit_view),
        charged_milli_gpu_ms: charge(charge_so_far(attempt, scene.now)),
        decision: attempt.decision.to_string(),
        detail: ended.and_then(|ended| words::attempt_detail(&ended.cause)),
        nodes: attempt.placements.iter().map(|p| words::node_name(scene.state(), p.node)).collect(),
        port: attempt.port.map(u32::from),
        saved_at: attempt.saved_at.map(Timestamp::as_millis),
        signed_at: attempt.signed_at.map(Timestamp::as_millis),
        cost: ended.and_then(|ended| cost::of(scene.state(), id, ended)),
        ..stopped(attempt.stop.as_ref())
    }
}

fn exit_view(exit: Exit) -> v1::ExitView {
    let (kind, value) = match exit {
        Exit::Code(code) => ("code", u32::from(code)),
        Exit::Signal(signal) => ("signal", u32::from(signal)),
        Exit::Unknown => ("unknown", 0),
    };
    v1::ExitView { kind: kind.to_owned(), value }
}

fn launch(state: &State, job: &Job) -> Option<v1::LaunchView> {
    let stored = state.launches.get(&job.launch)?;
    let launch = proto::decode_launch(&stored.bytes).ok()?;
    let (command, script) = match launch.program {
        Program::Command(argv) => (argv, None),
        Program::Script(text) => (Vec::new(), Some(text)),
    };
    Some(v1::LaunchView {
        command,
        script,
        working_dir: launch.working_dir,
        output: launch.output,
        env_names: launch.env.into_keys().collect(),
    })
}
