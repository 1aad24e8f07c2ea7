//! Bills: what each preemption cost, written at the end of the attempt that gave way, settled when more is known.

use alloc::vec::Vec;

use crate::bill::{Bill, BillCause, Restart};
use crate::decision::{Basis, Right};
use crate::id::{AttemptId, AttemptNo, JobId};
use crate::job::{Attempt, AttemptEnd, Ended, Job, Stop, StopCause};
use crate::lifecycle::freed::PAST_MAX;
use crate::lifecycle::{book, forget};
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// Writes the bill of an attempt that gave way; and if one ended for which others gave way, says on theirs whether
/// that was for nothing.
pub fn ended(state: &mut State, id: AttemptId, attempt: &Attempt, ended: &Ended) {
    if attempt.started_at.is_none() {
        settle(state, id, attempt, is_own_failure(ended));
    }
    let Some(job) = state.jobs.get(&id.job) else { return };
    if let Some(bill) = bill(state, job, attempt, ended) {
        state.bills.insert((ended.at, id), bill);
        let max = forget::bound(state.meta.settings.bills_max);
        if state.bills.len() > max
            && let Some(oldest) = state.bills.first().map(|(key, _)| *key)
        {
            state.bills.remove(&oldest);
        }
    }
}

/// An attempt started: nobody gave way to it for nothing.
pub fn started(state: &mut State, id: AttemptId, attempt: &Attempt) {
    settle(state, id, attempt, false);
}

/// An attempt gave its first sign of progress: what starting it again took is known.
pub fn restarted(state: &mut State, id: AttemptId, restart: Span) {
    let Some(key) = last_bill_before(state, id) else { return };
    if let Some(bill) = state.bills.get_mut(&key)
        && let Restart::Expected(_) = bill.restart
    {
        bill.restart = Restart::Measured(restart);
    }
}

/// Lets bills go that are older than the window.
pub fn thin(state: &mut State, now: Timestamp) {
    let window = state.meta.settings.window;
    while let Some(oldest) = state.bills.first().map(|(key, _)| *key)
        && oldest.0.plus(window) <= now
    {
        state.bills.remove(&oldest);
    }
}

fn bill(state: &State, job: &Job, attempt: &Attempt, ended: &Ended) -> Option<Bill> {
    let (go, stop) = (attempt.go_at?, attempt.stop.as_ref()?);
    if ended.cause != AttemptEnd::Preempted {
        return None;
    }
    let cause = cause(job, stop)?;
    let waits_again = job.terms.resumable || matches!(stop.cause, StopCause::Requeue { .. });
    let guess = state.meta.settings.restart_guess;
    let restart =
        if waits_again { Restart::Expected(job.progress.usual_restart(guess)) } else { Restart::None };
    let (age, basis) = age(job, attempt, (go, ended.at));
    let (taken_for, decision) = match &stop.cause {
        StopCause::Preempt(taken) => (Some(taken.by), Some(taken.decision)),
        _ => (None, None),
    };
    Some(Bill {
        budget: attempt.budget,
        user: job.user.clone(),
        pool: attempt.pool.clone(),
        tier: attempt.tier,
        gpus: book::gpu_count(attempt),
        cause,
        noticed_at: stop.at,
        saved_at: attempt.saved_at,
        age,
        basis,
        restart,
        taken_for,
        decision,
        is_wasted: taken_for.map_or(Some(false), |by| is_wasted(state, by)),
    })
}

fn cause(job: &Job, stop: &Stop) -> Option<BillCause> {
    match &stop.cause {
        StopCause::Preempt(taken) => Some(match taken.right {
            Right::FreeTier => BillCause::FreeTier,
            Right::Turn => BillCause::Turn,
            Right::Share { .. } => BillCause::Share,
            Right::Claim { .. } => BillCause::Claim,
            Right::Lane { .. } => BillCause::Lane,
        }),
        StopCause::Drain { cuts, .. } if cuts.is_zero() => Some(BillCause::Drain),
        StopCause::Drain { .. } => Some(BillCause::Operator),
        StopCause::Requeue { who, .. } if *who != job.user => Some(BillCause::Operator),
        StopCause::Requeue { .. }
        | StopCause::Cancel { .. }
        | StopCause::Unwanted
        | StopCause::Rank { .. } => None,
    }
}

