//! Waiting for something to become true, with an end.

use std::time::{Duration, Instant};

/// How long a lab waits for what has to happen: far longer than it takes on a machine ten times slower than this one.
pub const DEADLINE: Duration = Duration::from_secs(240);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks until `look` returns something.
///
/// # Panics
/// When it has not by the deadline; the message says what was waited for.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    match try_until(DEADLINE, &mut look) {
        Some(seen) => seen,
        None => panic!("{} s have passed, and still not: {what}", DEADLINE.as_secs()),
    }
}

/// Looks until `look` returns something; `None` when it has not in `patience`.
pub fn try_until<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if begun.elapsed() > patience {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Looks until `look` returns something, without a pause that would let it pass; `None` when it has not in `patience`.
pub fn try_at_once<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    const BLINK: Duration = Duration::from_micros(100);
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if begun.elapsed() > patience {
            return None;
        }
        std::thread::sleep(BLINK);
    }
}
