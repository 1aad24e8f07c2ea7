//! How a test says that this machine cannot run it.

use std::io::Write as _;

/// What such a line begins with.
pub const NOT_AVAILABLE: &str = "not available:";

/// Reports that what a test needs is missing here, and why. The test then returns.
///
/// The line goes straight to standard error: the test harness swallows what a passing test prints, and the last
/// line of `cargo xtask ci` counts these.
pub fn not_available(why: &str) {
    let line = format!("{NOT_AVAILABLE} {why}\n");
    // Nobody is left to tell when standard error itself is gone.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