/// Returns the occupied time that was lost, and how it is known. A job that does not resume loses everything.
pub(crate) fn age(job: &Job, attempt: &Attempt, (go, ended): (Timestamp, Timestamp)) -> (Span, Basis) {
    let whole = ended.since(go);
    match (attempt.saved_at, job.progress.saved, job.terms.checkpoint_every) {
        _ if !job.terms.resumable => (whole, Basis::Unknown),
        (Some(saved), _, _) => (ended.since(saved), Basis::Reported),
        // It reports, but not in this attempt: it goes on from where this one began.
        (None, Some(_), _) => (whole, Basis::Reported),
        (None, None, Some(every)) => (whole.min(every), Basis::Declared),
        (None, None, None) => (whole, Basis::Unknown),
    }
}

/// Returns whether the attempt that GPUs were taken for never started, by its own fault; none while that is open.
fn is_wasted(state: &State, by: AttemptId) -> Option<bool> {
    if let Some(attempt) = state.attempts.get(&by) {
        return match (attempt.started_at, &attempt.ended) {
            (Some(_), _) => Some(false),
            (None, Some(ended)) => Some(is_own_failure(ended)),
            (None, None) => None,
        };
    }
    let past = state.jobs.get(&by.job).and_then(|job| job.past.iter().find(|past| past.no == by.no));
    Some(past.is_some_and(|past| past.started_at.is_none() && is_own_failure(&past.ended)))
}

fn is_own_failure(ended: &Ended) -> bool {
    match ended.cause {
        AttemptEnd::LaunchFailedNode(_) | AttemptEnd::LaunchFailedJob(_) => true,
        AttemptEnd::Exited
        | AttemptEnd::TimeLimit
        | AttemptEnd::Stopped
        | AttemptEnd::Preempted
        | AttemptEnd::NodeLost => false,
    }
}

/// Says on the bills of those who gave way to an attempt whether that was for nothing. None of them is older than it.
fn settle(state: &mut State, id: AttemptId, attempt: &Attempt, is_wasted: bool) {
    let gave_way =
        state.decisions.get(&attempt.decision).is_some_and(|record| !record.start.takes.is_empty());
    if !gave_way {
        return;
    }
    let first = AttemptId { job: JobId::new(0), no: AttemptNo::new(0) };
    let bills = state.bills.range((attempt.placed_at, first)..);
    let open = bills.filter(|(_, bill)| bill.taken_for == Some(id) && bill.is_wasted.is_none());
    let keys: Vec<_> = open.map(|(key, _)| *key).collect();
    for key in keys {
        if let Some(bill) = state.bills.get_mut(&key) {
            bill.is_wasted = Some(is_wasted);
        }
    }
}

/// Returns the bill of the job's last attempt before `id` that had run.
fn last_bill_before(state: &State, id: AttemptId) -> Option<(Timestamp, AttemptId)> {
    let job = state.jobs.get(&id.job)?;
    let ran = |no: AttemptNo| {
        let of = AttemptId { job: id.job, no };
        let live = state.attempts.get(&of).filter(|attempt| attempt.started_at.is_some());
        let live = live.and_then(|attempt| Some(attempt.ended.as_ref()?.at));
        let past = job.past.iter().find(|past| past.no == no && past.started_at.is_some());
        live.or(past.map(|past| past.ended.at)).map(|at| (at, of))
    };
    let before = (1..id.no.get()).rev().take(PAST_MAX).map(AttemptNo::new);
    before.filter_map(ran).next().filter(|key| state.bills.contains(key))
}
