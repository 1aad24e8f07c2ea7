//! The clocks of this process, read nowhere else: cluster time as an agent carries it, and the wall clock of files.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use scheduler_core::unit::Timestamp;
use shim::sys::boot_ms;

/// The wall clock, for the age of files only.
pub fn wall() -> SystemTime {
    SystemTime::now()
}

/// Cluster time: what the last contact said, plus the boot clock since. Nobody can set the boot clock, and it runs on while
/// the machine sleeps.
#[derive(Debug, Default)]
pub struct ClusterClock {
    /// Cluster time less boot clock, in ms; 0 as long as there was no contact, for any difference is large.
    offset_ms: AtomicI64,
}

impl ClusterClock {
    /// Takes up an offset that was kept in this boot.
    pub fn resume(offset_ms: Option<i64>) -> Self {
        Self { offset_ms: AtomicI64::new(offset_ms.unwrap_or(0)) }
    }

    /// Takes the time that a replica said. It is late by the way of the message, never early.
    pub fn set(&self, time: Timestamp) {
        let offset = i128::from(time.as_millis()) - i128::from(boot_ms());
        self.offset_ms.store(i64::try_from(offset).unwrap_or(0), Ordering::Relaxed);
    }

    /// The offset to keep; `None` if there was no contact in this boot.
    pub fn offset_ms(&self) -> Option<i64> {
        Some(self.offset_ms.load(Ordering::Relaxed)).filter(|offset| *offset != 0)
    }

    /// Cluster time now; `None` if there was no contact in this boot.
    pub fn known(&self) -> Option<Timestamp> {
        self.offset_ms().map(|_| self.now())
    }

    /// Cluster time now. Without contact it is the boot clock alone: it goes on evenly, and what is dated by it is corrected by
    /// whoever takes it.
    pub fn now(&self) -> Timestamp {
        self.of_boot_ms(boot_ms())
    }

    /// Cluster time of a moment of the boot clock.
    pub fn of_boot_ms(&self, boot_ms: u64) -> Timestamp {
        let offset = self.offset_ms.load(Ordering::Relaxed);
        Timestamp::from_millis(boot_ms.saturating_add_signed(offset))
    }
}
