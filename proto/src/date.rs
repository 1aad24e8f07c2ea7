//! Dates, and the steps of plans that make, move and end them.

use scheduler_core::date::{Awaited, How, Promise, Trouble, What};
use scheduler_core::decision::{DateStep, Step};
use scheduler_core::id::{AttemptId, JobId, NodeId};

use crate::error::Error;
use crate::log::v1 as log;
use crate::plan::{slots_from_wire, slots_to_wire};
use crate::wire::{Wire, moment, name, narrow, required};

impl Wire for DateStep {
    type Message = log::DateStep;

    fn to_wire(&self) -> log::DateStep {
        use log::date_step::Step as Kind;
        let step = match &self.step {
            Step::Issue(promise) => Kind::Issue(promise.to_wire()),
            Step::Move { to, trouble } => {
                Kind::Move(log::MoveDate { to: Some(to.to_wire()), trouble: Some(trouble.to_wire()) })
            }
            Step::Drop { trouble } => Kind::Drop(trouble.to_wire()),
        };
        log::DateStep {
            after: u32::from(self.after),
            job: self.job.get(),
            pool: self.pool.to_string(),
            step: Some(step),
        }
    }

    fn from_wire(m: log::DateStep) -> Result<Self, Error> {
        use log::date_step::Step as Kind;
        let step = match required("step", m.step)? {
            Kind::Issue(promise) => Step::Issue(Promise::from_wire(promise)?),
            Kind::Move(to) => Step::Move {
                to: Promise::from_wire(required("to", to.to)?)?,
                trouble: Trouble::from_wire(required("trouble", to.trouble)?)?,
            },
            Kind::Drop(trouble) => Step::Drop { trouble: Trouble::from_wire(trouble)? },
        };
        let pool = name("pool", &m.pool)?;
        Ok(Self { after: narrow("after", m.after)?, job: JobId::new(m.job), pool, step })
    }
}

impl Wire for Promise {
    type Message = log::Promise;

    fn to_wire(&self) -> log::Promise {
        log::Promise {
            at_ms: self.at.as_millis(),
            until_ms: self.until.as_millis(),
            on: slots_to_wire(&self.on),
            awaits: self.awaits.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(m: log::Promise) -> Result<Self, Error> {
        Ok(Self {
            at: moment(m.at_ms),
            until: moment(m.until_ms),
            on: slots_from_wire(m.on)?,
            awaits: m.awaits.into_iter().map(Awaited::from_wire).collect::<Result<_, _>>()?,
        })
    }
}

impl Wire for Awaited {
    type Message = log::Awaited;

    fn to_wire(&self) -> log::Awaited {
        log::Awaited {
            attempt: Some(self.attempt.to_wire()),
            gpus: self.gpus,
            free_at_ms: self.free_at.as_millis(),
            how: self.how.to_wire().into(),
        }
    }

    fn from_wire(m: log::Awaited) -> Result<Self, Error> {
        let how = How::from_wire(m.how())?;
        let attempt = AttemptId::from_wire(required("attempt", m.attempt)?)?;
        Ok(Self { attempt, gpus: m.gpus, free_at: moment(m.free_at_ms), how })
    }
}

impl Wire for How {
    type Message = log::How;

    fn to_wire(&self) -> log::How {
        match self {
            Self::Takeable => log::How::Takeable,
            Self::Leaves => log::How::Leaves,
            Self::Protection => log::How::Protection,
            Self::Margin => log::How::Margin,
            Self::Cap => log::How::Cap,
            Self::EarlierDate => log::How::EarlierDate,
        }
    }

    fn from_wire(m: log::How) -> Result<Self, Error> {
        Ok(match m {
            log::How::Unspecified => return Err(Error::Missing("how")),
            log::How::Takeable => Self::Takeable,
            log::How::Leaves => Self::Leaves,
            log::How::Protection => Self::Protection,
            log::How::Margin => Self::Margin,
            log::How::Cap => Self::Cap,
            log::How::EarlierDate => Self::EarlierDate,
        })
    }
}

impl Wire for Trouble {
    type Message = log::Trouble;

    fn to_wire(&self) -> log::Trouble {
        let what = match self.what {
            What::Unreachable => log::TroubleKind::Unreachable,
            What::Cordoned => log::TroubleKind::Cordoned,
            What::Draining => log::TroubleKind::Draining,
            What::Backoff => log::TroubleKind::Backoff,
            What::GpuGone => log::TroubleKind::GpuGone,
            What::HolderUnreachable => log::TroubleKind::HolderUnreachable,
        };
        log::Trouble { node: self.node.get(), what: what.into() }
    }

    fn from_wire(m: log::Trouble) -> Result<Self, Error> {
        let what = match m.what() {
            log::TroubleKind::Unspecified => return Err(Error::Missing("what")),
            log::TroubleKind::Unreachable => What::Unreachable,
            log::TroubleKind::Cordoned => What::Cordoned,
            log::TroubleKind::Draining => What::Draining,
            log::TroubleKind::Backoff => What::Backoff,
            log::TroubleKind::GpuGone => What::GpuGone,
            log::TroubleKind::HolderUnreachable => What::HolderUnreachable,
        };
        Ok(Self { node: NodeId::new(m.node), what })
    }
}
