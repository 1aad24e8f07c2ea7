//! Cluster time of one replica: the shell around [`scheduler_core::cluster_time`].
//!
//! ```text
//!   keep ── asks replicas, listens to agents, every few seconds ──> Clock (the line, under a lock) ──> stamps, hellos
//!                                                                     │        ^
//!                                                        file `clock` ┘        └ seen: times of applied entries
//! ```
//!
//! Clocks are read in [`crate::clock`] alone, and decided on in the core alone.

mod anchor;
mod held;
mod keep;
pub mod vouched;

pub use held::Clock;
pub use keep::{run, standing};
