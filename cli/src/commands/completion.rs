//! `bursar completion`: completes commands and flags in a shell.

use clap::CommandFactory as _;
use clap_complete::Shell as Kind;

use crate::args::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// Arguments of `completion`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bursar completion bash > ~/.local/share/bash-completion/completions/bursar\n  bursar completion zsh > \"${fpath[1]}/_bursar\""
)]
pub struct Args {
    /// The shell
    pub shell: Kind,
}

/// Runs the command.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "bursar", &mut script);
    shell.print_bytes(&script)?;
    Ok(Exit::Done)
}
