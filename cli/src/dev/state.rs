//! What runs: a file in the folder, for `dev status` and for those who look on.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::processes::Identity;
use crate::codes;
use crate::config;
use crate::failure::Failure;

/// A development cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    /// `dev/v1`.
    pub schema: String,
    /// Its folder.
    pub folder: String,
    /// Whether it is up: all nodes ready, context written.
    pub ready: bool,
    /// Whether its folder is kept at the end.
    pub keep: bool,
    /// The supervising process.
    pub supervisor: Identity,
    /// The replicas.
    pub replicas: Vec<PartState>,
    /// The agents.
    pub agents: Vec<PartState>,
}

/// A part of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartState {
    /// `r1`, `node-01`.
    pub name: String,
    /// Its process; none while it is down.
    pub process: Option<Identity>,
    /// How often it was started.
    pub starts: u32,
    /// A replica's address for clients.
    pub address: Option<String>,
    /// Its log.
    pub log: String,
}

impl State {
    /// Writes it, old or new and never half of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let text = crate::shell::json(self, true)?;
        config::write_private(path, text.as_bytes()).map_err(|error| {
            Failure::new(codes::DEV_FAILED, format!("cannot write {}", path.display())).why(error.to_string())
        })
    }

    /// Reads it.
    pub fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }
}
