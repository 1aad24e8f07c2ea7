//! `dev`: a real cluster on this machine, with simulated GPUs.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};

use crate::built::{Place, all};

/// Builds what is needed and becomes `bursar dev` with `arguments`.
///
/// It takes this process's place: a Ctrl-C then reaches `bursar dev` once and from the terminal, and nobody stands
/// between it and its own cleaning up.
///
/// # Errors
///
/// When a build fails or the program cannot be started; otherwise it does not return.
pub fn dev(arguments: &[String]) -> Result<()> {
    Err(command(arguments)?.exec()).context("failed to start bursar dev")
}

/// Returns the command that starts `bursar dev`, everything it needs built.
pub(super) fn command(arguments: &[String]) -> Result<Command> {
    let [bursar, shim, fake_nvml] = all(&Place::of_this_process()?)?;
    let mut command = Command::new(bursar);
    command.arg("dev").arg("--shim").arg(shim).arg("--fake-nvml").arg(fake_nvml).args(arguments);
    Ok(command)
}
