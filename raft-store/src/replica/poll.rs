//! Waiting in tests: a moment between two looks, with an end.

use std::time::{Duration, Instant};

/// Returns until when something has to have happened, also on a machine that is busy.
pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(240)
}

/// Waits a moment before another look, as long as there is time.
pub async fn pause(what: &str, deadline: Instant) {
    assert!(Instant::now() < deadline, "not in time: {what}");
    tokio::time::sleep(Duration::from_millis(10)).await;
}
