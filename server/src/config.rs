//! What a replica is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use scheduler_core::unit::Span;
use serde::Deserialize;

use crate::error::Error;
use crate::history::Bounds;

/// Everything that a replica is told when it starts; the rest it learns from its data directory and its peers.
///
/// As a file each key has the field's name; a key that is not here is an error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `data`: the directory of everything this replica keeps; made with mode 0700 if it is not there. One process
    /// at a time.
    pub data: PathBuf,
    /// `listen`: address for clients and agents; loopback only until TLS is configured. Port 0 takes a free one.
    #[serde(default = "default_listen")]
    pub listen: SocketAddr,
    /// `peer_listen`: address for the other replicas; loopback only until TLS is configured. Port 0 takes a free one.
    #[serde(default = "default_peer_listen")]
    pub peer_listen: SocketAddr,
    /// `peer_secret_file`: a file with the secret that all replicas share, at least 32 bytes; mode 0600.
    pub peer_secret_file: PathBuf,
    /// `heartbeat_ms`: how often a leader shows that it is there. Default 100.
    #[serde(default = "default_heartbeat")]
    pub heartbeat_ms: u64,
    /// `election_min_ms`: the shortest silence before an election. Default 500.
    #[serde(default = "default_election_min")]
    pub election_min_ms: u64,
    /// `election_max_ms`: the longest silence before an election. Default 1,000.
    #[serde(default = "default_election_max")]
    pub election_max_ms: u64,
    /// `snapshot_every`: entries between snapshots. Default 50,000.
    #[serde(default = "default_snapshot_every")]
    pub snapshot_every: u64,
    /// `free_disk_min_bytes`: with less free space new submissions are refused. Default 1 GiB.
    #[serde(default = "default_free_bytes")]
    pub free_disk_min_bytes: u64,
    /// `free_disk_min_percent`: with a smaller free part of the file system new submissions are refused. Default 5.
    #[serde(default = "default_free_percent")]
    pub free_disk_min_percent: u8,
    /// `history_keep_days`: what happened longer ago than this is forgotten. Default 400.
    #[serde(default = "default_history_days")]
    pub history_keep_days: u64,
    /// `history_keep_bytes`: the oldest history is forgotten beyond this. Default 20 GiB.
    #[serde(default = "default_history_bytes")]
    pub history_keep_bytes: u64,
    /// `history_window`: entries of the log that one file of history covers. Default 16,384.
    #[serde(default = "default_history_window")]
    pub history_window: u64,
    /// `write_patience_ms`: how long a write waits for a leader before it is answered `try again`. Default 5,000.
    #[serde(default = "default_write_patience")]
    pub write_patience_ms: u64,
    /// `witness_wait_ms`: how long agents and replicas may take to say what time it is, when all replicas' machines
    /// have restarted. Default 10,000.
    #[serde(default = "default_witness_wait")]
    pub witness_wait_ms: u64,
    /// `log`: `text` or `json`, one line an event on standard error. Default `text`.
    #[serde(default)]
    pub log: LogFormat,
}

/// How a replica writes its own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7400))
}

fn default_peer_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7401))
}

const fn default_heartbeat() -> u64 {
    100
}

const fn default_election_min() -> u64 {
    500
}

const fn default_election_max() -> u64 {
    1_000
}

const fn default_snapshot_every() -> u64 {
    50_000
}

const fn default_free_bytes() -> u64 {
    1 << 30
}

const fn default_free_percent() -> u8 {
    5
}

const fn default_history_days() -> u64 {
    400
}

const fn default_history_bytes() -> u64 {
    20 << 30
}

const fn default_history_window() -> u64 {
    16_384
}

const fn default_write_patience() -> u64 {
    5_000
}

const fn default_witness_wait() -> u64 {
    10_000
}

impl Config {
    /// Returns the defaults for a data directory and a secret.
    #[must_use]
    pub fn new(data: impl Into<PathBuf>, peer_secret_file: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            listen: default_listen(),
            peer_listen: default_peer_listen(),
            peer_secret_file: peer_secret_file.into(),
            heartbeat_ms: default_heartbeat(),
            election_min_ms: default_election_min(),
            election_max_ms: default_election_max(),
            snapshot_every: default_snapshot_every(),
            free_disk_min_bytes: default_free_bytes(),
            free_disk_min_percent: default_free_percent(),
            history_keep_days: default_history_days(),
            history_keep_bytes: default_history_bytes(),
            history_window: default_history_window(),
            write_patience_ms: default_write_patience(),
            witness_wait_ms: default_witness_wait(),
            log: LogFormat::default(),
        }
    }

    /// Returns how long a write waits for a leader.
    #[must_use]
    pub const fn write_patience(&self) -> Duration {
        Duration::from_millis(self.write_patience_ms)
    }

    /// Returns how much history is kept, and how it is cut.
    #[must_use]
    pub fn history_bounds(&self) -> Bounds {
        let keep = Span::from_hours(self.history_keep_days.saturating_mul(24));
        Bounds { keep, keep_bytes: self.history_keep_bytes, window: self.history_window, ..Bounds::default() }
    }

    /// Returns how long witnesses of cluster time may take.
    #[must_use]
    pub const fn witness_wait(&self) -> Duration {
        Duration::from_millis(self.witness_wait_ms)
    }

    /// Checks what can be checked before anything is opened.
    ///
    /// # Errors
    /// When a listener would be reachable from other machines, or the figures contradict each other.
    pub fn check(&self) -> Result<(), Error> {
        for (key, addr) in [("listen", self.listen), ("peer_listen", self.peer_listen)] {
            if !addr.ip().is_loopback() {
                return Err(Error::OpenListener { key, addr });
            }
        }
        let is_sane = self.heartbeat_ms > 0
            && self.heartbeat_ms < self.election_min_ms
            && self.election_min_ms < self.election_max_ms;
        if !is_sane {
            return Err(Error::Timing {
                heartbeat: self.heartbeat_ms,
                min: self.election_min_ms,
                max: self.election_max_ms,
            });
        }
        let history = [
            ("history_keep_days", self.history_keep_days, 1, 36_500),
            ("history_keep_bytes", self.history_keep_bytes, 64 << 10, u64::MAX),
            ("history_window", self.history_window, 16, 1 << 20),
        ];
        match history.into_iter().find(|(_, is, least, most)| is < least || is > most) {
            Some((key, is, least, most)) => Err(Error::OutOfBounds { key, is, least, most }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listener_that_other_machines_reach_is_refused() {
        let mut config = Config::new("/d", "/s");
        assert!(config.check().is_ok());
        config.listen = SocketAddr::from(([0, 0, 0, 0], 7400));
        let text = config.check().unwrap_err().to_string();
        assert!(text.contains("0.0.0.0:7400") && text.contains("TLS"), "{text}");
    }

    #[test]
    fn election_follows_several_heartbeats() {
        let mut config = Config::new("/d", "/s");
        config.heartbeat_ms = 600;
        assert!(config.check().is_err());
    }
}
