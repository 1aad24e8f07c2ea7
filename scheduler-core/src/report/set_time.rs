//! What setting cluster time forward would pass over: for the preview of `cluster time set`.

use alloc::vec::Vec;

use crate::id::{AttemptId, BudgetId, Label};
use crate::job::Attempt;
use crate::spec::Tier;
use crate::state::{State, Timer};
use crate::unit::{GpuMillis, Span, Timestamp};

/// What happens at once when time is set forward.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PassedOver {
    /// By how much.
    pub span: Span,
    /// Attempts whose protection ends by it, the first to end first.
    pub ended: Vec<CutShort>,
    /// Attempts that stay protected, and have so much less left of it.
    pub shortened: usize,
    /// GPU time that running work is booked, and charged if funded, without having had it.
    pub booked: GpuMillis,
    /// Attempts that have not started, and whose time to start is over by it.
    pub starts: usize,
    /// Drains that begin, or whose deadline comes.
    pub drains: usize,
    /// Waits of nodes and jobs that end.
    pub waits: usize,
    /// Permissions to join that lapse.
    pub joins: usize,
    /// Ended jobs that leave state.
    pub leaving: usize,
    /// Remembered requests: they are remembered as long as without it.
    pub requests: usize,
}

/// A protection that ends by a step of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutShort {
    /// Whose.
    pub attempt: AttemptId,
    /// Its job's name.
    pub name: Label,
    /// Its leaf.
    pub budget: BudgetId,
    /// Its GPUs.
    pub gpus: u32,
    /// When it would have ended.
    pub until: Timestamp,
}

/// Returns what a step from `now` to `to` passes over.
#[must_use]
pub fn passed_over(state: &State, now: Timestamp, to: Timestamp) -> PassedOver {
    let span = to.since(now);
    let mut passed = PassedOver { span, requests: state.requests.len(), ..PassedOver::default() };
    for (id, attempt) in state.attempts.iter().filter(|(_, attempt)| attempt.ended.is_none()) {
        look_at(state, *id, attempt, now, to, &mut passed);
    }
    passed.ended.sort_by_key(|cut| (cut.until, cut.attempt));
    for ((at, timer), ()) in state.timers.iter().take_while(|((at, _), ())| *at <= to) {
        match timer {
            Timer::StartBy(_) => passed.starts += 1,
            Timer::Drain(_) => passed.drains += 1,
            Timer::BackoffOver(_) | Timer::Release(_) => passed.waits += 1,
            Timer::JoinToken(_) => passed.joins += 1,
            // Told by the attempts; carried over.
            Timer::ProtectionOver(_) | Timer::Request(_) | Timer::Grant(_) | Timer::Edit(_) => {
                debug_assert!(*at <= to)
            }
        }
    }
    let keep = state.meta.settings.keep_ended;
    passed.leaving = state.ended.keys().take_while(|(since, _)| since.plus(keep) <= to).count();
    passed
}

fn look_at(
    state: &State,
    id: AttemptId,
    attempt: &Attempt,
    now: Timestamp,
    to: Timestamp,
    passed: &mut PassedOver,
) {
    let gpus = attempt.placements.iter().map(|placement| placement.slots.len()).sum::<usize>();
    let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
    if attempt.go_at.is_some() {
        let booked = u64::from(gpus).saturating_mul(passed.span.as_millis());
        passed.booked = GpuMillis::new(passed.booked.get().saturating_add(booked));
    }
    let until = attempt.protected_until().filter(|until| attempt.tier == Tier::Funded && *until > now);
    match (until, state.jobs.get(&id.job)) {
        (Some(until), Some(job)) if until <= to => passed.ended.push(CutShort {
            attempt: id,
            name: job.name.clone(),
            budget: attempt.budget,
            gpus,
            until,
        }),
        (Some(_), _) => passed.shortened += 1,
        (None, _) => {}
    }
}
