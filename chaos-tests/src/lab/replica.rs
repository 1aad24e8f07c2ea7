//! One replica of a lab.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::machine::Machine;
use super::parts::Parts;
use super::plan::Plan;
use super::process::Process;
use super::wait::until;

/// One replica: its folder stays, its process comes and goes.
#[derive(Debug)]
pub struct Replica {
    /// Its place among the founders, from 1.
    pub id: u64,
    /// Its data directory.
    pub data: PathBuf,
    /// Its address for clients and agents, once it has listened.
    pub client: String,
    /// Its address for other replicas, once it has listened.
    pub peer: String,
    /// Its process, while it runs.
    pub process: Option<Process>,
    /// The machine it runs on from its next start; this one if none.
    pub machine: Option<Machine>,
    /// Variables that its processes get from now on.
    pub environment: Vec<(String, OsString)>,
    config: PathBuf,
    log: PathBuf,
    keys: String,
}

impl Replica {
    /// Prepares one in `folder`.
    ///
    /// # Errors
    /// When its files cannot be written.
    pub fn prepare(folder: &Path, id: u64, data: PathBuf, secret: &Path, plan: &Plan) -> Result<Self> {
        let config = folder.join(format!("r{id}.toml"));
        let t = plan.timing;
        let keys = format!(
            "data = '{}'\npeer_secret_file = '{}'\nheartbeat_ms = {}\nelection_min_ms = {}\n\
             election_max_ms = {}\n{}\n",
            data.display(),
            secret.display(),
            t.heartbeat_ms,
            t.election_min_ms,
            t.election_max_ms,
            plan.server_keys.join("\n"),
        );
        let log = folder.join(format!("r{id}.log"));
        let (any, environment) = ("127.0.0.1:0".to_owned(), Vec::new());
        Ok(Self {
            id,
            data,
            client: any.clone(),
            peer: any,
            process: None,
            environment,
            machine: None,
            config,
            log,
            keys,
        })
    }

    /// Starts it, at the addresses it had before if it had any, and waits until it listens.
    ///
    /// # Errors
    /// When it cannot be started.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(&mut self, parts: &Parts) -> Result<()> {
        let refusal = self.try_start(parts)?;
        assert!(refusal.is_none(), "a replica ended:\n{}", refusal.unwrap_or_default());
        Ok(())
    }

    /// Starts it like [`Replica::start`]; if it ends before it listens, returns the last lines that it wrote.
    ///
    /// # Errors
    /// When it cannot be started.
    ///
    /// # Panics
    /// When it neither listens nor ends.
    pub fn try_start(&mut self, parts: &Parts) -> Result<Option<String>> {
        let addresses = self.data.join("addresses");
        let _ = fs::remove_file(&addresses);
        let mut process = self.spawn(parts)?;
        let text = until("a replica listens", || match process.ended() {
            Some(_) => Some(Err(process.log_tail())),
            None => fs::read(&addresses).ok().map(Ok),
        });
        let text = match text {
            Ok(text) => text,
            Err(tail) => return Ok(Some(tail)),
        };
        self.process = Some(process);
        let said: Value = serde_json::from_slice(&text).context("failed to read the addresses")?;
        let address = |key: &str| said[key].as_str().map(String::from).context("an address is missing");
        (self.client, self.peer) = (address("client")?, address("peer")?);
        Ok(None)
    }

    /// Returns all that its processes ever wrote to their log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Starts another process of it, whatever becomes of that one.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, parts: &Parts) -> Result<Process> {
        let text = format!("{}listen = '{}'\npeer_listen = '{}'\n", self.keys, self.client, self.peer);
        fs::write(&self.config, text).context("failed to write a replica's configuration")?;
        let mut command = match &self.machine {
            Some(machine) => machine.command(&parts.bursar)?,
            None => Command::new(&parts.bursar),
        };
        command.args(["server", "-c"]).arg(&self.config).env("BURSAR_LOG", "info");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Process::start(command, &self.log)
    }

    /// Returns the last line that its process wrote, if that has ended by itself.
    pub fn last_words(&mut self) -> Option<String> {
        let process = self.process.as_mut()?;
        process.ended()?;
        Some(format!("replica {} ended: {}", self.id, process.log_tail().lines().last().unwrap_or_default()))
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Asks it to end and waits.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.stop();
        }
    }

    /// Returns the file that it is started with.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Returns its process's number while it runs.
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(Process::pid)
    }
}
