//! What a preemption cost.

use proto::v1;
use scheduler_core::bill::Bill;
use scheduler_core::id::AttemptId;
use scheduler_core::job::{Ended, PastAttempt};
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use super::words;

/// Returns what the end of an attempt cost, if it gave way and the bill is still kept.
#[must_use]
pub fn of(state: &State, attempt: AttemptId, ended: &Ended) -> Option<v1::PreemptionCost> {
    state.bills.get(&(ended.at, attempt)).map(|bill| view(attempt, ended.at, bill))
}

/// Returns what a past attempt's end cost.
#[must_use]
pub fn of_past(state: &State, attempt: AttemptId, past: &PastAttempt) -> Option<v1::PreemptionCost> {
    of(state, attempt, &past.ended)
}

/// Returns one bill.
#[must_use]
pub fn view(attempt: AttemptId, ended_at: Timestamp, bill: &Bill) -> v1::PreemptionCost {
    v1::PreemptionCost {
        attempt: attempt.to_string(),
        cause: words::bill_cause(bill.cause).to_owned(),
        gpus: bill.gpus,
        noticed_at: bill.noticed_at.as_millis(),
        ended_at: ended_at.as_millis(),
        saved_at: bill.saved_at.map(Timestamp::as_millis),
        age_ms: bill.age.as_millis(),
        basis: words::basis(bill.basis).to_owned(),
        restart_ms: bill.restart.span().as_millis(),
        restart_basis: words::restart_basis(bill.restart).to_owned(),
        lost_gpu_ms: bill.lost().get(),
        taken_for: bill.taken_for.map(|attempt| attempt.to_string()),
        decision: bill.decision.map(|decision| decision.to_string()),
        wasted: bill.is_wasted,
    }
}
