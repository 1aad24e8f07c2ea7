//! Bursar's messages on the wire and on disk, and their conversions to core types.
//!
//! Wire and disk types live here and nowhere else; inside the product a value that exists is valid. This crate
//! converts at the edge and never decides.

pub mod json;

/// The generated messages and services.
#[allow(missing_docs, unused_qualifications, clippy::pedantic, clippy::all)]
pub mod v1 {
    tonic::include_proto!("bursar.v1");
}
