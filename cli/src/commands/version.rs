//! `bursar version`.

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

#[derive(Debug, Serialize)]
struct Version {
    schema: &'static str,
    version: &'static str,
}

/// Runs the command.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(shell: &Shell) -> Result<Exit, Failure> {
    let version = Version { schema: "version/v1", version: env!("CARGO_PKG_VERSION") };
    shell.show(&version, &[version.version.into()], |_| format!("bursar {}\n", version.version))?;
    Ok(Exit::Done)
}
