//! Screens: pure functions from the messages of a control plane to text of at most 100 columns.

pub mod attempts;
pub mod audit;
pub mod bill;
pub mod budget;
pub mod budget_edit;
pub mod budget_one;
pub mod budget_usage;
pub mod capacity;
pub mod cluster;
mod cost;
pub mod drain;
pub mod events;
pub mod explain;
pub mod grant;
pub mod job;
pub mod jobs;
mod likely;
pub mod node;
pub mod plan;
pub mod pool;
pub mod principal;
pub mod queue;
mod reach;
pub mod receipt;
#[cfg(test)]
mod tests;
pub mod time;
pub mod waits;
pub mod what_if;
mod words;
