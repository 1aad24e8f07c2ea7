//! What one budget was charged in one tier, and what it has set aside.

use super::{Curve, SetAside};
use crate::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

/// The account of a budget in one tier of one pool. An inner budget's holds what all below it were charged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Account {
    pub(super) curve: Curve,
    pub(super) set_aside: SetAside,
}

impl Account {
    /// Makes an account from its parts.
    #[must_use]
    pub fn from_parts(curve: Curve, set_aside: SetAside) -> Self {
        Self { curve, set_aside }
    }

    /// Returns the cumulative charge over time.
    #[must_use]
    pub fn curve(&self) -> &Curve {
        &self.curve
    }

    /// Returns what is set aside.
    #[must_use]
    pub fn aside(&self) -> &SetAside {
        &self.set_aside
    }

    /// Returns the rate at which it is charged now.
    #[must_use]
    pub fn rate(&self) -> MilliGpus {
        MilliGpus::new(self.curve.rate())
    }

    /// Returns all that was ever charged, up to `now`: exact.
    #[must_use]
    pub fn charged_ever(&self, now: Timestamp) -> ChargeMillis {
        ChargeMillis::new(self.curve.total(now))
    }

    /// Returns the charge in `[now - window, now]`.
    #[must_use]
    pub fn charged(&self, window: Span, now: Timestamp) -> ChargeMillis {
        ChargeMillis::new(self.curve.between(now.minus(window), now))
    }

    /// Returns what is set aside at `now`.
    #[must_use]
    pub fn set_aside(&self, now: Timestamp) -> ChargeMillis {
        self.set_aside.total(now)
    }
}
