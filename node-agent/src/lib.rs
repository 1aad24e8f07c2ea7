//! The agent of a node: it sees the node's GPUs, starts and stops ranks as committed, and reports what happened.
//!
//! ```text
//!   replicas <--link--> agent: machine (pure, in scheduler-core) --actions--> executor --files--> shim ==> job
//!                         |                                                       |
//!                         +---- probe (own process, NVML)            attempts/<job>.<attempt>.<rank>/
//! ```
//!
//! What it must never do: decide what should run; take absence (of the link, of a leader, of an item in a set) for an
//! order; end a job for a reason that isn't a committed stop, a limit of the job's own, or an ended main process.

mod clock;
mod config;
mod dial;
pub mod executor;
mod facts;
mod fetch;
mod hands;
mod join;
mod journal;
mod link;
mod logs;
mod looker;
pub mod probe;
mod run;

pub use config::{Config, Join};
pub use run::{Error, run};
