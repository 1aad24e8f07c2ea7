//! The folder of a development cluster.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::client::random;
use crate::codes;
use crate::failure::Failure;

/// The folder, and what is where in it.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// Makes a new one in the system's folder for temporary files, mode 0700.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make() -> Result<Self, Failure> {
        let tag = u64::from_le_bytes(random()?);
        let folder = std::env::temp_dir().join(format!("bursar-dev-{tag:016x}"));
        make(&folder)?;
        for part in ["tokens", "logs", "nodes"] {
            make(&folder.join(part))?;
        }
        Ok(Self(folder))
    }

    /// Takes one that is there.
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Returns the data folder of a replica.
    pub fn replica(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns the data folder of a node.
    pub fn node(&self, name: &str) -> PathBuf {
        self.0.join("nodes").join(name)
    }

    /// Returns the file that says which GPUs a node has.
    pub fn gpus(&self, name: &str) -> PathBuf {
        self.0.join("nodes").join(format!("{name}.gpus.json"))
    }

    /// Returns the file with a principal's or node's token.
    pub fn token(&self, name: &str) -> PathBuf {
        self.0.join("tokens").join(name)
    }

    /// Returns the log of a part.
    pub fn log(&self, name: &str) -> PathBuf {
        self.0.join("logs").join(format!("{name}.log"))
    }

    /// Returns the file with the secret of the replicas.
    pub fn peer_secret(&self) -> PathBuf {
        self.0.join("peer-secret")
    }

    /// Returns the file that says what runs.
    pub fn state(&self) -> PathBuf {
        self.0.join("state.json")
    }

    /// Returns the socket that commands come by.
    pub fn socket(&self) -> PathBuf {
        self.0.join("control")
    }

    /// Removes it with all that is in it.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.0)
    }
}

fn make(folder: &Path) -> Result<(), Failure> {
    DirBuilder::new().mode(0o700).create(folder).map_err(|error| {
        Failure::new(codes::DEV_FAILED, format!("cannot make {}", folder.display())).why(error.to_string())
    })
}
