//! What is said of cluster time.

use scheduler_core::command::{ResumeTime, SetTime, TimeSource};
use scheduler_core::unit::Timestamp;

use crate::error::Error;
use crate::log::v1 as log;
use crate::wire::{Wire, moment};

impl Wire for ResumeTime {
    type Message = log::ResumeTime;

    fn to_wire(&self) -> log::ResumeTime {
        let from = match self.from {
            TimeSource::Agents => log::TimeSource::Agents,
            TimeSource::WallClock => log::TimeSource::WallClock,
            TimeSource::LastEntry => log::TimeSource::LastEntry,
        };
        log::ResumeTime { from: from.into(), what: self.what.clone() }
    }

    fn from_wire(m: log::ResumeTime) -> Result<Self, Error> {
        let from = match log::TimeSource::try_from(m.from) {
            Ok(log::TimeSource::Agents) => TimeSource::Agents,
            Ok(log::TimeSource::WallClock) => TimeSource::WallClock,
            Ok(log::TimeSource::LastEntry) => TimeSource::LastEntry,
            Ok(log::TimeSource::Unspecified) | Err(_) => {
                return Err(Error::bad("from", "not where time comes from"));
            }
        };
        Ok(Self { from, what: m.what })
    }
}

impl Wire for SetTime {
    type Message = log::SetTime;

    fn to_wire(&self) -> log::SetTime {
        log::SetTime { to_ms: self.to.map(Timestamp::as_millis), reason: self.reason.clone() }
    }

    fn from_wire(m: log::SetTime) -> Result<Self, Error> {
        Ok(Self { to: m.to_ms.map(moment), reason: m.reason })
    }
}
