//! The guide: a development cluster of its own, and `bursar` as people call it, as child processes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::super::args::Args;
use super::super::processes::{Identity, descendants, identify, signal};
use super::super::state::{PartState, State};
use crate::clock::Deadline;
use crate::codes;
use crate::failure::Failure;

/// How long the cluster may take to come up, also on a machine that is busy.
const UP_WITHIN: Duration = Duration::from_secs(240);
/// How long whatever is waited for may take.
pub const SOON: Duration = Duration::from_secs(240);

/// What a command said.
#[derive(Debug)]
pub struct Said {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Its data.
    pub out: String,
    /// Its talk.
    pub err: String,
}

impl Said {
    /// Returns its exit code as a word.
    pub fn exit(&self) -> String {
        self.code.map_or_else(|| "none".into(), |code| code.to_string())
    }

    /// Returns its data as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or(Value::Null)
    }

    /// Returns its data if it went well.
    ///
    /// # Errors
    /// With what it said.
    pub fn well(self) -> Result<Self, String> {
        if self.code == Some(0) {
            Ok(self)
        } else {
            Err(format!("exit code {}: {}", self.exit(), self.err.trim()))
        }
    }
}

/// A development cluster, its folder, and where commands run.
#[derive(Debug)]
pub struct Guide {
    dev: Child,
    home: PathBuf,
    work: PathBuf,
    state_file: PathBuf,
    /// GPUs on each node.
    pub gpus: u32,
    /// Rounds of killing the leader.
    pub rounds: u32,
}

