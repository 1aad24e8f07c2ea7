//! Waiting for what another thread does.

use std::time::{Duration, Instant};

/// Looks again and again until it is so.
pub(super) fn until(what: &str, is_it: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_it() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
