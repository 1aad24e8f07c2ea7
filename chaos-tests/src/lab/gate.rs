//! Jobs that say who they are, and end when they are told to.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::proc::{Identity, identity};
use super::wait::until;
use crate::work::whole_lines;

/// What a job of a gate wrote about itself when it started: one line an attempt, in a file that no fault touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The job's number.
    pub job: u32,
    /// The attempt's.
    pub attempt: u32,
    /// Its process's.
    pub pid: i32,
}

/// A pipe that a job reads its exit code from. The job sleeps in the kernel until then, so many cost nothing.
#[derive(Debug)]
pub struct Gate {
    pipe: PathBuf,
    journal: PathBuf,
}

impl Gate {
    /// Makes one in `folder`; `name` is this gate's alone.
    ///
    /// # Errors
    /// When the pipe cannot be made.
    pub fn new(folder: &Path, name: &str) -> Result<Self> {
        let (pipe, journal) = (folder.join(format!("{name}.gate")), folder.join(format!("{name}.journal")));
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .with_context(|| format!("failed to make {}", pipe.display()))?;
        fs::write(&journal, "").context("failed to make a journal")?;
        Ok(Self { pipe, journal })
    }

    /// Returns the command of a job behind it: it writes its line, waits, and ends with the code it reads.
    pub fn command(&self) -> Vec<String> {
        let script = "echo \"$BURSAR_JOB_ID $BURSAR_ATTEMPT $$\" >> \"$2\"; echo at the gate; \
                      read code < \"$1\"; echo \"ends with $code\"; exit \"$code\"";
        let paths = [&self.pipe, &self.journal].map(|path| path.display().to_string());
        let mut command: Vec<String> = ["/bin/sh", "-c", script, "job"].map(String::from).to_vec();
        command.extend(paths);
        command
    }

    /// Returns every start there was.
    ///
    /// # Panics
    /// When the journal is not as jobs write it.
    pub fn runs(&self) -> Vec<Run> {
        let text = fs::read_to_string(&self.journal).expect("the journal is ours and stays");
        let run = |line: &str| {
            let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>().expect("a number"));
            let mut next = || numbers.next().expect("three numbers");
            Run { job: next(), attempt: next(), pid: i32::try_from(next()).expect("a process's number") }
        };
        whole_lines(&text).map(run).collect()
    }

    /// Waits until the job's process runs, and returns which one it is.
    pub fn running(&self) -> Identity {
        until("a job runs", || identity(self.runs().last()?.pid))
    }

    /// Returns whether the job's process has started.
    pub fn has_run(&self) -> bool {
        !self.runs().is_empty()
    }

    /// Lets the job end with this code, once it waits.
    pub fn open(&self, code: u8) {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag of open");
        until("a job waits at its gate", || {
            let mut pipe = OpenOptions::new().write(true).custom_flags(flags).open(&self.pipe).ok()?;
            let written: io::Result<()> = writeln!(pipe, "{code}");
            written.ok()
        });
    }
}
