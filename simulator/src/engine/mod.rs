//! The engine: leader, log, planner and agents in one closed loop of virtual time, jumping from one event to the next.
//!
//! ```text
//!   submissions ──┐                      ┌── Propose ──> apply ──> State ──┐
//!   nodes fail  ──┼──> Leader::handle ───┼── Plan ─────> Policy::plan      ├──> Recorder ──> Record
//!   agents      ──┘          ^           └── Send ─────> Agent::handle ──> processes of the model
//!                            └───────────── reports ─────────┘
//! ```
//!
//! Everything that decides is the product's own. What is made up is only what no scheduler decides: how long processes
//! run, save and start again, when machines fail, and how long a message takes. Nothing is drawn here: a [`Setup`] has
//! every chance drawn already, so the same setup always has the same run.

mod found;
mod machine;
mod pace;
mod processes;
mod recorder;
mod run;
mod setup;
mod work;

pub use run::{Error, Progress, run};
pub use setup::{NodeSetup, Outage, Setup, SimJob, Work};
