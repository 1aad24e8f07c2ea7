//! Where a replica is reached, once it is: a file for those who start it with port 0.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

const FILE: &str = "addresses";

/// The addresses that a replica listens on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// For clients and agents.
    pub client: SocketAddr,
    /// For other replicas.
    pub peer: SocketAddr,
}

impl Addresses {
    /// Writes them into the data directory, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, data: &Path) -> io::Result<()> {
        let fresh = data.join("addresses.new");
        fs::write(&fresh, serde_json::to_vec(self).map_err(io::Error::other)?)?;
        fs::rename(fresh, data.join(FILE))
    }

    /// Reads them from a replica's data directory.
    ///
    /// # Errors
    /// When the file is not there yet, or is not one of these.
    pub fn read(data: &Path) -> io::Result<Self> {
        serde_json::from_slice(&fs::read(data.join(FILE))?).map_err(io::Error::other)
    }

    /// Removes what an earlier process left, before this one listens.
    pub fn forget(data: &Path) {
        // Not there is what is wanted.
        let _ = fs::remove_file(data.join(FILE));
    }
}
