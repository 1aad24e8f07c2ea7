//! Promised starts.

use scheduler_core::date::{Date, Move, Promise, Trouble};
use scheduler_core::id::{DecisionId, JobId, Name};

use crate::error::Error;
use crate::state::v1 as state;
use crate::wire::{Wire, moment, name, required};

pub(super) fn date((job, pool): &(JobId, Name), date: &Date) -> state::Date {
    state::Date {
        job: job.get(),
        pool: pool.to_string(),
        issued_at_ms: date.issued_at.as_millis(),
        decision: Some(date.decision.to_wire()),
        promise: Some(date.promise.to_wire()),
        moved: date.moved,
        moves: date.moves.iter().map(date_move).collect(),
    }
}

fn date_move(moved: &Move) -> state::DateMove {
    state::DateMove {
        at_ms: moved.at.as_millis(),
        from_ms: moved.from.as_millis(),
        to_ms: moved.to.as_millis(),
        trouble: Some(moved.trouble.to_wire()),
    }
}

pub(super) fn read_date(m: state::Date) -> Result<((JobId, Name), Date), Error> {
    let date = Date {
        issued_at: moment(m.issued_at_ms),
        decision: DecisionId::from_wire(required("decision", m.decision)?)?,
        promise: Promise::from_wire(required("promise", m.promise)?)?,
        moved: m.moved,
        moves: m.moves.into_iter().map(read_move).collect::<Result<_, _>>()?,
    };
    Ok(((JobId::new(m.job), name("pool", &m.pool)?), date))
}

fn read_move(m: state::DateMove) -> Result<Move, Error> {
    Ok(Move {
        at: moment(m.at_ms),
        from: moment(m.from_ms),
        to: moment(m.to_ms),
        trouble: Trouble::from_wire(required("trouble", m.trouble)?)?,
    })
}
