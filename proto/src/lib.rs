//! Bursar's messages on the wire and on disk, and their conversions to core types.
//!
//! Wire and disk types live here and nowhere else; inside the product a value that exists is valid. This crate
//! converts at the edge ([`Wire`]) and never decides.
//!
//! ```text
//!   v1 (clients, agents, replicas) ──┐
//!   log::v1 (entries, answers) ──────┼── Wire::{to_wire, from_wire} ── scheduler-core
//!   state records (snapshots) ───────┘
//! ```

mod agent;
mod command;
mod date;
mod error;
pub mod json;
mod plan;
pub mod snapshot;
mod terms;
mod time;
mod wire;
mod word;

pub use command::{decode_answer, decode_entry, encode_answer, encode_command, encode_entry};
pub use error::Error;
pub use terms::{LAUNCH_MAX, SCRIPT_MAX, canonical_launch, decode_launch};
pub use wire::Wire;

/// The generated messages and services of clients, agents and replicas.
#[allow(missing_docs, unused_qualifications, clippy::pedantic, clippy::all)]
pub mod v1 {
    tonic::include_proto!("bursar.v1");
}

/// What the replicated log holds.
pub mod log {
    /// The first version.
    #[allow(missing_docs, unused_qualifications, clippy::pedantic, clippy::all)]
    pub mod v1 {
        tonic::include_proto!("bursar.log.v1");
    }
}

/// What snapshots hold.
pub mod state {
    /// The first version.
    #[allow(missing_docs, unused_qualifications, clippy::pedantic, clippy::all)]
    pub mod v1 {
        tonic::include_proto!("bursar.state.v1");
    }
}

/// What replicas keep of what happened.
pub mod history {
    /// The first version.
    #[allow(missing_docs, unused_qualifications, clippy::pedantic, clippy::all)]
    pub mod v1 {
        tonic::include_proto!("bursar.history.v1");
    }
}
