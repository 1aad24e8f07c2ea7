//! What a replica is told when it is opened.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::ReplicaId;

/// A replica of the cluster and where it is reached.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its number.
    pub id: ReplicaId,
    /// `host:port` of the listener for other replicas.
    pub peer_addr: String,
    /// `host:port` of the listener for clients; opaque here, handed out with the leader's name.
    pub client_addr: String,
}

/// The secret that all replicas of a cluster share. Never printed.
#[derive(Clone)]
pub struct PeerSecret([u8; 32]);

impl PeerSecret {
    /// Wraps the secret.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for PeerSecret {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerSecret(..)")
    }
}

/// How fast a cluster notices that its leader is gone. A new leader is there after about `election_max` plus a
/// random time between the two election figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often a leader shows that it is there.
    pub heartbeat: Duration,
    /// The shortest silence before an election.
    pub election_min: Duration,
    /// The longest silence before an election.
    pub election_max: Duration,
}

impl Timing {
    /// For one machine or one rack: 50 ms, 150 to 300 ms.
    pub const FAST: Self = Self::millis(50, 150, 300);
    /// For production: 100 ms, 500 to 1,000 ms.
    pub const STEADY: Self = Self::millis(100, 500, 1000);

    /// Builds a timing from milliseconds.
    pub const fn millis(heartbeat: u64, election_min: u64, election_max: u64) -> Self {
        Self {
            heartbeat: Duration::from_millis(heartbeat),
            election_min: Duration::from_millis(election_min),
            election_max: Duration::from_millis(election_max),
        }
    }
}

/// How a replica is opened.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where everything is kept; made with mode 0700 if it is not there.
    pub data_dir: PathBuf,
    /// The number that this replica is meant to have. `None`: whatever the data directory or the invitation
    /// says. With a number, a directory or an invitation that says otherwise is refused.
    pub replica: Option<ReplicaId>,
    /// The secret shared by all replicas.
    pub peer_secret: PeerSecret,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// A snapshot is made after so many entries.
    pub snapshot_every: u64,
    /// So many entries stay in the log behind a snapshot, for replicas that were away for a short while.
    pub keep_behind_snapshot: u64,
    /// Snapshots are written to disk no faster than this, in bytes a second.
    pub snapshot_rate: u64,
}

impl Config {
    /// Returns a configuration with production timing.
    pub fn new(data_dir: impl Into<PathBuf>, peer_secret: PeerSecret) -> Self {
        Self {
            data_dir: data_dir.into(),
            replica: None,
            peer_secret,
            timing: Timing::STEADY,
            snapshot_every: 50_000,
            keep_behind_snapshot: 20_000,
            snapshot_rate: 32 << 20,
        }
    }
}
