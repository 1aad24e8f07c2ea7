//! What holds between a state and the next, told from the log alone and not by the state's own laws.

use scheduler_core::budget::ROOT;
use scheduler_core::id::{AttemptId, JobId};
use scheduler_core::job::{Attempt, Stop, StopCause};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use super::History;

/// Whether nobody may take an attempt's GPUs, as the contract says it: a funded attempt from its placing to the end of
/// the time that it was promised from its start.
pub fn is_protected(attempt: &Attempt, now: Timestamp) -> bool {
    let promised = attempt.protection.as_millis();
    let runs = |started: Timestamp| now.as_millis() - started.as_millis();
    attempt.tier == Tier::Funded
        && promised > 0
        && attempt.ended.is_none()
        && attempt.started_at.is_none_or(|started| runs(started) < promised)
}

/// The stop of an attempt, wherever it is by now.
fn stop_of(state: &State, id: AttemptId) -> Option<&Stop> {
    match state.attempts.get(&id) {
        Some(attempt) => attempt.stop.as_ref(),
        None => state.jobs.get(&id.job)?.past.iter().find(|past| past.no == id.no)?.stop.as_ref(),
    }
}

/// Who was protected a moment before an entry was not preempted by it. `before` is brought to the entry's time.
pub fn who_is_protected_gives_way_to_nobody(before: &State, after: &State) {
    let now = after.meta.time;
    for (id, attempt) in before.attempts.iter().filter(|(_, a)| a.stop.is_none() && is_protected(a, now)) {
        let stop = stop_of(after, *id).map(|stop| &stop.cause);
        assert!(!matches!(stop, Some(StopCause::Preempt(_))), "{id} was protected: {attempt:?}");
    }
}

/// A refusal leaves everything but marks, alarms and the answer itself.
pub fn same(before: &State, after: &State) {
    assert_eq!(before.budgets, after.budgets);
    assert_eq!(before.principals, after.principals);
    assert_eq!(before.join_tokens, after.join_tokens);
    assert_eq!(before.nodes, after.nodes);
    assert_eq!(before.jobs, after.jobs);
    assert_eq!(before.attempts, after.attempts);
    assert_eq!(before.books, after.books);
    assert_eq!(before.launches, after.launches);
    assert_eq!(before.decisions, after.decisions);
    assert_eq!(before.bills, after.bills);
    assert_eq!(before.strays, after.strays);
    assert_eq!(before.line, after.line);
    assert_eq!(before.ended, after.ended);
    assert_eq!(before.results, after.results);
    assert_eq!(before.meta.next_job, after.meta.next_job);
}

impl History {
    pub fn charges(&self, state: &State) -> Vec<(JobId, u128)> {
        state.jobs.iter().map(|(id, job)| (*id, job.charged.get())).collect()
    }

    /// The root's account is exactly what all jobs were charged, plus what runs now.
    pub fn check_charge(&self, when: &str) {
        let state = &self.world.state;
        let now = state.meta.time;
        let ended: u128 = self.charges(state).iter().map(|(_, charge)| charge).sum();
        let live = state.attempts.values().filter(|a| a.ended.is_none() && a.tier == Tier::Funded);
        let running: u128 = live
            .filter_map(|a| Some(u128::from(a.rate.get()) * u128::from(now.since(a.go_at?).as_millis())))
            .sum();
        let accounts = state.books.pools().values().filter_map(|pool| pool.account(ROOT, Tier::Funded));
        let charged: u128 = accounts.map(|account| account.charged_ever(now).get()).sum();
        assert_eq!(charged, self.forgotten + ended + running, "{when}");
    }
}
