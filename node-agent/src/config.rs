//! What an agent is started with.

use std::path::PathBuf;
use std::time::Duration;

use crate::{executor, probe};

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Its data directory, made if missing: attempts, shims, secrets, journal. One agent works in it at a time.
    pub data: PathBuf,
    /// Addresses of replicas, `host:port`. Any one that answers leads to the others.
    pub servers: Vec<String>,
    /// For the first start: how to join. Ignored once the data directory belongs to a node.
    pub join: Option<Join>,
    /// How the probe is started: the program that calls [`probe::main`] with the path of NVML.
    pub probe: probe::Command,
    /// How long one GPU gets for an answer.
    pub probe_deadline: Duration,
    /// The installed shim; a copy is kept in the data directory.
    pub shim: PathBuf,
    /// Whether jobs may run as uid 0.
    pub allow_root_jobs: bool,
    /// How long logs of ended attempts are kept.
    pub keep_ended: Duration,
    /// From TERM to KILL at a job's time limit.
    pub limit_kill: Duration,
    /// From the first KILL until what is left of an attempt is said to be unkillable.
    pub unkillable_after: Duration,
    /// Whether attempts get a cgroup of their own where this machine can give one.
    pub uses_cgroups: bool,
    /// The host by which other nodes reach the ranks here; the machine's own name if none.
    pub address: Option<String>,
}

/// How to join.
#[derive(Clone)]
pub struct Join {
    /// The name that the token is for.
    pub name: String,
    /// The one-time token.
    pub token: String,
}

/// Never shows the token.
impl std::fmt::Debug for Join {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Join").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Config {
    /// The defaults for what every agent needs to be told.
    pub fn new(
        data: impl Into<PathBuf>,
        servers: Vec<String>,
        probe: probe::Command,
        shim: impl Into<PathBuf>,
    ) -> Self {
        Self {
            data: data.into(),
            servers,
            join: None,
            probe,
            probe_deadline: Duration::from_secs(5),
            shim: shim.into(),
            allow_root_jobs: false,
            keep_ended: Duration::from_secs(24 * 3_600),
            limit_kill: Duration::from_secs(30),
            unkillable_after: Duration::from_secs(60),
            uses_cgroups: true,
            address: None,
        }
    }

    pub(crate) fn executor(&self) -> executor::Config {
        let mut config = executor::Config::new(&self.data, &self.shim);
        config.allow_root_jobs = self.allow_root_jobs;
        config.keep_ended = self.keep_ended;
        config.limit_kill = self.limit_kill;
        config.unkillable_after = self.unkillable_after;
        config.uses_cgroups = self.uses_cgroups;
        config
    }
}
