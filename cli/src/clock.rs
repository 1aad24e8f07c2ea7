//! The one place where this crate reads a clock.

use std::time::{Duration, Instant};

/// A moment by which something has to be done.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    start: Instant,
    length: Duration,
}

impl Deadline {
    /// Starts counting now.
    pub fn after(length: Duration) -> Self {
        Self { start: Instant::now(), length }
    }

    /// Returns the time since it was started.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the time left; zero when it is over.
    pub fn left(&self) -> Duration {
        self.length.saturating_sub(self.elapsed())
    }

    /// Returns whether no time is left.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}
