//! What builds, checks, starts and measures Bursar.
//!
//! ```text
//! cargo xtask COMMAND -> main -> dev | check | fix | ci | bench
//! tests of any crate  -> built (programs of other packages), cluster_lock (one cluster at a time)
//! tests of this crate -> the rules of the house, each a function over a list of files
//! ```
//!
//! It must never be a dependency of what ships: only tests and the command line use it.

pub mod built;
mod lock;

pub use lock::{ClusterLock, cluster_lock};
