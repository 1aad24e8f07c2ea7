//! Plans and their reasons.

use scheduler_core::decision::{
    Basis, Choice, DateStep, Dated, Dropped, Level, Plan, Price, Right, Start, Take, UseOf, Why,
};
use scheduler_core::id::{
    AttemptId, AttemptNo, BudgetId, DecisionId, Generation, JobId, LogIndex, NodeId, Slot, Term,
};
use scheduler_core::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

use crate::error::Error;
use crate::log::v1 as log;
use crate::wire::{Wire, moment, narrow, required};

impl Wire for Plan {
    type Message = log::Plan;

    fn to_wire(&self) -> log::Plan {
        log::Plan {
            term: self.term.get(),
            index: self.index.get(),
            decisions: self.decisions.iter().map(Wire::to_wire).collect(),
            dates: self.dates.iter().map(Wire::to_wire).collect(),
        }
    }

    fn from_wire(m: log::Plan) -> Result<Self, Error> {
        Ok(Self {
            term: Term::new(m.term),
            index: LogIndex::new(m.index),
            decisions: m.decisions.into_iter().map(Start::from_wire).collect::<Result<_, _>>()?,
            dates: m.dates.into_iter().map(DateStep::from_wire).collect::<Result<_, _>>()?,
        })
    }
}

impl Wire for Start {
    type Message = log::Start;

