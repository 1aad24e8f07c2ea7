//! History: what happened, kept longer than state keeps it.
//!
//! One record for each entry of the log that has something to tell: who asked what (audit), what became of jobs, nodes
//! and budgets (events), and what left state with it (jobs with their decisions and launches, bills). It is derived from
//! the entry, its answer and the states around it alone, so every replica has the same; nothing decides by it.
//!
//! ```text
//!   machine ──record──> queue ──> writer's thread ──> DATA/history/FROM.open ──window is over──> FROM.seg
//!                                      │                                                        │
//!                                      └── catalogue: what must be here, how far it is durable ─┘
//!   snapshot ──flush_to──> durable?          fetch <── peers: what is missing       scrub: reads all again, slowly
//! ```
//!
//! - A segment covers a window of indexes (16,384 of them), cut at multiples of its length: the files of whole windows
//!   are equal, byte by byte, on all replicas. Each frame has a checksum, each sealed segment a digest, kept in the
//!   catalogue too.
//! - The log can write the tail again as long as no newer snapshot counts; so a snapshot counts only once history is
//!   durable up to it ([`History::flush_to`]), and entries that are applied again are known by their index.
//! - What is not there is a *hole*: after a snapshot from a peer, after damage, after a full disk that lasted too long.
//!   Holes are known, shown, filled from peers in the background, and a read never goes silently over one.
//! - A full or failing disk stops nobody but snapshots: what waits is kept in memory up to a bound, then given up here
//!   and fetched from a peer later, or written again from the log after a restart.
//! - Kept for a time and up to a size; whole oldest segments go.

mod ask;
mod bounds;
mod catalogue;
mod derive;
mod directory;
mod error;
mod fetch;
mod files;
mod frame;
mod handle;
mod pages;
mod query;
mod record;
mod scrub;
mod segment;
mod serve;
mod shape;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use ask::{job, read};
pub use bounds::Bounds;
pub use derive::told;
pub use error::Error;
pub use fetch::run as fetch;
pub use handle::History;
pub use query::{Direction, Page, Query, Wants};
pub use record::{Gone, Told};
pub use serve::{coverage as serve_coverage, fetch as serve_fetch, read as serve_read};
pub use shape::{Coverage, Range};
