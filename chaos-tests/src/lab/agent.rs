//! One node of a lab: an agent with simulated GPUs.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::parts::Parts;
use super::process::Process;

/// A node's agent: its folder stays, its process comes and goes.
#[derive(Debug)]
pub struct Agent {
    /// The node's name.
    pub name: String,
    /// Its data directory.
    pub data: PathBuf,
    /// Its process, while it runs.
    pub process: Option<Process>,
    /// The file with the token to join with.
    pub token: PathBuf,
    servers: String,
    config: PathBuf,
    nvml_state: PathBuf,
    log: PathBuf,
}

impl Agent {
    /// Prepares node number `n` with `gpus` GPUs in `folder`.
    ///
    /// # Errors
    /// When its files cannot be written.
    pub fn prepare(folder: &Path, n: u32, gpus: u32, servers: &str) -> Result<Self> {
        let name = format!("node-{n:02}");
        let nvml_state = folder.join(format!("{name}.gpus.json"));
        // Another lab's, so that a process which one left behind is on none of these GPUs.
        let lab = of_lab(folder);
        let gpu = |i: u32| {
            json!({
                "uuid": format!("GPU-{lab:08x}-{n:04x}-4000-8000-{i:012x}"),
                "serial": format!("{n:06}{i:04}"),
                "pci_bus_id": format!("00000000:{:02X}:00.0", i + 1),
                "minor": i,
            })
        };
        let state = json!({ "gpus": (0..gpus).map(gpu).collect::<Vec<_>>() });
        fs::write(&nvml_state, state.to_string()).context("failed to write a node's GPUs")?;
        // No law waits a minute for what cannot be ended.
        let config = folder.join(format!("{name}.toml"));
        fs::write(&config, "unkillable_after = '3s'\n").context("failed to write a node's configuration")?;
        Ok(Self {
            config,
            data: folder.join(&name),
            process: None,
            token: folder.join(format!("{name}.token")),
            servers: servers.to_owned(),
            nvml_state,
            log: folder.join(format!("{name}.log")),
            name,
        })
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, parts: &Parts) -> Result<()> {
        self.process = Some(self.spawn(parts)?);
        Ok(())
    }

    /// Starts another process of it, whatever becomes of that one.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, parts: &Parts) -> Result<Process> {
        self.spawn_to(parts, &self.servers)
    }

    /// Starts another process of it that speaks to other replicas.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn_to(&self, parts: &Parts, servers: &str) -> Result<Process> {
        let mut command = Command::new(&parts.bursar);
        command
            .arg("agent")
            .arg("-c")
            .arg(&self.config)
            .arg("--data")
            .arg(&self.data)
            .args(["--server", servers, "--name", &self.name]);
        command.arg("--join-token-file").arg(&self.token);
        command
            .arg("--nvml")
            .arg(&parts.nvml)
            .arg("--shim")
            .arg(&parts.shim)
            .args(["--address", "127.0.0.1"]);
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-root-jobs");
        }
        command.env("BURSAR_FAKE_NVML_STATE", &self.nvml_state).env("BURSAR_LOG", "info");
        Process::start(command, &self.log)
    }

    /// Puts a process on a GPU that no job has to do with, or takes it off again.
    ///
    /// # Errors
    /// When that cannot be written.
    ///
    /// # Panics
    /// When there is no such GPU.
    pub fn occupy(&self, slot: usize, pid: Option<u32>) -> Result<()> {
        let text = fs::read(&self.nvml_state).context("failed to read a node's GPUs")?;
        let mut state: Value = serde_json::from_slice(&text).context("a node's GPUs are no JSON")?;
        let processes: Vec<Value> =
            pid.into_iter().map(|pid| json!({ "pid": pid, "memory": 1 << 30 })).collect();
        state["gpus"][slot]["processes"] = processes.into();
        let fresh = self.nvml_state.with_extension("new");
        fs::write(&fresh, state.to_string()).context("failed to write a node's GPUs")?;
        fs::rename(&fresh, &self.nvml_state).context("failed to replace a node's GPUs")
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

    /// Returns its process's number while it runs.
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(Process::pid)
    }
}

/// Returns a number that differs from lab to lab: their folders have random names.
fn of_lab(folder: &Path) -> u32 {
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    let hash = hasher.finish().to_le_bytes();
    u32::from_le_bytes([hash[0], hash[1], hash[2], hash[3]])
}
