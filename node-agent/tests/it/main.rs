//! The agent's parts with the real shim and the simulated NVML.

mod adoptions;
mod agents;
mod crashes;
mod executions;
mod plane;
mod probes;
mod support;
