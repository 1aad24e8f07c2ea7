//! What the executor is told once, and its errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use scheduler_core::agent::RankId;

/// Where and how attempts run on this node.
#[derive(Debug, Clone)]
pub struct Config {
    /// The agent's data directory.
    pub data: PathBuf,
    /// The installed shim.
    pub shim: PathBuf,
    /// Whether jobs may run as uid 0.
    pub allow_root_jobs: bool,
    /// How long directories (and logs) of ended attempts are kept.
    pub keep_ended: Duration,
    /// How many of them are kept at most.
    pub keep_ended_max: usize,
    /// From TERM to KILL at a job's time limit.
    pub limit_kill: Duration,
    /// From the first KILL until what is left of an attempt is said to be unkillable.
    pub unkillable_after: Duration,
    /// Whether attempts get a cgroup of their own where this machine can give one.
    pub uses_cgroups: bool,
}

impl Config {
    /// The defaults for a data directory and a shim.
    pub fn new(data: impl Into<PathBuf>, shim: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            shim: shim.into(),
            allow_root_jobs: false,
            keep_ended: Duration::from_secs(24 * 3_600),
            keep_ended_max: 2_000,
            limit_kill: Duration::from_secs(30),
            unkillable_after: Duration::from_secs(60),
            uses_cgroups: true,
        }
    }

    /// Where attempts live.
    pub(super) fn attempts(&self) -> PathBuf {
        self.data.join("attempts")
    }

    /// The directory of a rank. Numbers only: nothing that a user chose is part of a path of ours.
    pub(super) fn attempt(&self, id: RankId) -> PathBuf {
        self.attempts().join(format!("{}.{}", id.attempt, id.rank))
    }

    /// Where files with secrets lie.
    pub(super) fn secrets(&self) -> PathBuf {
        self.data.join("secrets")
    }
}

/// Why the executor can't work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something about a file or directory of ours failed.
    #[error("failed to {what} {path}")]
    Files {
        /// What was being done.
        what: &'static str,
        /// To what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another agent works in this data directory.
    #[error("another agent is using the data directory {0}")]
    InUse(PathBuf),
    /// `/proc` can't be read: nothing could be said about any process.
    #[error("failed to read /proc")]
    Proc(#[source] std::io::Error),
}

/// Adds what was being done to an I/O error.
pub(super) fn failed(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Files { what, path, source }
}
