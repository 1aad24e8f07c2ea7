//! One process of a lab.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal};

use super::wait::{DEADLINE, try_until};

/// A child, with what it writes in a file. It is killed when dropped, and when the thread that started it ends.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts it; stdout and stderr are added to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(mut command: Command, log: &Path) -> Result<Self> {
        let out = OpenOptions::new().create(true).append(true).open(log);
        let out: File = out.with_context(|| format!("failed to open {}", log.display()))?;
        let err = out.try_clone().context("failed to share the log")?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        end_with_us(&mut command);
        let child = command.spawn().with_context(|| format!("failed to start {command:?}"))?;
        Ok(Self { child, log: log.to_owned(), ended: None })
    }

    /// Returns its number.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("Linux has no larger process numbers")
    }

    /// Returns how it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Kills it at once, and waits until it is gone.
    pub fn kill(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    /// Asks it to end, and returns how it did.
    ///
    /// # Panics
    /// When it does not end.
    pub fn stop(&mut self) -> ExitStatus {
        if self.ended().is_none() {
            send(self.pid(), Signal::TERM);
        }
        self.wait_end()
    }

    /// Waits until it has ended by itself.
    ///
    /// # Panics
    /// When it does not end.
    pub fn wait_end(&mut self) -> ExitStatus {
        let ended = try_until(DEADLINE, || self.ended());
        ended.unwrap_or_else(|| panic!("process {} does not end; its log:\n{}", self.pid(), self.log_tail()))
    }

    /// Returns the last lines it wrote.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Has the kernel kill it when the thread that starts it is gone: nobody else would, were this process killed.
fn end_with_us(command: &mut Command) {
    let ask = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only this one system call is made; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

/// Sends a signal to one process; one that is gone already needs none.
pub fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Kills one process.
pub fn kill(pid: i32) {
    send(pid, Signal::KILL);
}
