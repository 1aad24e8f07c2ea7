//! The end of the process when going on could lose acknowledged entries.

use std::fmt::Display;

/// Stops the process at once: after a failed write or sync nobody knows what the disk holds, and a retry that
/// succeeds proves nothing.
pub(crate) fn stop(doing: &str, cause: &dyn Display) -> ! {
    tracing::error!("stopping: failed to {doing}: {cause}");
    eprintln!(
        "bursar: failed to {doing}: {cause}\n\
         The replica stops, since it can no longer vouch for what its disk holds. Check the disk (space, kernel \
         log), then start it again: it checks its data before it takes part."
    );
    std::process::abort()
}
