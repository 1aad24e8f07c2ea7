//! A line: cluster time as a function of the boot clock.

use crate::unit::{Span, Timestamp};

/// A moment of a machine's boot clock, in milliseconds since its boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BootTime(u64);

impl BootTime {
    /// Makes a moment from milliseconds since the boot.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms)
    }

    /// Returns milliseconds since the boot.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the moment `span` later.
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_millis()))
    }

    /// Returns the time since `earlier`, zero if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A correction under way: cluster time goes faster or slower than the boot clock, until a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Slew {
    /// By how much, in parts per million; never as much as would make time stand still.
    pub ppm: i32,
    /// Until when. A correction that nobody renews ends: the process may be gone for long.
    pub until: BootTime,
}

/// Cluster time as a function of the boot clock: through a point, as steep as time, but for a correction under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Line {
    boot: BootTime,
    cluster: Timestamp,
    slew: Slew,
}

const MILLION: i128 = 1_000_000;

impl Line {
    /// Draws a line through a point.
    #[must_use]
    pub const fn through(boot: BootTime, cluster: Timestamp) -> Self {
        Self { boot, cluster, slew: Slew { ppm: 0, until: BootTime(0) } }
    }

    /// Returns this line with another correction from `boot` on.
    #[must_use]
    pub fn slewed(self, boot: BootTime, slew: Slew) -> Self {
        let slew = Slew { ppm: slew.ppm.clamp(-500_000, 500_000), until: slew.until };
        Self { boot: boot.max(self.boot), cluster: self.at(boot), slew }
    }

    /// Returns cluster time at a moment of the boot clock. It never goes back, and before the line's own point it
    /// stands still.
    #[must_use]
    pub fn at(self, boot: BootTime) -> Timestamp {
        let passed = boot.since(self.boot);
        let slewed = boot.min(self.slew.until).since(self.boot);
        let more = i128::from(slewed.as_millis()) * i128::from(self.slew.ppm) / MILLION;
        let passed = i128::from(passed.as_millis()).saturating_add(more);
        self.cluster.plus(Span::from_millis(u64::try_from(passed).unwrap_or(0)))
    }

    /// Returns the moment of the boot clock that the line goes through.
    #[must_use]
    pub const fn boot(self) -> BootTime {
        self.boot
    }

    /// Returns the cluster time that the line goes through.
    #[must_use]
    pub const fn cluster(self) -> Timestamp {
        self.cluster
    }

    /// Returns the correction.
    #[must_use]
    pub const fn slew(self) -> Slew {
        self.slew
    }
}
