//! Bursar's decisions, as pure functions over one state.
//!
//! ```text
//!   log entry ──> apply(State) ──> Outcome          State ──> plan ──> Plan (proposed, adopted by apply)
//!                    │                                │
//!                  books (charge, occupancy)          ├──> assignments of a node ──> Agent::handle ──> Action
//!                                                     └──> explain, queue, reports
//!   Event ──> Leader::handle ──> Effect
//! ```
//!
//! This crate **decides**; every other crate **does**. It has no clock, no IO, no threads, no randomness, no floats in
//! state and no wire types. Time is an argument: inside [`apply`](mod@apply) it is the log entry's time.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod agent;
pub mod apply;
pub mod array;
pub mod bill;
pub mod budget;
pub mod cluster_time;
pub mod command;
pub mod date;
pub mod decision;
mod digest;
pub mod explain;
pub mod future;
pub mod id;
pub mod invariants;
pub mod job;
pub mod leader;
pub mod ledger;
pub mod lifecycle;
#[doc(hidden)]
pub mod mutant;
pub mod node;
pub mod plan;
pub mod pool;
pub mod principal;
pub mod queue;
pub mod report;
pub mod settings;
pub mod spec;
pub mod state;
pub mod table;
pub mod unit;
