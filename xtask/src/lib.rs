//! What builds, checks, starts and measures Bursar.
//!
//! ```text
//! cargo xtask COMMAND -> main -> commands: dev | check | fix | ci | bench
//! tests of any crate  -> built (programs of other packages), cluster_lock, not_available
//! tests of this crate -> rules, each a function from text or metadata to findings
//! ```
//!
//! It must never be a dependency of what ships: only tests and the command line use it.

mod available;
pub mod built;
pub mod commands;
mod lock;
pub mod rules;

pub use available::{NOT_AVAILABLE, not_available};
pub use lock::{ClusterLock, cluster_lock};
