//! The shim: a small process of its own for each rank of a job. It starts the rank's main process, enforces the job's own
//! limits and committed stops, and keeps the exit, with no agent alive.
//!
//! ```text
//!   agent --spec, intent, stop--> attempt directory <--record, phase, exit, empty-- shim ==fork/exec==> job
//!     ^------------------------------ reads ---------------^                          (job writes its own logs)
//! ```
//!
//! Between agent and shim the files of the attempt directory are the whole contract ([`format`](mod@format)); nothing is an
//! event that can be lost. The job's reports of checkpoints come by a file, a socket or markers ([`progress`]). This library is the part that the agent shares: the formats, the way files are replaced ([`files`]) and
//! the way processes of an attempt are found ([`procs`]).
//!
//! The attempt directory belongs to the agent's account, mode 0711:
//!
//! | file | writer | content |
//! |---|---|---|
//! | `spec` | agent | [`format::Spec`]: what to start, as whom, with which limits |
//! | `hosts` | agent | the hosts of the attempt's ranks, for the job |
//! | `intent` | agent | "a launch may have happened", before the first fork |
//! | `lock` | shim | locked (`flock`) as long as a shim or a nurse lives |
//! | `wake` | agent | FIFO: a byte makes the shim look at `stop` now instead of within half a second |
//! | `record` | shim | [`format::Record`]: boot id, shim and main process |
//! | `stop` | agent | [`format::Stop`]: a committed stop |
//! | `phase` | shim | [`format::Phase`] |
//! | `notice` | shim | what the job is told before it has to leave |
//! | `saves` | shim | [`format::Saves`]: when the job's newest checkpoint was heard of |
//! | `checkpoint.sock` | shim | socket that takes the job's reports as datagrams |
//! | `unkillable` | shim, nurse or agent | what is there long after KILL |
//! | `exit` | shim, nurse or agent | [`format::Exit`]: exit code, signal, or unknown |
//! | `empty` | shim, nurse or agent | no process of the attempt is left |
//! | `reaped` | agent | wait status of a main process that the agent inherited, for a nurse |
//! | `ack` | agent | the exit is committed; the directory may go |
//! | `job/` | the job's account | `script`, `stdout`, `stderr`, `checkpoint` |
//!
//! What a shim must never do: signal a job for another reason than a stop in its directory, a limit in its spec, or
//! being what is left after the main process ended; write an exit that it doesn't know.

pub mod cgroup;
pub mod child;
pub mod files;
pub mod format;
pub mod notice;
pub mod procs;
pub mod progress;
pub mod reader;
pub mod report;
pub mod scan;
pub mod sys;
pub mod timeline;
pub mod watch;
