//! A new job: everything that a submission can get wrong is refused here, with the way out.

mod before;
mod shape;
mod terms;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::context::Context;
use super::rights;
use crate::array::{Indexes, JobArray};
use crate::budget;
use crate::command::{Answer, Blob, Code, Outcome, Rejection, Submit};
use crate::id::{AttemptNo, JobId};
use crate::job::{HeldBy, Job, Phase, Progress, Terms};
use crate::lifecycle::{array, phase};
use crate::spec::Request;
use crate::state::{Launch, State};
use crate::unit::ChargeMillis;

/// The most bytes of what a node reads.
const LAUNCH_MAX: usize = 64 * 1024;

/// Accepts a job, or refuses it with the fix; what is refused has changed nothing.
pub(super) fn submit(state: &mut State, cx: &Context<'_>, submit: &Submit) -> Answer {
    let (user, principal) = rights::person(state, cx)?;
    let account = principal.account.clone();
    let request = &submit.request;
    let budget = budget::for_submission(state, &request.budget, user)?;
    let exclude = shape::exclude(state, request)?;
    let shape = shape::complete(state, request, &exclude)?;
    let terms = Terms { shape, exclude, ..terms::complete(state, request, budget)? };
    let before = before::complete(state, &request.asks, cx.now)?;
    check_launch(state, &submit.launch)?;
    check_bounds(state, request, &submit.launch)?;
    let held = if request.is_held {
        Some(HeldBy::Person { who: user.clone(), reason: String::from("submitted held") })
    } else {
        before.holds(cx.now)
    };
    let phase = match held {
        Some(by) => Phase::Held { since: cx.now, by },
        None => Phase::Waiting { since: cx.now },
    };
    let job = Job {
        name: request.name.clone(),
        user: user.clone(),
        account,
        budget,
        launch: submit.launch.hash,
        terms,
        submitted_at: cx.now,
        phase,
        next_attempt: AttemptNo::new(1),
        retries_used: 0,
        failed_on: BTreeSet::new(),
        past: Vec::new(),
        charged: ChargeMillis::ZERO,
        progress: Progress::default(),
        before,
        array: None,
        wants: Vec::new(),
    };
    let id = state.meta.next_job;
    let numbers = request.asks.array.as_ref().map_or(1, |tasks| tasks.count().saturating_add(1));
    state.meta.next_job = JobId::new(id.get().saturating_add(numbers));
    keep_launch(state, &submit.launch);
    match request.asks.array.clone() {
        Some(tasks) => array::admit(state, id, JobArray::new(job, tasks), cx.now),
        None => phase::admit(state, id, job),
    }
    Ok(Outcome::Submitted { job: id })
}

fn check_launch(state: &State, launch: &Blob) -> Result<(), Rejection> {
    if launch.bytes.len() > LAUNCH_MAX {
        return Err(Rejection::new(
            Code::BadSpec,
            format!("command, environment and script take {} bytes", launch.bytes.len()),
            "every replica keeps them",
            format!("at most {LAUNCH_MAX}: put what is large in a file that the node can read"),
        ));
    }
    match state.launches.get(&launch.hash) {
        Some(known) if known.bytes != launch.bytes => Err(Rejection::new(
            Code::Conflict,
            format!("what the node reads does not have the hash {}", launch.hash),
            "content is kept under its hash",
            String::from("submit again"),
        )),
        Some(_) | None => Ok(()),
    }
}

fn check_bounds(state: &State, request: &Request, launch: &Blob) -> Result<(), Rejection> {
    let max = state.meta.settings.live_jobs_max;
    let (places, numbers) = request.asks.array.as_ref().map_or((1, 1), |tasks| {
        let count = tasks.count();
        (tasks.live_max().min(count).saturating_add(1), count.saturating_add(1))
    });
    let has_numbers = state.meta.next_job.get().checked_add(numbers).is_some();
    if state.meta.live_jobs.saturating_add(places) > max || !has_numbers {
        return Err(Rejection::new(
            Code::Full,
            format!("{} of {max} jobs are waiting or running", state.meta.live_jobs),
            match request.asks.array {
                Some(_) => "an array takes a place of its own, and one for each task that may live at once",
                None => "the control plane takes no more",
            },
            String::from("submit again when some have ended"),
        ));
    }
    let tasks_max = state.meta.settings.array_tasks_max;
    let tasks = request.asks.array.as_ref().map_or(0, Indexes::count);
    if state.meta.array_tasks.saturating_add(tasks) > tasks_max {
        return Err(Rejection::new(
            Code::Full,
            format!(
                "the arrays of this control plane have {} tasks, at most {tasks_max}",
                state.meta.array_tasks
            ),
            "it is kept of each task how it ended, until an hour after its array has",
            String::from("submit again when some arrays have ended, or fewer tasks"),
        ));
    }
    let mib = state.meta.settings.specs_mib_max;
    let bytes = u64::try_from(launch.bytes.len()).unwrap_or(u64::MAX);
    let is_new = !state.launches.contains(&launch.hash);
    if is_new && state.meta.spec_bytes.saturating_add(bytes) > u64::from(mib) << 20 {
        return Err(Rejection::new(
            Code::Full,
            format!("commands, scripts and environments of all jobs take {mib} MiB"),
            "every replica keeps them; equal ones are kept once",
            String::from(
                "submit again when some have ended, and put what is large in files that nodes can read",
            ),
        ));
    }
    Ok(())
}

fn keep_launch(state: &mut State, launch: &Blob) {
    match state.launches.get_mut(&launch.hash) {
        Some(known) => known.jobs = known.jobs.saturating_add(1),
        None => {
            let new = Launch { bytes: launch.bytes.clone(), jobs: 1 };
            state.meta.spec_bytes = state.meta.spec_bytes.saturating_add(new.size());
            state.launches.insert(launch.hash, new);
        }
    }
}
