//! A whole control plane on this machine: real replicas, agents, shims and jobs.

mod agent;
mod calm;
mod cluster;
mod gate;
mod look;
mod machine;
mod parts;
mod plan;
mod proc;
mod process;
mod replica;
mod said;
mod wait;

pub use agent::Agent;
pub use calm::{Calm, Elections, costs_no_election};
pub use cluster::{ADMIN, Lab};
pub use gate::{Gate, Run};
pub use look::Standing;
pub use machine::Machine;
pub use parts::Parts;
pub use plan::{Plan, Timing, own_account};
pub use proc::{Identity, alive, children, identity, memory_kib, own_processes, parent};
pub use process::{Process, kill, send};
pub use replica::Replica;
pub use said::Said;
pub use wait::{DEADLINE, try_at_once, try_until, until};
