//! What preemptions cost.

use scheduler_core::bill::{Bill, BillCause, Restart};
use scheduler_core::decision::Basis;
use scheduler_core::id::{AttemptId, BudgetId, DecisionId};
use scheduler_core::spec::Tier;
use scheduler_core::unit::{Span, Timestamp};

use super::books::tier;
use crate::error::Error;
use crate::state::v1 as state;
use crate::state::v1::bill_row::Restart as Kind;
use crate::wire::{Wire, moment, name, required};

pub(super) fn bill((ended_at, attempt): (Timestamp, AttemptId), bill: &Bill) -> state::BillRow {
    state::BillRow {
        ended_at_ms: ended_at.as_millis(),
        attempt: Some(attempt.to_wire()),
        budget: bill.budget.get(),
        user: bill.user.to_string(),
        pool: bill.pool.to_string(),
        funded: bill.tier == Tier::Funded,
        gpus: bill.gpus,
        cause: cause(bill.cause).into(),
        noticed_at_ms: bill.noticed_at.as_millis(),
        saved_at_ms: bill.saved_at.map(Timestamp::as_millis),
        age_ms: bill.age.as_millis(),
        basis: bill.basis.to_wire().into(),
        restart: Some(match bill.restart {
            Restart::Expected(span) => Kind::RestartExpectedMs(span.as_millis()),
            Restart::Measured(span) => Kind::RestartMeasuredMs(span.as_millis()),
            Restart::None => Kind::NoRestart(state::NoRestart {}),
        }),
        taken_for: bill.taken_for.map(|id| id.to_wire()),
        decision: bill.decision.map(|id| id.to_wire()),
        wasted: bill.is_wasted,
    }
}

pub(super) fn read_bill(m: state::BillRow) -> Result<((Timestamp, AttemptId), Bill), Error> {
    let attempt = AttemptId::from_wire(required("attempt", m.attempt)?)?;
    let bill = Bill {
        cause: read_cause(m.cause())?,
        basis: Basis::from_wire(m.basis())?,
        budget: BudgetId::new(m.budget),
        user: name("user", &m.user)?,
        pool: name("pool", &m.pool)?,
        tier: tier(m.funded),
        gpus: m.gpus,
        noticed_at: moment(m.noticed_at_ms),
        saved_at: m.saved_at_ms.map(moment),
        age: Span::from_millis(m.age_ms),
        restart: match required("restart", m.restart)? {
            Kind::RestartExpectedMs(ms) => Restart::Expected(Span::from_millis(ms)),
            Kind::RestartMeasuredMs(ms) => Restart::Measured(Span::from_millis(ms)),
            Kind::NoRestart(_) => Restart::None,
        },
        taken_for: m.taken_for.map(AttemptId::from_wire).transpose()?,
        decision: m.decision.map(DecisionId::from_wire).transpose()?,
        is_wasted: m.wasted,
    };
    Ok(((moment(m.ended_at_ms), attempt), bill))
}

fn cause(cause: BillCause) -> state::BillCause {
    match cause {
        BillCause::Share => state::BillCause::Share,
        BillCause::Turn => state::BillCause::Turn,
        BillCause::FreeTier => state::BillCause::FreeTier,
        BillCause::Drain => state::BillCause::Drain,
        BillCause::Operator => state::BillCause::Operator,
        BillCause::Claim => state::BillCause::Claim,
        BillCause::Lane => state::BillCause::Lane,
    }
}

fn read_cause(m: state::BillCause) -> Result<BillCause, Error> {
    Ok(match m {
        state::BillCause::Unspecified => return Err(Error::Missing("cause")),
        state::BillCause::Share => BillCause::Share,
        state::BillCause::Turn => BillCause::Turn,
        state::BillCause::FreeTier => BillCause::FreeTier,
        state::BillCause::Drain => BillCause::Drain,
        state::BillCause::Operator => BillCause::Operator,
        state::BillCause::Claim => BillCause::Claim,
        state::BillCause::Lane => BillCause::Lane,
    })
}
