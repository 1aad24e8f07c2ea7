//! A new job: everything that a submission can get wrong is refused here, with the way out.

mod shape;
mod terms;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::context::Context;
use super::rights;
use crate::budget;
use crate::command::{Answer, Blob, Code, Outcome, Rejection, Submit};
use crate::id::{AttemptNo, JobId};
use crate::job::{HeldBy, Job, Phase, Progress, Terms};
use crate::lifecycle::phase;
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
    let terms = Terms { shape: shape::complete(state, request)?, ..terms::complete(state, request, budget)? };
    check_launch(state, &submit.launch)?;
    check_bounds(state, &submit.launch)?;
    let phase = if request.is_held {
        let by = HeldBy::Person { who: user.clone(), reason: String::from("submitted held") };
        Phase::Held { since: cx.now, by }
    } else {
        Phase::Waiting { since: cx.now }
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
    };
    let id = state.meta.next_job;
    state.meta.next_job = JobId::new(id.get().saturating_add(1));
    keep_launch(state, &submit.launch);
    phase::admit(state, id, job);
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

fn check_bounds(state: &State, launch: &Blob) -> Result<(), Rejection> {
    let max = state.meta.settings.live_jobs_max;
    if state.meta.live_jobs >= max || state.meta.next_job.get() == u32::MAX {
        return Err(Rejection::new(
            Code::Full,
            format!("{max} jobs are waiting or running"),
            "the control plane takes no more",
            String::from("submit again when some have ended"),
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
