//! `bursar agent-probe`: the agent's own process for NVML, which may hang or die alone. Not for people.

use std::path::PathBuf;

/// Arguments of `agent-probe`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The NVML library
    nvml: PathBuf,
}

/// Answers the agent's questions until it goes away.
pub fn run(args: &Args) -> ! {
    node_agent::probe::main(&args.nvml)
}
