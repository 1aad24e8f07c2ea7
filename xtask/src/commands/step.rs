//! Steps that are timed, streamed, counted and summed up.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::NOT_AVAILABLE;
use crate::rules::Finding;

/// One step: its name and what it does.
pub struct Step<'a> {
    name: &'a str,
    work: Work<'a>,
    is_shown: bool,
}

enum Work<'a> {
    Run(Box<dyn FnOnce() -> Result<Command> + 'a>),
    Look(Box<dyn FnOnce() -> Result<Vec<Finding>> + 'a>),
}

impl<'a> Step<'a> {
    /// Returns a step that runs the command made by `make`.
    pub fn run(name: &'a str, make: impl FnOnce() -> Result<Command> + 'a) -> Self {
        Self { name, work: Work::Run(Box::new(make)), is_shown: true }
    }

    /// Returns a step that looks for findings and passes without any.
    pub fn look(name: &'a str, look: impl FnOnce() -> Result<Vec<Finding>> + 'a) -> Self {
        Self { name, work: Work::Look(Box::new(look)), is_shown: true }
    }

    /// Returns the same step with the output of its command read and counted, but not passed on.
    pub fn hidden(mut self) -> Self {
        self.is_shown = false;
        self
    }
}

/// What was done, how long it took, and what could not be done here.
#[derive(Debug, Default)]
pub struct Report {
    done: Vec<(String, Duration, bool)>,
    left_out: Vec<String>,
    not_available: usize,
}

impl Report {
    /// Does the steps in order until one fails, and names those left out.
    pub fn of<'a>(steps: impl IntoIterator<Item = Step<'a>>) -> Self {
        let mut report = Self::default();
        for step in steps {
            if report.passed() {
                report.take(step);
            } else {
                report.left_out.push(step.name.into());
            }
        }
        report
    }

    /// Returns whether everything done so far passed.
    pub fn passed(&self) -> bool {
        self.done.iter().all(|(_, _, passed)| *passed)
    }

    /// Returns how many tests said that they cannot run on this machine.
    pub fn not_available(&self) -> usize {
        self.not_available
    }

    fn take(&mut self, step: Step<'_>) {
        println!("==> {}", step.name);
        let began = Instant::now();
        let outcome = match step.work {
            Work::Run(make) => make().and_then(|command| self.stream(command, step.is_shown)),
            Work::Look(look) => look().map(|findings| print_findings(&findings)),
        };
        let passed = outcome.unwrap_or_else(|e| {
            println!("{}: {e:#}", step.name);
            false
        });
        self.done.push((step.name.into(), began.elapsed(), passed));
    }

    /// Runs `command`, passes its output on line by line, and counts what it says is not available.
    fn stream(&mut self, mut command: Command, is_shown: bool) -> Result<bool> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {program}"))?;
        let out = child.stdout.take().context("the step's output is not piped")?;
        let err = child.stderr.take().context("the step's messages are not piped")?;
        let shown: [Box<dyn Write + Send>; 2] = match is_shown {
            true => [Box::new(std::io::stdout()), Box::new(std::io::stderr())],
            false => [Box::new(std::io::sink()), Box::new(std::io::sink())],
        };
        let [shown_out, shown_err] = shown;
        let counted = std::thread::scope(|scope| {
            let out = scope.spawn(|| pass_on(out, shown_out));
            let err = scope.spawn(|| pass_on(err, shown_err));
            [out, err].into_iter().map(|reader| reader.join().unwrap_or(Ok(0))).sum::<Result<usize>>()
        })?;
        self.not_available += counted;
        Ok(child.wait().with_context(|| format!("failed to wait for {program}"))?.success())
    }

    /// Returns the closing table; its last line counts what could not run here.
    pub fn summary(&self) -> String {
        let mut text = String::from("\n");
        for (name, took, passed) in &self.done {
            let seconds = took.as_secs();
            let verdict = if *passed { "ok" } else { "FAILED" };
            let _ = writeln!(text, "{name:<14} {:>3} min {:02} s  {verdict}", seconds / 60, seconds % 60);
        }
        for name in &self.left_out {
            let _ = writeln!(text, "{name:<14}               not run");
        }
        let seconds = self.done.iter().map(|(_, took, _)| *took).sum::<Duration>().as_secs();
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        let not_available = self.not_available;
        let _ = writeln!(
            text,
            "{verdict} in {} min {:02} s; {not_available} checks were not available on this machine",
            seconds / 60,
            seconds % 60,
        );
        text
    }
}

fn print_findings(findings: &[Finding]) -> bool {
    for finding in findings {
        println!("{finding}");
    }
    findings.is_empty()
}

fn pass_on(from: impl Read, mut to: impl Write) -> Result<usize> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut counted = 0;
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line).context("failed to read a step's output")? == 0 {
            return Ok(counted);
        }
        if String::from_utf8_lossy(&line).contains(NOT_AVAILABLE) {
            counted += 1;
        }
        to.write_all(&line).and_then(|()| to.flush()).context("failed to pass a step's output on")?;
    }
}
