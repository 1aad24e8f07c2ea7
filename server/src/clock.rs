//! The one module that reads clocks: the boot clock (`CLOCK_BOOTTIME`, which counts through suspend and is set by
//! nobody), the boot id, and the wall clock. What they mean for cluster time is decided elsewhere (`time`).

use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use scheduler_core::cluster_time::{BootTime, Reading};
use scheduler_core::unit::Timestamp;

/// Reads both clocks.
#[must_use]
pub fn read() -> Reading {
    Reading { boot: boot(), wall: wall() }
}

/// Returns the wall clock: for lines of the process's own log, and for what decides on cluster time.
#[must_use]
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the boot clock.
#[must_use]
pub fn boot() -> BootTime {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    BootTime::from_millis(secs.saturating_mul(1000).saturating_add(nanos / 1_000_000))
}

/// Returns which boot the boot clock counts from.
///
/// # Errors
/// When the machine does not say.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// A moment to come on the boot clock, to wait for; in no entry and on no disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// Returns the moment `patience` from now.
    #[must_use]
    pub fn after(patience: Duration) -> Self {
        Self(boot().as_millis().saturating_add(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns what is left until then.
    #[must_use]
    pub fn left(self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(boot().as_millis()))
    }

    /// Whether it has come.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

/// A moment that was, on the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Returns this moment.
    #[must_use]
    pub fn now() -> Self {
        Self(boot().as_millis())
    }

    /// Returns how long ago it was.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_millis(boot().as_millis().saturating_sub(self.0))
    }
}
