//! `check` before a commit (`--quick` as its hook), `fix` for what a machine can mend, `ci` for everything.

use std::process::Command;

use anyhow::{Result, ensure};

use super::step::{Report, Step};
use super::{dependencies, dev, layers, tidy};
use crate::built::cargo;

/// Checks format, lints, tests, pages and the rules of the house. Writes nothing but build output.
///
/// # Errors
///
/// When a check fails.
pub fn check() -> Result<()> {
    conclude(&Report::of([rules(), vec![format(), lints(), tests(), pages()]].into_iter().flatten()))
}

/// Checks only the rules of the house and the format: seconds, as a git hook wants it.
///
/// # Errors
///
/// When a check fails.
pub fn check_quickly() -> Result<()> {
    conclude(&Report::of([rules(), vec![format()]].into_iter().flatten()))
}

/// Does what CI does: the cheap checks first, then every test, then a real cluster on a tour.
///
/// # Errors
///
/// When a check fails.
pub fn ci() -> Result<()> {
    let tour = Step::run("dev tour", || dev::command(&["tour".into()]));
    let steps = [rules(), vec![format(), lints(), pages(), tests(), tour]];
    conclude(&Report::of(steps.into_iter().flatten()))
}

/// Formats and applies what clippy can apply itself.
///
/// # Errors
///
/// When a step fails.
pub fn fix() -> Result<()> {
    let lints = ["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"];
    conclude(&Report::of([
        Step::run("clippy --fix", move || Ok(cargo_with(&lints))),
        Step::run("fmt", || Ok(cargo_with(&["fmt", "--all"]))),
    ]))
}

fn rules<'a>() -> Vec<Step<'a>> {
    vec![Step::look("tidy", tidy), Step::look("layers", layers), Step::look("dependencies", dependencies)]
}

fn format<'a>() -> Step<'a> {
    Step::run("fmt", || Ok(cargo_with(&["fmt", "--all", "--check"])))
}

fn lints<'a>() -> Step<'a> {
    let arguments = ["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"];
    Step::run("clippy", move || Ok(cargo_with(&arguments)))
}

/// The tests, by exactly the command that the README shows.
fn tests<'a>() -> Step<'a> {
    Step::run("test", || Ok(cargo_with(&["test", "--workspace"])))
}

fn pages<'a>() -> Step<'a> {
    Step::run("doc", || {
        let mut command = cargo_with(&["doc", "--locked", "--workspace", "--no-deps"]);
        command.env("RUSTDOCFLAGS", "-D warnings");
        Ok(command)
    })
}

fn cargo_with(arguments: &[&str]) -> Command {
    let mut command = cargo();
    command.args(arguments);
    command
}

fn conclude(report: &Report) -> Result<()> {
    print!("{}", report.summary());
    ensure!(report.passed(), "a step failed");
    Ok(())
}
