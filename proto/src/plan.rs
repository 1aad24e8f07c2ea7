//! Plans and their reasons.

use scheduler_core::decision::{Dropped, Level, Plan, Start, UseOf, Why};
use scheduler_core::id::{AttemptNo, BudgetId, JobId, LogIndex, NodeId, Slot, Term};
use scheduler_core::unit::ChargeMillis;

use crate::error::Error;
use crate::log::v1 as log;
use crate::wire::{Wire, narrow, required};

impl Wire for Plan {
    type Message = log::Plan;

    fn to_wire(&self) -> log::Plan {
        log::Plan {
            term: self.term.get(),
            index: self.index.get(),
            decisions: self.decisions.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(m: log::Plan) -> Result<Self, Error> {
        Ok(Self {
            term: Term::new(m.term),
            index: LogIndex::new(m.index),
            decisions: m.decisions.into_iter().map(Start::from_wire).collect::<Result<_, _>>()?,
        })
    }
}

impl Wire for Start {
    type Message = log::Start;

    fn to_wire(&self) -> log::Start {
        let on = self.on.iter().map(|(node, slots)| log::NodeSlots {
            node: node.get(),
            slots: slots.iter().map(|slot| u32::from(slot.get())).collect(),
        });
        log::Start {
            job: self.job.get(),
            attempt: u32::from(self.attempt.get()),
            on: on.collect(),
            place: self.why.place,
            levels: self.why.levels.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(m: log::Start) -> Result<Self, Error> {
        let mut on = Vec::with_capacity(m.on.len());
        for part in m.on {
            let slots: Result<_, _> =
                part.slots.into_iter().map(|slot| narrow("slots", slot).map(Slot::new)).collect();
            on.push((NodeId::new(part.node), slots?));
        }
        Ok(Self {
            job: JobId::new(m.job),
            attempt: AttemptNo::new(narrow("attempt", m.attempt)?),
            on,
            why: Why {
                place: m.place,
                levels: m.levels.into_iter().map(Level::from_wire).collect::<Result<_, _>>()?,
            },
        })
    }
}

impl Wire for Level {
    type Message = log::Level;

    fn to_wire(&self) -> log::Level {
        log::Level { chosen: Some(self.chosen.to_wire()), next: self.next.as_ref().map(Wire::to_wire) }
    }

    fn from_wire(m: log::Level) -> Result<Self, Error> {
        Ok(Self {
            chosen: UseOf::from_wire(required("chosen", m.chosen)?)?,
            next: m.next.map(UseOf::from_wire).transpose()?,
        })
    }
}

impl Wire for UseOf {
    type Message = log::UseOf;

    fn to_wire(&self) -> log::UseOf {
        log::UseOf {
            budget: self.budget.get(),
            charged: Some(self.charged.to_wire()),
            set_aside: Some(self.set_aside.to_wire()),
            allocation: Some(self.allocation.to_wire()),
        }
    }

    fn from_wire(m: log::UseOf) -> Result<Self, Error> {
        Ok(Self {
            budget: BudgetId::new(m.budget),
            charged: ChargeMillis::from_wire(required("charged", m.charged)?)?,
            set_aside: ChargeMillis::from_wire(required("set_aside", m.set_aside)?)?,
            allocation: ChargeMillis::from_wire(required("allocation", m.allocation)?)?,
        })
    }
}

impl Wire for Dropped {
    type Message = log::DropReason;

    fn to_wire(&self) -> log::DropReason {
        match self {
            Self::NotWaiting => log::DropReason::NotWaiting,
            Self::AttemptTaken => log::DropReason::AttemptTaken,
            Self::GpuTaken => log::DropReason::GpuTaken,
            Self::NodeNotReady => log::DropReason::NodeNotReady,
            Self::WrongShape => log::DropReason::WrongShape,
            Self::NodeFull => log::DropReason::NodeFull,
        }
    }

    fn from_wire(m: log::DropReason) -> Result<Self, Error> {
        match m {
            log::DropReason::Unspecified => Err(Error::Missing("reason")),
            log::DropReason::NotWaiting => Ok(Self::NotWaiting),
            log::DropReason::AttemptTaken => Ok(Self::AttemptTaken),
            log::DropReason::GpuTaken => Ok(Self::GpuTaken),
            log::DropReason::NodeNotReady => Ok(Self::NodeNotReady),
            log::DropReason::WrongShape => Ok(Self::WrongShape),
            log::DropReason::NodeFull => Ok(Self::NodeFull),
        }
    }
}
