//! The line, the timers and the ended jobs are what follows from the tables that they index.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::budget;
use crate::id::JobId;
use crate::job::{HeldBy, Job, Met, Phase};
use crate::lifecycle::{forget, phase, watch};
use crate::state::{InLine, Kind, State, Timer};
use crate::unit::Timestamp;

pub(super) fn full(state: &State) -> Result<(), String> {
    check_line(state)?;
    check_timers(state)?;
    check_dependents(state)?;
    check_ended(state)
}

fn check_line(state: &State) -> Result<(), String> {
    let waiting = state.jobs.iter().filter(|(_, job)| job.phase.is_waiting());
    let of = |(id, job)| (phase::place_of(id, job), Kind::of(job));
    let wanted: BTreeSet<(InLine, Kind)> = waiting.map(|(id, job)| of((*id, job))).collect();
    let found: BTreeSet<(InLine, Kind)> = state.line.iter().map(|(place, kind)| (*place, *kind)).collect();
    match wanted.symmetric_difference(&found).next() {
        None => Ok(()),
        Some(odd) => Err(format!("{odd:?} is in line without waiting, or waits without being in line")),
    }
}

fn check_timers(state: &State) -> Result<(), String> {
    let now = state.meta.time;
    let mut wanted: BTreeSet<(Timestamp, Timer)> = BTreeSet::new();
    for (id, attempt) in state.attempts.iter().filter(|(_, attempt)| attempt.ended.is_none()) {
        if let Some(until) =
            attempt.protected_until().filter(|until| *until > now && !attempt.protection.is_zero())
        {
            wanted.insert((until, Timer::ProtectionOver(*id)));
        }
    }
    let waiting = state.attempts.iter().filter(|(_, a)| a.go_at.is_none() && a.ended.is_none());
    wanted.extend(waiting.map(|(id, attempt)| (attempt.start_by, Timer::StartBy(*id))));
    for (id, node) in state.nodes.iter() {
        wanted.extend(node.backoff_until.map(|until| (until, Timer::BackoffOver(*id))));
        wanted.extend(watch::looks_at(state, *id).map(|at| (at, Timer::Drain(*id))));
    }
    for (id, job) in whole(state) {
        wanted.extend(phase::released_at(&job.phase).map(|until| (until, Timer::Release(*id))));
    }
    wanted.extend(state.join_tokens.iter().map(|(hash, token)| (token.expires_at, Timer::JoinToken(*hash))));
    let memory = state.meta.settings.request_memory;
    wanted.extend(state.requests.iter().map(|(id, kept)| (kept.at.plus(memory), Timer::Request(*id))));
    let next = |id, grant| Some((budget::next_moment(state, grant, now)?, Timer::Grant(id)));
    wanted.extend(state.grants.iter().filter_map(|(id, grant)| next(*id, grant)));
    wanted.extend(state.edits.iter().map(|(id, edit)| (budget::next_look(state, edit), Timer::Edit(*id))));
    let found: BTreeSet<(Timestamp, Timer)> = state.timers.keys().copied().collect();
    if let Some(odd) = wanted.symmetric_difference(&found).next() {
        return Err(format!("timer {odd:?} without reason, or missing"));
    }
    match found.first() {
        Some((at, timer)) if *at <= now => Err(format!("{timer:?} was due at {at:?}, now is {now:?}")),
        Some(_) | None => Ok(()),
    }
}

/// Jobs, and arrays as if they were jobs.
fn whole(state: &State) -> impl Iterator<Item = (&JobId, &Job)> {
    state.jobs.iter().chain(state.arrays.iter().map(|(id, array)| (id, &array.job)))
}

/// Whoever waits for others is found by each of them that has not ended, and held as its needs say.
fn check_dependents(state: &State) -> Result<(), String> {
    let now = state.meta.time;
    let mut wanted: BTreeSet<(JobId, JobId)> = BTreeSet::new();
    for (id, job) in whole(state).filter(|(_, job)| !job.phase.is_ended()) {
        let open = job.before.needs.iter().filter(|need| need.met == Met::Open);
        wanted.extend(open.map(|need| (need.job, *id)));
        let holds = job.before.holds(now);
        let is_as_said = match &job.phase {
            Phase::Held { by: by @ (HeldBy::Begin { .. } | HeldBy::Dependency { .. }), .. } => {
                holds.as_ref() == Some(by)
            }
            Phase::Held { .. } => true,
            Phase::Waiting { .. } | Phase::Live(_) | Phase::Ended { .. } => holds.is_none(),
        };
        if !is_as_said {
            return Err(format!("job {id} is {:?}, and waits for {:?}", job.phase, job.before));
        }
        if let Some(need) = job.before.needs.iter().find(|need| need.job >= *id) {
            return Err(format!("job {id} waits for {}, which is no earlier one", need.job));
        }
    }
    let found: BTreeSet<(JobId, JobId)> = state.dependents.keys().copied().collect();
    if let Some(odd) = wanted.symmetric_difference(&found).next() {
        return Err(format!("{odd:?} is indexed without need, or needed without being indexed"));
    }
    let has_ended = |id: &JobId| !forget::is_known(state, *id) || forget::result(state, *id).is_some();
    match found.iter().find(|(needed, _)| has_ended(needed)) {
        Some((needed, who)) => Err(format!("job {who} waits for {needed}, which has ended")),
        None => Ok(()),
    }
}

fn check_ended(state: &State) -> Result<(), String> {
    let is_over = |id| phase::attempts_of(state, id).next().is_none();
    let ended = state.jobs.iter().filter(|(id, job)| job.phase.is_ended() && is_over(**id));
    let arrays = state.arrays.iter().filter(|(_, array)| array.job.phase.is_ended()).map(|(id, _)| *id);
    let wanted: BTreeSet<_> = ended.map(|(id, _)| *id).chain(arrays).collect();
    let found: BTreeSet<_> = state.ended.keys().map(|(_, id)| *id).collect();
    if wanted != found || found.len() != state.ended.len() {
        return Err(format!("ended and empty: {wanted:?}, indexed: {:?}", state.ended));
    }
    Ok(())
}
