//! Carries out what the machine decides, with no network: attempt directories, shims, exits, emptiness, logs.
//!
//! ```text
//!   DATA/attempts/<job>.<attempt>.<rank>/   one a rank, see `shim` for its files
//!   DATA/shims/<hash>/bursar-shim           a copy of each version: an upgrade replaces the installed file
//!   DATA/instance                           random, begins every mark: whose process is this?
//! ```
//!
//! Everything here can be done again from what is on disk: the agent may die between any two steps. Files that a job can
//! write are read as hostile input: with a limit, no link followed, as the job's account.
//!
//! What it must never do: start an attempt twice, or end one for a reason of its own.

mod account;
mod adopt;
mod attempt;
mod config;
mod environment;
mod groups;
mod launch;
mod logs;
mod run;
mod shims;

pub use config::{Config, Error};
pub use launch::{LaunchError, Order};
pub use logs::{LogError, LogPart, Stream};
pub use run::{Executor, Found, Happening, StopOrder};
pub use scheduler_core::agent::RankId;
