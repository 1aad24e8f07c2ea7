//! Conversions between messages and the library's types.

// Generated code.
#![allow(missing_docs, clippy::pedantic, clippy::wildcard_imports, unused_qualifications)]

tonic::include_proto!("bursar.raft.v1");

mod convert;

pub(crate) use convert::{Bad, Parties, from_held, from_known, from_vote, to_held, to_known, to_vote};

/// Writes an error and its causes in one line, for a status.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
