//! `bursar simulate`: days of a cluster in seconds, by the decisions that the server makes. All but the export speak to no control plane.

mod compare;
mod describe;
mod export;
mod ran;
mod runs;
mod scenarios;

use clap::Subcommand;

use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::Shell;

/// Arguments of `simulate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a scenario, and show its figures
    Run(runs::Args),
    /// Run several scenarios, settings, policies or seeds, and compare them
    Compare(compare::Args),
    /// Run a scenario, and write its page: timeline, use, waits, bill
    Report(runs::ReportArgs),
    /// List the scenarios that come with the program, print one, or the schema
    Scenarios(scenarios::Args),
    /// Write the jobs of this control plane as a trace, without names
    Export(export::Args),
    /// Read a trace, and say what is in it and what was left out
    Trace(describe::Args),
}

/// Runs the command.
///
/// # Errors
/// When a scenario or a trace cannot be read, or cannot be run.
pub fn run(shell: &Shell, args: Args) -> Result<Exit, Failure> {
    match args.command {
        What::Run(args) => runs::run(shell, &args),
        What::Compare(args) => compare::run(shell, &args),
        What::Report(args) => runs::report(shell, &args),
        What::Scenarios(args) => scenarios::run(shell, &args),
        What::Trace(args) => describe::run(shell, &args),
        What::Export(args) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime
                .map_err(|error| Failure::new(codes::PROCESS, "cannot start").why(error.to_string()))?;
            let exported = runtime.block_on(export::run(shell, &args));
            shell.keep_learned();
            exported
        }
    }
}
