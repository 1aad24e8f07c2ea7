//! The line, the timers and the ended jobs are what follows from the tables that they index.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use crate::budget;
use crate::lifecycle::{phase, watch};
use crate::state::{InLine, State, Timer};
use crate::unit::Timestamp;

pub(super) fn full(state: &State) -> Result<(), String> {
    check_line(state)?;
    check_timers(state)?;
    check_ended(state)
}

fn check_line(state: &State) -> Result<(), String> {
    let waiting = state.jobs.iter().filter(|(_, job)| job.phase.is_waiting());
    let wanted: BTreeSet<InLine> = waiting.map(|(id, job)| phase::place_of(*id, job)).collect();
    let found: BTreeSet<InLine> = state.line.keys().copied().collect();
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
    for (id, job) in state.jobs.iter() {
        wanted.extend(phase::back_off_until(&job.phase).map(|until| (until, Timer::Release(*id))));
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

fn check_ended(state: &State) -> Result<(), String> {
    let is_over = |id| phase::attempts_of(state, id).next().is_none();
    let ended = state.jobs.iter().filter(|(id, job)| job.phase.is_ended() && is_over(**id));
    let wanted: BTreeSet<_> = ended.map(|(id, _)| *id).collect();
    let found: BTreeSet<_> = state.ended.keys().map(|(_, id)| *id).collect();
    if wanted != found || found.len() != state.ended.len() {
        return Err(format!("ended and empty: {wanted:?}, indexed: {:?}", state.ended));
    }
    Ok(())
}
