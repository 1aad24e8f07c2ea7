//! What goes over the wire or to disk comes back the same, and what can't be is refused.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod everything;
mod frozen;
mod history;
mod hostile;
mod round_trip;
mod sample;
mod snapshot;
mod snapshot_refused;