    fn to_wire(&self) -> log::Start {
        log::Start {
            job: self.job.get(),
            attempt: u32::from(self.attempt.get()),
            on: slots_to_wire(&self.on),
            place: self.why.place,
            levels: self.why.levels.iter().map(Wire::to_wire).collect(),
            takes: self.takes.iter().map(Wire::to_wire).collect(),
            choice: self.why.choice.as_ref().map(Wire::to_wire),
            date: self.why.date.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(m: log::Start) -> Result<Self, Error> {
        let on = slots_from_wire(m.on)?;
        Ok(Self {
            job: JobId::new(m.job),
            attempt: AttemptNo::new(narrow("attempt", m.attempt)?),
            on,
            takes: m.takes.into_iter().map(Take::from_wire).collect::<Result<_, _>>()?,
            why: Why {
                place: m.place,
                levels: m.levels.into_iter().map(Level::from_wire).collect::<Result<_, _>>()?,
                choice: m.choice.map(Choice::from_wire).transpose()?,
                date: m.date.map(Dated::from_wire).transpose()?,
            },
        })
    }
}

pub(crate) fn slots_to_wire(on: &[(NodeId, Vec<Slot>)]) -> Vec<log::NodeSlots> {
    let part = |(node, slots): &(NodeId, Vec<Slot>)| log::NodeSlots {
        node: node.get(),
        slots: slots.iter().map(|slot| u32::from(slot.get())).collect(),
    };
    on.iter().map(part).collect()
}

pub(crate) fn slots_from_wire(parts: Vec<log::NodeSlots>) -> Result<Vec<(NodeId, Vec<Slot>)>, Error> {
    let mut on = Vec::with_capacity(parts.len());
    for part in parts {
        let slots: Result<_, _> =
            part.slots.into_iter().map(|slot| narrow("slots", slot).map(Slot::new)).collect();
        on.push((NodeId::new(part.node), slots?));
    }
    Ok(on)
}

impl Wire for Dated {
    type Message = log::Dated;

    fn to_wire(&self) -> log::Dated {
        log::Dated {
            decision: Some(self.decision.to_wire()),
            issued_at_ms: self.issued_at.as_millis(),
            at_ms: self.at.as_millis(),
        }
    }

    fn from_wire(m: log::Dated) -> Result<Self, Error> {
        Ok(Self {
            decision: DecisionId::from_wire(required("decision", m.decision)?)?,
            issued_at: moment(m.issued_at_ms),
            at: moment(m.at_ms),
        })
    }
}

impl Wire for Take {
    type Message = log::Take;

    fn to_wire(&self) -> log::Take {
        log::Take {
            attempt: Some(self.attempt.to_wire()),
            generation: self.generation.get(),
            right: Some(self.right.to_wire()),
            price: Some(self.price.to_wire()),
            gpus: self.gpus,
        }
    }

    fn from_wire(m: log::Take) -> Result<Self, Error> {
        Ok(Self {
            attempt: AttemptId::from_wire(required("attempt", m.attempt)?)?,
            generation: Generation::new(m.generation),
            right: Right::from_wire(required("right", m.right)?)?,
            price: Price::from_wire(required("price", m.price)?)?,
            gpus: m.gpus,
        })
    }
}

impl Wire for Right {
    type Message = log::Right;

    fn to_wire(&self) -> log::Right {
        use log::right::Right as Kind;
        let kind = match self {
            Self::FreeTier => Kind::FreeTier(log::FreeTier {}),
            Self::Turn => Kind::Turn(log::Turn {}),
            Self::Claim { date, at } => {
                Kind::Claim(log::Claim { date: Some(date.to_wire()), at_ms: at.as_millis() })
            }
            Self::Lane { occupied, part } => Kind::Lane(log::Lane { occupied: *occupied, part: *part }),
            Self::Share { mine, theirs } => {
                Kind::Share(log::ShareRight { mine: Some(mine.to_wire()), theirs: Some(theirs.to_wire()) })
            }
        };
        log::Right { right: Some(kind) }
    }

    fn from_wire(m: log::Right) -> Result<Self, Error> {
        use log::right::Right as Kind;
        Ok(match required("right", m.right)? {
            Kind::FreeTier(_) => Self::FreeTier,
            Kind::Turn(_) => Self::Turn,
            Kind::Claim(claim) => Self::Claim {
                date: DecisionId::from_wire(required("date", claim.date)?)?,
                at: moment(claim.at_ms),
            },
            Kind::Lane(lane) => Self::Lane { occupied: lane.occupied, part: lane.part },
            Kind::Share(share) => Self::Share {
                mine: UseOf::from_wire(required("mine", share.mine)?)?,
                theirs: UseOf::from_wire(required("theirs", share.theirs)?)?,
            },
        })
    }
}

impl Wire for Price {
    type Message = log::Price;

    fn to_wire(&self) -> log::Price {
        log::Price {
            rate: self.rate.get(),
            lost_ms: self.lost.as_millis(),
            restart_ms: self.restart.as_millis(),
            preemptions: u32::from(self.preemptions),
            saved_at_ms: self.saved_at.map(Timestamp::as_millis),
            basis: self.basis.to_wire().into(),
        }
    }

    fn from_wire(m: log::Price) -> Result<Self, Error> {
        Ok(Self {
            rate: MilliGpus::new(m.rate),
            lost: Span::from_millis(m.lost_ms),
            restart: Span::from_millis(m.restart_ms),
            preemptions: narrow("preemptions", m.preemptions)?,
            saved_at: m.saved_at_ms.map(moment),
            basis: Basis::from_wire(m.basis())?,
        })
    }
}

impl Wire for Basis {
    type Message = log::Basis;

    fn to_wire(&self) -> log::Basis {
        match self {
            Self::Reported => log::Basis::Reported,
            Self::Declared => log::Basis::Declared,
            Self::Unknown => log::Basis::Unknown,
        }
    }

    fn from_wire(m: log::Basis) -> Result<Self, Error> {
        match m {
            log::Basis::Unspecified => Err(Error::Missing("basis")),
            log::Basis::Reported => Ok(Self::Reported),
            log::Basis::Declared => Ok(Self::Declared),
            log::Basis::Unknown => Ok(Self::Unknown),
        }
    }
}

impl Wire for Choice {
    type Message = log::Choice;

    fn to_wire(&self) -> log::Choice {
        log::Choice {
            lacked: self.lacked,
            freed: self.freed,
            considered: self.considered,
            runner_up: self.runner_up.map(|(attempt, _)| attempt.to_wire()),
            runner_up_price: self.runner_up.map(|(_, price)| price.to_wire()),
        }
    }

    fn from_wire(m: log::Choice) -> Result<Self, Error> {
        let attempt = m.runner_up.map(AttemptId::from_wire).transpose()?;
        let price = m.runner_up_price.map(Price::from_wire).transpose()?;
        Ok(Self { lacked: m.lacked, freed: m.freed, considered: m.considered, runner_up: attempt.zip(price) })
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
            Self::VictimChanged => log::DropReason::VictimChanged,
            Self::VictimProtected => log::DropReason::VictimProtected,
            Self::Reserved => log::DropReason::Reserved,
            Self::NotDue => log::DropReason::NotDue,
            Self::DateStands => log::DropReason::DateStands,
            Self::TooManyDates => log::DropReason::TooManyDates,
            Self::NoLane => log::DropReason::NoLane,
            Self::LaneKept => log::DropReason::LaneKept,
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
            log::DropReason::VictimChanged => Ok(Self::VictimChanged),
            log::DropReason::VictimProtected => Ok(Self::VictimProtected),
            log::DropReason::Reserved => Ok(Self::Reserved),
            log::DropReason::NotDue => Ok(Self::NotDue),
            log::DropReason::DateStands => Ok(Self::DateStands),
            log::DropReason::TooManyDates => Ok(Self::TooManyDates),
            log::DropReason::NoLane => Ok(Self::NoLane),
            log::DropReason::LaneKept => Ok(Self::LaneKept),
        }
    }
}
