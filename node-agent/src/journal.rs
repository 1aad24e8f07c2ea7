//! What an agent must not forget: who it is, the highest token it saw, cluster time. Exits are kept by the attempts'
//! directories.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use scheduler_core::agent::Token;
use scheduler_core::id::{ClusterId, Epoch, LogIndex, Term};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shim::files::{self, Readers};

/// File name of the identity.
const IDENTITY: &str = "identity.json";
/// File name of the token.
const TOKEN: &str = "token.json";
/// File name of the clock.
const CLOCK: &str = "clock.json";
/// File name of the replicas' addresses.
const REPLICAS: &str = "replicas.json";
/// File name of the GPUs last seen.
const GPUS: &str = "gpus.json";

/// Why the journal can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
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
    /// A file is not what was written.
    #[error("{path} is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

/// Who this agent is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its bearer token, made by itself: 64 hexadecimal digits.
    pub credential: String,
    /// Its machine's id, as said at joining.
    pub machine: String,
    /// Set once it has joined.
    pub joined: Option<Joined>,
}

/// What joining gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// The node's number.
    pub node: u32,
    /// The control plane.
    pub cluster: [u8; 16],
    /// Its epoch at joining.
    pub epoch: u32,
}

impl Joined {
    /// The control plane's id.
    pub fn cluster(&self) -> ClusterId {
        ClusterId::new(self.cluster)
    }
}

/// Never shows the credential.
impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Identity")
            .field("machine", &self.machine)
            .field("joined", &self.joined)
            .finish()
    }
}

#[derive(Serialize, Deserialize)]
struct StoredToken {
    epoch: u32,
    term: u64,
    index: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredClock {
    boot: String,
    offset_ms: i64,
}

/// A GPU as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredGpu {
    /// Its identity.
    pub uuid: String,
    /// Its model.
    pub model: String,
    /// Its memory in bytes.
    pub memory: u64,
}

/// The journal's directory, `DATA/journal`, for the agent's account alone.
#[derive(Debug, Clone)]
pub struct Journal {
    directory: PathBuf,
}

impl Journal {
    /// Opens the journal of a data directory that exists.
    ///
    /// # Errors
    ///
    /// Its directory can't be made.
    pub fn open(data: &Path) -> Result<Self, Error> {
        let directory = data.join("journal");
        let failed = |source| Error::Files { what: "make", path: directory.clone(), source };
        std::fs::create_dir_all(&directory).map_err(failed)?;
        std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).map_err(failed)?;
        Ok(Self { directory })
    }

    /// Reads who this agent is.
    ///
    /// # Errors
    ///
    /// It can't be read. That is never taken for "nobody yet".
    pub fn identity(&self) -> Result<Option<Identity>, Error> {
        self.read(IDENTITY)
    }

    /// Keeps who this agent is.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub fn keep_identity(&self, identity: &Identity) -> Result<(), Error> {
        self.write(IDENTITY, identity)
    }

    /// Reads the highest token that was seen; the lowest one if none was.
    ///
    /// # Errors
    ///
    /// It can't be read. That is never taken for "none seen".
    pub fn token(&self) -> Result<Token, Error> {
        let stored: Option<StoredToken> = self.read(TOKEN)?;
        Ok(stored.map_or_else(Token::default, |stored| Token {
            epoch: Epoch::new(stored.epoch),
            term: Term::new(stored.term),
            index: LogIndex::new(stored.index),
        }))
    }

    /// Makes a token durable.
    ///
    /// # Errors
    ///
    /// It can't be written: then nothing may be done by it.
    pub fn keep_token(&self, token: Token) -> Result<(), Error> {
        let stored =
            StoredToken { epoch: token.epoch.get(), term: token.term.get(), index: token.index.get() };
        self.write(TOKEN, &stored)
    }

    /// Reads the offset of cluster time, if it was kept in this boot.
    pub fn clock(&self, boot: &str) -> Option<i64> {
        let stored: StoredClock = self.read(CLOCK).ok()??;
        (stored.boot == boot).then_some(stored.offset_ms)
    }

    /// Keeps the offset of cluster time.
    ///
    /// # Errors
    ///
    /// It can't be written; only its accuracy after a restart suffers.
    pub fn keep_clock(&self, boot: &str, offset_ms: i64) -> Result<(), Error> {
        self.write(CLOCK, &StoredClock { boot: boot.to_owned(), offset_ms })
    }

    /// Reads where the replicas were last.
    pub fn replicas(&self) -> Vec<String> {
        self.read(REPLICAS).ok().flatten().unwrap_or_default()
    }

    /// Keeps where the replicas are: those that it was started with may all be gone one day.
    ///
    /// # Errors
    ///
    /// It can't be written; only finding a replica after a restart may suffer.
    pub fn keep_replicas(&self, addresses: &[String]) -> Result<(), Error> {
        self.write(REPLICAS, &addresses)
    }

    /// Reads the GPUs that this node had last.
    pub fn gpus(&self) -> Vec<StoredGpu> {
        self.read(GPUS).ok().flatten().unwrap_or_default()
    }

    /// Keeps the GPUs that this node has.
    ///
    /// # Errors
    ///
    /// They can't be written; only what is said of a silent probe after a restart suffers.
    pub fn keep_gpus(&self, gpus: &[StoredGpu]) -> Result<(), Error> {
        self.write(GPUS, &gpus)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.directory.join(name);
        let bytes = files::read(&self.directory, name).map_err(|source| Error::Files {
            what: "read",
            path: path.clone(),
            source,
        })?;
        bytes
            .map(|bytes| serde_json::from_slice(&bytes))
            .transpose()
            .map_err(|source| Error::Damaged { path, source })
    }

    fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<(), Error> {
        let path = self.directory.join(name);
        let bytes =
            serde_json::to_vec(value).map_err(|source| Error::Damaged { path: path.clone(), source })?;
        files::replace(&self.directory, name, &bytes, Readers::Owner).map_err(|source| Error::Files {
            what: "write",
            path,
            source,
        })
    }
}
