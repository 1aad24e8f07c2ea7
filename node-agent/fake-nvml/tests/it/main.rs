//! The library through nvml-wrapper, as the agent's probe uses it.

mod faults;
mod queries;
mod support;
