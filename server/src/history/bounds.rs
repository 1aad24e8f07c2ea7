//! How much is kept, and how.

use std::time::Duration;

use scheduler_core::unit::Span;

/// How much history is kept, and how it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// A segment goes when its newest record is older than this, by cluster time.
    pub keep: Span,
    /// The oldest segments go when all of them together have more bytes than this.
    pub keep_bytes: u64,
    /// Indexes that a segment covers.
    pub window: u64,
    /// Bytes that wait in memory while the disk takes none; what is beyond is given up here.
    pub waiting_bytes: usize,
    /// Sealed segments are read again at this rate, in bytes a second, to find damage; 0 never.
    pub scrub_rate: u64,
    /// How long to wait before a write that failed is tried again.
    pub again: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            keep: Span::from_hours(400 * 24),
            keep_bytes: 20 << 30,
            window: 16_384,
            waiting_bytes: 64 << 20,
            scrub_rate: 1 << 20,
            again: Duration::from_millis(500),
        }
    }
}
