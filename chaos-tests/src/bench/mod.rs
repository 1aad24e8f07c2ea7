//! Figures that the pages promise, measured on this machine: with real processes, and the planner alone.

mod adopt;
mod churn;
mod disk;
mod etcd;
mod failover;
mod load;
mod memory;
mod plan;
mod plan_size;
mod preempt;
mod replicate;
mod rows;
mod scripted;
mod simulate;
mod start;
mod state;
mod submit;
mod writers;

pub use churn::churn;
pub use failover::failover;
pub use plan::plan;
pub use preempt::preempt;
pub use replicate::replicate;
pub use rows::{Figures, quantile};
pub use simulate::simulate;
pub use start::{boot_nanos, stamp};
pub use state::state;
pub use submit::submit;
