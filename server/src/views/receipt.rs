//! What was accepted, with the terms in force.

use proto::{Wire as _, v1};
use scheduler_core::array::{JobArray, LIVE_MAX};
use scheduler_core::decision::UseOf;
use scheduler_core::explain::{self, Place};
use scheduler_core::id::{JobId, Name};
use scheduler_core::job::{HeldBy, Job, Phase};
use scheduler_core::plan::usual_rate;
use scheduler_core::pool;
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, Span};

use super::{Scene, array, budget, charge, job, use_view, words};

/// In a longer line a receipt says no place: it is counted by walking the line, and that must not cost every submission
/// more the more of them there are. `explain` always counts.
const COUNTED: usize = 1_000;

/// Returns the receipt of an accepted job.
#[must_use]
pub fn receipt(scene: Scene<'_>, id: JobId, record: &Job) -> v1::Receipt {
    let state = scene.state();
    // Of an array its first task stands for all.
    let first = if state.arrays.contains(&id) { JobArray::task_at(id, 0) } else { id };
    let place = if state.line.len() > COUNTED { None } else { explain::place(state, first, scene.now) };
    of(scene, id, record, place.as_ref())
}

/// Returns the receipt of a job at a place in line, if it has one.
#[must_use]
pub fn of(scene: Scene<'_>, id: JobId, record: &Job, place: Option<&Place>) -> v1::Receipt {
    let state = scene.state();
    let terms = &record.terms;
    let pool = pool_of(state, record, place.map(|place| &place.pool));
    let used = budget::use_of(scene, &pool, record.budget, terms.tier);
    v1::Receipt {
        schema: "receipt/v1".to_owned(),
        job: id.get(),
        name: record.name.to_string(),
        submitted_at: record.submitted_at.as_millis(),
        budget: words::budget_path(state, record.budget),
        tier: words::tier(terms.tier).to_owned(),
        tier_source: words::source(terms.tier_source).to_owned(),
        r#use: Some(use_view(state, &used)),
        min_runtime_ms: terms.min_runtime.as_millis(),
        gpus: job::gpus(record),
        set_aside_milli_gpu_ms: charge(set_aside(state, &pool, record)),
        resumable: terms.resumable,
        resumable_source: words::source(terms.resumable_source).to_owned(),
        grace_ms: terms.grace.as_millis(),
        // 0: not counted, or not in line any more.
        place: place.map_or(0, |place| place.place),
        gpus_ahead: place.map_or(0, |place| place.gpus_ahead),
        warnings: [warnings(state, id, record), large(state, &pool, record, &used)].concat(),
        turn: terms.turn.to_wire(),
        time_limit_ms: terms.time_limit.map(|limit| limit.as_millis()),
        state: match record.phase {
            Phase::Held { .. } => "held",
            Phase::Waiting { .. } => "waiting",
            Phase::Live(_) => "starting",
            Phase::Ended { .. } => "ended",
        }
        .to_owned(),
        begin_at: record.before.begin.map(|at| at.as_millis()),
        after: job::needs(state, &record.before),
        tasks: state.arrays.get(&id).map(|array| array::tasks(scene, id, array)),
        first_to_start_ms: first_to_start(state, record).map(Span::as_millis),
        date: explain::date_of(state, id, scene.now).map(|date| super::date::view(state, &date)),
    }
}

/// Returns how long a funded job waits at most from becoming first in order: the cap, the start limit and two graces.
fn first_to_start(state: &State, record: &Job) -> Option<Span> {
    let settings = &state.meta.settings;
    let graces = settings.longest_grace().plus(settings.longest_grace());
    let is_promised = settings.dates && record.terms.tier == Tier::Funded;
    is_promised.then(|| settings.cap.max(record.terms.min_runtime).plus(settings.start_limit).plus(graces))
}

/// Warns where one run takes so much of what the budget's share is worth that a later one waits for the window.
fn large(state: &State, pool: &Name, record: &Job, used: &UseOf) -> Vec<String> {
    let (slice, worth) = (set_aside(state, pool, record).get(), used.allocation.get());
    if worth == 0 || slice < worth / 2 {
        return Vec::new();
    }
    let percent = slice.saturating_mul(100) / worth;
    Vec::from([format!(
        "one run of its minimum is {percent} % of what the share of its budget is worth in {}: after it has run, a later \
         attempt may wait until that has left the window",
        state.meta.settings.window
    )])
}

/// Returns the pool whose books the receipt shows: where the job stands, or the one it names, or the first.
fn pool_of(state: &State, record: &Job, placed: Option<&Name>) -> Name {
    let named = record.terms.cluster.as_ref().map(|cluster| pool::of_cluster(&state.pools, cluster));
    let named = placed.cloned().or(named);
    named.or_else(|| state.nodes.values().next().map(|node| node.pool.clone())).unwrap_or_else(main_pool)
}

/// The pool that a node joins where nothing else is said.
fn main_pool() -> Name {
    Name::new("main").expect("four letters are a name")
}

/// Returns what is set aside at the start: the rate on the first node that could hold it x minimum runtime. Which node it
/// is shows at its placing.
fn set_aside(state: &State, pool: &Name, record: &Job) -> ChargeMillis {
    match record.terms.tier {
        Tier::Funded => {
            ChargeMillis::of(usual_rate(state, pool, &record.terms.shape), record.terms.min_runtime)
        }
        Tier::Free => ChargeMillis::ZERO,
    }
}

fn warnings(state: &State, id: JobId, record: &Job) -> Vec<String> {
    let terms = &record.terms;
    let mut warnings = Vec::new();
    if let Phase::Held { by: HeldBy::Dependency { never: Some(never) }, .. } = &record.phase {
        warnings.push(format!(
            "job {never} has not completed and never will: this job stays held until somebody releases it"
        ));
    }
    if let Some(limit) = state.arrays.get(&id).and_then(|array| array.indexes.limit())
        && limit > LIVE_MAX
    {
        warnings
            .push(format!("at most {LIVE_MAX} tasks of one array are in line or run at once, not {limit}"));
    }
    if !terms.resumable {
        warnings.push(
            "not resumable: if its GPUs are taken or its node is lost, the job ends; say --resumable if it goes on \
             from a checkpoint"
                .to_owned(),
        );
    }
    if terms.resumable && terms.checkpoint_every.is_none() {
        warnings.push(
            "says nothing of its checkpoints: what a preemption costs it is then only known as an upper bound; say \
             --checkpoint-every, or report them with `bursar checkpoint`"
                .to_owned(),
        );
    }
    let guess = state.meta.settings.restart_guess;
    let needed = terms.checkpoint_every.map(|every| guess.plus(every));
    if let Some(needed) = needed.filter(|needed| terms.tier == Tier::Funded && terms.min_runtime < *needed) {
        warnings.push(format!(
            "its protection, {}, is shorter than a restart and the time to its next checkpoint, {needed}: it may \
             end before one is saved",
            terms.min_runtime
        ));
    }
    if state.nodes.is_empty() {
        warnings.push("no node has joined yet: the job waits until one does".to_owned());
    }
    if let Some(mode) = &state.meta.safe_mode {
        warnings.push(format!("the control plane is in safe mode and starts nothing: {}", mode.what));
    }
    warnings
}
