//! Why a replica does not start, or stops.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a replica does not start, or stops.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listener would be reachable from other machines without TLS.
    #[error(
        "`{key}` is {addr}, which other machines can reach\n  why  requests carry tokens, and without TLS anybody on \
         the way could read them\n  fix  listen on 127.0.0.1 or [::1], with a tunnel between machines, until TLS is \
         configured"
    )]
    OpenListener {
        /// Which setting.
        key: &'static str,
        /// What it says.
        addr: SocketAddr,
    },
    /// Figures that cannot elect a leader.
    #[error(
        "heartbeat {heartbeat} ms, election {min} to {max} ms cannot work\n  fix  heartbeat_ms < election_min_ms < \
         election_max_ms, the heartbeat a third of the election at most"
    )]
    Timing {
        /// `heartbeat_ms`.
        heartbeat: u64,
        /// `election_min_ms`.
        min: u64,
        /// `election_max_ms`.
        max: u64,
    },
    /// A figure is smaller or larger than can work.
    #[error("`{key}` is {is}; it is between {least} and {most}")]
    OutOfBounds {
        /// Which setting.
        key: &'static str,
        /// What it says.
        is: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A file of ours could not be read or written.
    #[error("failed to {doing} {}", path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// The peers' secret is too short to be one.
    #[error(
        "{} holds {length} bytes, a peer secret has at least 32\n  fix  head -c 32 /dev/urandom > {}", path.display(),
        path.display()
    )]
    ShortSecret {
        /// The file.
        path: PathBuf,
        /// How much is in it.
        length: usize,
    },
    /// An address could not be listened on.
    #[error("failed to listen on {addr} (`{key}`)")]
    Listen {
        /// Which setting.
        key: &'static str,
        /// What it says.
        addr: SocketAddr,
        /// Why it failed.
        #[source]
        cause: io::Error,
    },
    /// The machine does not say how long it has been up.
    #[error("failed to read the machine's boot id or boot clock")]
    Clock(#[source] io::Error),
    /// History could not be opened.
    #[error("failed to open history")]
    History(#[source] crate::history::Error),
    /// The replicated log could not be opened.
    #[error("failed to open the replicated log in {}", path.display())]
    Log {
        /// The data directory.
        path: PathBuf,
        /// Why.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The runtime could not be started.
    #[error("failed to start the runtime")]
    Runtime(#[source] io::Error),
    /// A listener ended although nobody asked it to.
    #[error("the listener on {addr} ended")]
    Served {
        /// Which.
        addr: SocketAddr,
        /// Why, if it said.
        #[source]
        cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl Error {
    /// Says it with all its causes, one a line: what `bursar server` prints before it exits.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = format!("error: {self}");
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            text.push_str(&format!("\n  cause  {next}"));
            cause = next.source();
        }
        text
    }
}
