//! From the arguments to the exit code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::codes;
use crate::commands;
use crate::dev;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::shell::{Colour, Shell};
use crate::usage;

/// Runs `bursar` with the process's own arguments.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(not_parsed(&error).code()),
    };
    let style = Shell::error_style(cli.global.color);
    let passes_on = commands::passes_job_exit_on(&cli.command);
    match dispatch(cli) {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            if failure.code != 0 {
                // Nobody is left to tell if stderr is closed.
                let _ = std::io::stderr().lock().write_all(failure.render(style).as_bytes());
            }
            let exit = if passes_on && failure.code != 0 { Exit::Client } else { failure.exit };
            ExitCode::from(exit.code())
        }
    }
}

/// Prints what the parser says: help to stdout, a fault to stderr.
fn not_parsed(error: &clap::Error) -> Exit {
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if is_help {
        return match error.print() {
            Err(fault) if fault.kind() != std::io::ErrorKind::BrokenPipe => Exit::Other,
            _ => Exit::Done,
        };
    }
    // Nobody is left to tell if the reader left.
    let _ = match error.kind() {
        // Nothing was asked for: what there is to ask for.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.print(),
        _ => {
            let style = Shell::error_style(Colour::Auto);
            std::io::stderr().lock().write_all(usage::failure(error).render(style).as_bytes())
        }
    };
    let is_run = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).is_some_and(|arg| arg == "run");
    if is_run { Exit::Client } else { Exit::Usage }
}

fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let servers = cli.global.server.clone();
    let shell = Shell::new(cli.global);
    match cli.command {
        Command::Server(args) => commands::server::run(&shell, args),
        Command::Agent(args) => commands::agent::run(args, servers),
        Command::AgentProbe(args) => commands::agent_probe::run(&args),
        Command::Dev(args) => dev::run(&shell, args),
        Command::Context(args) => commands::context::run(&shell, args),
        Command::Completion(args) => commands::completion::run(&shell, args),
        Command::Help(args) => commands::help::run(&shell, args),
        Command::Checkpoint(args) => commands::checkpoint::run(&shell, args),
        Command::Version => commands::version::run(&shell),
        Command::Simulate(args) => commands::simulate::run(&shell, args),
        command => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| Failure::new(codes::PROCESS, "cannot start").why(error.to_string()))?;
            let spoken = runtime.block_on(speak(&shell, command));
            shell.keep_learned();
            spoken
        }
    }
}

/// Runs the commands that speak to a control plane.
async fn speak(shell: &Shell, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Submit(args) => commands::submit::run(shell, args).await,
        Command::Plan(args) => commands::plan::run(shell, args).await,
        Command::Run(args) => commands::run::run(shell, args).await,
        Command::Queue(args) => commands::queue::run(shell, args).await,
        Command::Job(args) => commands::job::run(shell, args).await,
        Command::Explain(args) => commands::explain::run(shell, args).await,
        Command::Logs(args) => commands::logs::run(shell, args).await,
        Command::Budget(args) => commands::budget::run(shell, args).await,
        Command::Bill(args) => commands::bill::run(shell, args).await,
        Command::Waits(args) => commands::waits::run(shell, args).await,
        Command::Capacity(args) => commands::capacity::run(shell, args).await,
        Command::Principal(args) => commands::principal::run(shell, args).await,
        Command::Node(args) => commands::node::run(shell, args).await,
        Command::Cluster(args) => commands::cluster::run(shell, args).await,
        Command::Events(args) => commands::events::run(shell, args).await,
        Command::Audit(args) => commands::audit::run(shell, args).await,
        Command::Doctor(args) => commands::doctor::run(shell, args).await,
        Command::Whoami => commands::whoami::run(shell).await,
        // Run by the caller, who needs no control plane for them.
        Command::Context(_)
        | Command::Completion(_)
        | Command::Checkpoint(_)
        | Command::Help(_)
        | Command::Version
        | Command::Simulate(_)
        | Command::Dev(_)
        | Command::Server(_)
        | Command::Agent(_)
        | Command::AgentProbe(_) => Ok(Exit::Done),
    }
}
