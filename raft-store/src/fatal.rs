//! The end of the process when going on could lose acknowledged entries.

use std::fmt::Display;

/// Stops the process at once: what this replica holds is an older copy of what it had.
pub(crate) fn forgotten(what: &str) -> ! {
    tracing::error!("stopping: this replica's data is an older copy: {what}");
    eprintln!(
        "bursar: this replica's data is an older copy of what it had: {what}\n\
         The replica stops, since it has forgotten what it promised and must not vote. Its data directory was \
         restored from a copy, or the disk lost what it had confirmed. Keep the directory; the others go on \
         without this replica (`bursar cluster status`). It comes back as a new one: `bursar server` on an empty \
         directory, never this one."
    );
    std::process::abort()
}

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
