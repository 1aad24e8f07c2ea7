//! A part of a development cluster: one child process, started again where it should run.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::Signal;
use tokio::process::{Child, Command};

use super::processes::{Identity, identify, signal};
use super::state::PartState;
use crate::codes;
use crate::failure::Failure;

/// A part.
#[derive(Debug)]
pub struct Part {
    /// `r1`, `node-01`.
    pub name: String,
    /// Arguments of our own program.
    pub arguments: Vec<OsString>,
    /// Added to our environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Its log.
    pub log: PathBuf,
    /// A replica's addresses, once known.
    pub address: Option<String>,
    /// A replica's address for the others, once known.
    pub peer: Option<String>,
    /// Whether it is to run.
    pub is_wanted: bool,
    starts: u32,
    child: Option<(Child, Identity)>,
}

impl Part {
    /// Makes a part that does not run yet.
    pub fn new(name: &str, arguments: Vec<OsString>, log: PathBuf) -> Self {
        let (name, environment) = (name.to_string(), Vec::new());
        Self {
            name,
            arguments,
            environment,
            log,
            address: None,
            peer: None,
            is_wanted: true,
            starts: 0,
            child: None,
        }
    }

    /// Starts it. It has its own process group: a Ctrl-C on the terminal reaches the supervisor only.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self) -> Result<(), Failure> {
        let failed = |name: &str, error: std::io::Error| {
            Failure::new(codes::DEV_FAILED, format!("cannot start {name}")).why(error.to_string())
        };
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|error| failed(&self.name, error))?;
        let out = log.try_clone().map_err(|error| failed(&self.name, error))?;
        let us = std::env::current_exe().map_err(|error| failed(&self.name, error))?;
        let mut command = Command::new(us);
        // A context of the user's must not reach the parts.
        for name in ["BURSAR_SERVER", "BURSAR_TOKEN", "BURSAR_TOKEN_FILE", "BURSAR_CONTEXT", "BURSAR_OUTPUT"]
        {
            command.env_remove(name);
        }
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(log)
            .process_group(0);
        let child = command.spawn().map_err(|error| failed(&self.name, error))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
        // A child that ended at once is seen as ended by the supervisor.
        let identity = identify(pid).unwrap_or(Identity { pid, start: 0 });
        self.starts += 1;
        self.child = Some((child, identity));
        Ok(())
    }

    /// Returns its process while it runs.
    pub fn process(&self) -> Option<Identity> {
        self.child.as_ref().map(|(_, identity)| *identity)
    }

    /// Returns whether it has ended since it was last looked at, and how.
    pub fn has_ended(&mut self) -> Option<String> {
        let (child, _) = self.child.as_mut()?;
        let status = match child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        self.child = None;
        Some(status)
    }

    /// Sends it a signal; returns whether it got it.
    pub fn signal(&self, which: Signal) -> bool {
        self.process().is_some_and(|who| signal(who, which))
    }

    /// Returns what is shown of it.
    pub fn state(&self) -> PartState {
        PartState {
            name: self.name.clone(),
            process: self.process(),
            starts: self.starts,
            address: self.address.clone(),
            log: self.log.display().to_string(),
        }
    }
}
