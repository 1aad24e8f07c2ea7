//! The end of the process when going on could lose acknowledged entries; what is told to whoever has to mend it.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

/// The command that brings a replica back under a new number.
pub(crate) const REBUILD: &str = "bursar server rebuild -c FILE";

/// Stops the process at once: what this replica holds is an older copy of what it had.
pub(crate) fn forgotten(what: &str) -> ! {
    tracing::error!("stopping: this replica's data is an older copy: {what}");
    say(&format!(
        "bursar: this replica's data is an older copy of what it had: {what}\n\
         The replica stops, since it has forgotten what it promised and must not vote. Its data directory was \
         restored from a copy, or the disk lost what it had confirmed. The others go on without this replica \
         (`bursar cluster status`). It comes back under a new number, with `{REBUILD}` on this machine, which \
         keeps the old directory aside."
    ));
    std::process::abort()
}

/// Returns what a replica says that was removed.
pub(crate) fn removed(dir: &Path, by: u64) -> String {
    format!(
        "this replica was removed from its cluster, by entry {by}. It takes no part any more, and never will under \
         this number. To give its disk back, delete {}; to have it back as a new replica: `{REBUILD}` on this \
         machine",
        dir.display()
    )
}

/// Stops the process at once: after a failed write or sync nobody knows what the disk holds, and a retry that
/// succeeds proves nothing.
pub(crate) fn stop(doing: &str, cause: &dyn Display) -> ! {
    tracing::error!("stopping: failed to {doing}: {cause}");
    say(&format!(
        "bursar: failed to {doing}: {cause}\n\
         The replica stops, since it can no longer vouch for what its disk holds. Check the disk (space, kernel \
         log), then start it again: it checks its data before it takes part."
    ));
    std::process::abort()
}

/// Stops the process at once: the consensus has ended by itself, and a replica that only looks alive helps nobody.
pub(crate) fn dead_core(cause: &dyn Display) -> ! {
    tracing::error!("stopping: the consensus has ended: {cause}");
    say(&format!(
        "bursar: the consensus of this replica has ended: {cause}\n\
         The replica stops, since it could answer but never act. Start it again: its data is safe, and the others go \
         on meanwhile. If it ends so again, keep its log and report it."
    ));
    std::process::abort()
}

/// Writes a message at once: threads that die at the same moment write there too.
fn say(text: &str) {
    // Nobody is left to tell when standard error itself is gone.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}
