//! A scenario: everything that a run depends on, in one file.
//!
//! ```text
//!   scenario.yaml ──> Scenario ──┐
//!                                ├── prepare (draws every chance) ──> Setup
//!   trace, or made jobs ─────────┘
//! ```

mod draw;
mod error;
mod file;
mod made;
mod prepare;
mod shipped;
mod teams;
mod terms;
mod written;

pub use error::Error;
pub use file::{
    Budget, Checkpoints, Debug, Failures, Jobs, Load, Made, Minimum, Models, Nodes, Rules, Scenario, Size,
    Teams, TraceFile, schema,
};
pub use prepare::{Prepared, prepare};
pub use shipped::{SHIPPED, TRACES, shipped};
pub use written::{Bytes, Duration};
