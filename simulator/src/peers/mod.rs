//! Policies of others, on the same engine as ours: one file each, after its own documentation.
//!
//! ```text
//!   Round ──> order (fifo, multifactor over Fair Tree, levels) ──> Free::fit, backfill, taking ──> Plan ──> apply
//! ```
//!
//! Each decides who starts; what is decided goes through the same `apply` as ours, by the same agents, on the same
//! virtual machines. Where a peer knows something that we do not (a time limit that a person guessed, a level), the module
//! says what stands for it. The formulas are pure functions, tested against the worked examples of the documentation.

pub mod backfill;
pub mod fair_tree;
mod fifo;
mod levels;
pub mod multifactor;
mod placing;
mod slurm;
mod taking;
mod usage;

pub use fifo::Fifo;
pub use levels::Levels;
pub use slurm::{Options as SlurmOptions, Slurm};
