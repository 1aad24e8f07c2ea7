//! The agent's parts with the real shim and the simulated NVML.

mod adoptions;
mod executions;
mod probes;
mod support;