impl Guide {
    /// Starts a cluster of its own, whose contexts are apart from the user's.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(args: &Args, rounds: u32) -> Result<Self, Failure> {
        let failed = |what: String| Failure::new(codes::DEV_FAILED, what);
        let home = std::env::temp_dir()
            .join(format!("bursar-tour-{:016x}", u64::from_le_bytes(crate::client::random()?)));
        let work = home.join("work");
        std::fs::create_dir_all(&work)
            .map_err(|error| failed(format!("cannot make {}: {error}", work.display())))?;
        let (nodes, gpus) = (args.nodes.min(2), args.gpus.min(4));
        let mut command = bursar(&home, &work).map_err(|error| failed(error.to_string()))?;
        command.arg("dev").args(["--nodes", &nodes.to_string(), "--gpus", &gpus.to_string()]);
        for (flag, path) in [("--shim", &args.shim), ("--fake-nvml", &args.fake_nvml)] {
            if let Some(path) = path {
                command.arg(flag).arg(std::path::absolute(path).unwrap_or(path.clone()));
            }
        }
        if args.keep {
            command.arg("--keep");
        }
        let log = std::fs::File::create(home.join("dev.log")).map_err(|error| failed(error.to_string()))?;
        let out = log.try_clone().map_err(|error| failed(error.to_string()))?;
        let dev = command.stdin(Stdio::null()).stdout(out).stderr(log).spawn();
        let dev = dev.map_err(|error| failed(error.to_string()))?;
        let mut guide = Self { dev, home, work, state_file: PathBuf::new(), gpus, rounds };
        guide.until_up().map_err(failed)?;
        Ok(guide)
    }

    fn until_up(&mut self) -> Result<(), String> {
        let deadline = Deadline::after(UP_WITHIN);
        while !deadline.is_over() {
            if let Ok(Some(status)) = self.dev.try_wait() {
                let log = std::fs::read_to_string(self.home.join("dev.log")).unwrap_or_default();
                return Err(format!("dev ended ({status}): {}", log.trim()));
            }
            let folder = std::fs::read_to_string(self.home.join("bursar/dev.lock")).unwrap_or_default();
            self.state_file = Path::new(folder.trim()).join("state.json");
            let has_context = || self.run(&["context", "list", "-o", "name"]).out.contains("dev");
            if State::read(&self.state_file).is_some_and(|state| state.ready) && has_context() {
                return Ok(());
            }
            sleep(Duration::from_millis(200));
        }
        Err("dev did not come up in time".into())
    }

    /// Runs `bursar` to its end.
    pub fn run(&self, args: &[&str]) -> Said {
        self.run_with(args, &[])
    }

    /// Runs `bursar` to its end as somebody else of the lab.
    pub fn run_as(&self, name: &str, args: &[&str]) -> Said {
        let token = self.folder().join("tokens").join(name);
        self.run_with(args, &[("BURSAR_TOKEN_FILE", token.to_str().unwrap_or_default())])
    }

    /// Runs `bursar` to its end with more in its environment.
    pub fn run_with(&self, args: &[&str], environment: &[(&str, &str)]) -> Said {
        let command = bursar(&self.home, &self.work);
        let output = command.and_then(|mut command| {
            command.args(args).envs(environment.iter().copied()).stdin(Stdio::null()).output()
        });
        said(output)
    }

    /// Returns a command of `bursar` that is still to be run.
    ///
    /// # Errors
    /// When our own program cannot be found.
    pub fn command(&self, args: &[&str]) -> Result<Command, String> {
        let mut command = bursar(&self.home, &self.work).map_err(|error| error.to_string())?;
        command.args(args);
        Ok(command)
    }

    /// Submits, and returns the job's number.
    ///
    /// # Errors
    /// When it is refused.
    pub fn submit(&self, args: &[&str]) -> Result<u64, String> {
        let all: Vec<&str> = ["-o", "json", "submit"].iter().chain(args).copied().collect();
        let receipt = self.run(&all).well()?.json();
        receipt["job"].as_u64().ok_or_else(|| format!("no number in the receipt: {receipt}"))
    }

    /// Returns a job as JSON.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn job(&self, job: u64) -> Result<Value, String> {
        Ok(self.run(&["-o", "json", "job", "show", &job.to_string()]).well()?.json())
    }

    /// Returns the exit code of `job wait`.
    pub fn wait(&self, job: u64) -> Said {
        self.run(&["job", "wait", &job.to_string(), "--timeout", "240s"])
    }

    /// Waits for something, and says what did not come.
    ///
    /// # Errors
    /// When it did not come soon.
    pub fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
        let deadline = Deadline::after(SOON);
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if deadline.is_over() {
                return Err(format!("waited {} s for {what}", SOON.as_secs()));
            }
            sleep(Duration::from_millis(100));
        }
    }

    /// Submits a script that writes its pid to a file of that name, and returns the job and its process.
    ///
    /// # Errors
    /// When it does not start.
    pub fn started(&self, name: &str, rest: &str, flags: &[&str]) -> Result<(u64, Identity), String> {
        let script = format!("echo $$ > {name}.pid.new; mv {name}.pid.new {name}.pid; {rest}");
        let args: Vec<&str> =
            flags.iter().copied().chain(["--name", name, "--", "/bin/sh", "-c", &script]).collect();
        let job = self.submit(&args)?;
        let file = self.work.join(format!("{name}.pid"));
        let process = self.until(&format!("job {job} to start"), || {
            identify(std::fs::read_to_string(&file).ok()?.trim().parse().ok()?)
        })?;
        Ok((job, process))
    }

    /// Makes a file in the working folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        std::fs::write(self.work.join(name), text).map_err(|error| format!("{name}: {error}"))
    }

    /// Returns what runs.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn state(&self) -> Result<State, String> {
        State::read(&self.state_file).ok_or_else(|| "the state file cannot be read".into())
    }

    /// Returns the addresses of the replicas.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn addresses(&self) -> Result<Vec<String>, String> {
        Ok(self.state()?.replicas.into_iter().filter_map(|replica| replica.address).collect())
    }

    /// Waits until every part runs, a leader is there, and all nodes are ready.
    ///
    /// # Errors
    /// When that does not come.
    pub fn until_whole(&self) -> Result<(), String> {
        self.until("all parts to run", || {
            let state = self.state().ok()?;
            let runs = |part: &PartState| part.process.is_some();
            state.replicas.iter().chain(&state.agents).all(runs).then_some(())
        })?;
        self.until("a leader, and nodes that are ready", || {
            let nodes = self.run(&["-o", "json", "--patience", "2s", "node", "list"]).well().ok()?.json();
            let nodes = nodes["nodes"].as_array()?.clone();
            nodes.iter().all(|node| node["state"] == "ready").then_some(())
        })
    }

    /// Returns the folder of the cluster.
    pub fn folder(&self) -> PathBuf {
        self.state_file.parent().unwrap_or_else(|| Path::new("/")).to_path_buf()
    }

    /// Returns the folder where commands run.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Returns every process of the cluster.
    pub fn processes(&self) -> Vec<Identity> {
        let dev = self.pid();
        identify(dev).into_iter().chain(descendants(dev)).collect()
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.dev.id()).unwrap_or(-1)
    }

    /// Asks the cluster to end; returns its exit code and what it said at last.
    ///
    /// # Errors
    /// When it does not end.
    pub fn end(&mut self) -> Result<(Option<i32>, String), String> {
        if let Some(dev) = identify(self.pid()) {
            signal(dev, Signal::TERM);
        }
        let deadline = Deadline::after(SOON);
        while !deadline.is_over() {
            if let Ok(Some(status)) = self.dev.try_wait() {
                let log = std::fs::read_to_string(self.home.join("dev.log")).unwrap_or_default();
                let said = if status.success() { String::new() } else { format!(": {}", log.trim()) };
                return Ok((status.code(), said));
            }
            sleep(Duration::from_millis(100));
        }
        Err("dev does not end".into())
    }
}

impl Drop for Guide {
    fn drop(&mut self) {
        if self.dev.try_wait().is_ok_and(|status| status.is_none()) {
            // Reported already, or on the way out of a failure: what matters is that it ends.
            let _ = self.end();
        }
        let _ = std::fs::remove_dir_all(&self.home);
    }
}

fn bursar(home: &Path, work: &Path) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("BURSAR_")) {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", home).env("NO_COLOR", "1").current_dir(work);
    Ok(command)
}

fn said(output: std::io::Result<Output>) -> Said {
    match output {
        Ok(output) => Said {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        },
        Err(error) => Said { code: None, out: String::new(), err: error.to_string() },
    }
}
