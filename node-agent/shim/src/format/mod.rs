//! The files of an attempt directory.
//!
//! A file is a list of `key=value` fields, each closed by a zero byte; keys may repeat. The first field is `format=1`, the
//! last is `end=`, so half a file is never taken for a whole one. A reader ignores keys that it doesn't know: agent and
//! shim may be two versions apart. Values are bytes without zero. `tr '\0' '\n'` shows a file.

mod exit;
mod fields;
mod phase;
mod record;
mod saves;
mod spec;
mod stop;

pub use exit::{Exit, LaunchFailure, Status, Step};
pub use fields::{Error, Fields, Writer};
pub use phase::{Phase, Stage};
pub use record::{Identity, Record};
pub use saves::{Marker, Saves, Version};
pub use spec::{Account, Spec};
pub use stop::Stop;

/// File name of the spec.
pub const SPEC: &str = "spec";
/// File name of the launch marker.
pub const INTENT: &str = "intent";
/// File name of the lock that a living shim or nurse holds.
pub const LOCK: &str = "lock";
/// File name of the FIFO that wakes a shim.
pub const WAKE: &str = "wake";
/// File name of the record.
pub const RECORD: &str = "record";
/// File name of the stop.
pub const STOP: &str = "stop";
/// File name of the phase.
pub const PHASE: &str = "phase";
/// File name of the list of the attempt's hosts.
pub const HOSTS: &str = "hosts";
/// File name of the notice to the job.
pub const NOTICE: &str = "notice";
/// File name of the job's progress.
pub const SAVES: &str = "saves";
/// File name of the socket that takes checkpoint reports.
pub const SOCKET: &str = "checkpoint.sock";
/// File name of the words that say what can't be ended.
pub const UNKILLABLE: &str = "unkillable";
/// The key in [`UNKILLABLE`].
pub const WHAT: &str = "what";
/// File name of the exit.
pub const EXIT: &str = "exit";
/// File name of the proof that no process is left.
pub const EMPTY: &str = "empty";
/// File name of the acknowledgement.
pub const ACK: &str = "ack";
/// File name of the wait status that the agent gives to a nurse.
pub const REAPED: &str = "reaped";
/// Directory that belongs to the job's account.
pub const JOB: &str = "job";
/// File name of the script, in [`JOB`].
pub const SCRIPT: &str = "script";
/// File name of standard output, in [`JOB`].
pub const STDOUT: &str = "stdout";
/// File name of standard error, in [`JOB`].
pub const STDERR: &str = "stderr";
/// File name of the checkpoint report, in [`JOB`].
pub const CHECKPOINT: &str = "checkpoint";
/// The environment variable that marks every process of an attempt.
pub const MARK_VARIABLE: &str = "BURSAR_MARK";

/// The largest file of the contract that is read, in bytes.
pub const SIZE_MAX: u64 = 1 << 20;
