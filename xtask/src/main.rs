//! `cargo xtask`: the one command that builds, checks, starts and measures everything.

use std::process::ExitCode;

use anyhow::{Result, bail};
use xtask::commands;

const USAGE: &str = "\
cargo xtask COMMAND

  dev [ARGS]              build everything, then `bursar dev ARGS` (try: dev, dev tour)
  check                   format, lints, tests, pages, rules of the house; before a commit
  check --quick           only format and rules of the house: seconds, for a git hook
  fix                     format, and apply the lints that can be applied
  ci                      what CI runs: the same, cheap first, then `dev tour`
  bench NAME [--strict]   measure; with --strict a missed target is a failure
  findings [PART...]      run real traces through the simulator, and write docs/findings.md
  mutants                 plant mistakes in the planner and the ledger: does a law find each?
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["dev", ..] => commands::dev(&arguments[1..]),
        ["check"] => commands::check(),
        ["check", "--quick"] => commands::check_quickly(),
        ["fix"] => commands::fix(),
        ["ci"] => commands::ci(),
        ["mutants"] => commands::mutants(),
        ["findings", ..] => commands::findings(&arguments[1..]),
        ["bench", name] => commands::bench(name, false),
        ["bench", name, "--strict"] | ["bench", "--strict", name] => commands::bench(name, true),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("unknown command `{}`\n\n{USAGE}", words.join(" ")),
    }
}
