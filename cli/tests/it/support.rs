//! A development cluster as a person starts it, and the processes of its tree.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

/// How long whatever is waited for may take, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(240);
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until there is something.
///
/// # Panics
/// When it does not come.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited {} s for {what}", PATIENCE.as_secs());
        std::thread::sleep(PAUSE);
    }
}

/// A process that is not taken for a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    start: u64,
    parent: i32,
}

impl Process {
    /// Returns a process that runs.
    pub fn of(pid: i32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let (parent, start) = (fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?);
        (*fields.first()? != "Z").then_some(Self { pid, start, parent })
    }

    pub fn is_alive(self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.start == self.start)
    }

    /// Ends it, if it is still the same.
    pub fn kill(self) {
        if let Some(pid) = Pid::from_raw(self.pid).filter(|_| self.is_alive()) {
            // Gone meanwhile is as good.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A development cluster with folders of its own for contexts and temporary files.
pub struct Dev {
    child: Child,
    home: PathBuf,
    seen: BTreeSet<Process>,
}

impl Dev {
    /// Starts one of one node, in a process group of its own, as a shell does with what is typed.
    pub fn start(home: &Path) -> Self {
        let temporary = home.join("t");
        fs::create_dir_all(&temporary).expect("a folder");
        let log = fs::OpenOptions::new().create(true).append(true).open(home.join("dev.log")).expect("a log");
        let mut command = command(home);
        command.args(["dev", "--nodes", "1", "--gpus", "4", "--shim"]).arg(xtask::built::shim());
        command.arg("--fake-nvml").arg(xtask::built::fake_nvml()).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        let child = command.spawn().expect("bursar starts");
        Self { child, home: home.to_owned(), seen: BTreeSet::new() }
    }

    /// Starts one and waits until it is up.
    pub fn up(home: &Path) -> Self {
        let mut dev = Self::start(home);
        until("the development cluster to be up", || {
            assert!(dev.child.try_wait().expect("ours").is_none(), "it ended: {}", dev.log());
            (dev.json(&["dev", "status"])["ready"] == true).then_some(())
        });
        until("its context", || dev.run(&["context", "list", "-o", "name"]).contains("dev").then_some(()));
        dev
    }

    /// Runs `bursar` beside it and returns its output, whatever came of it.
    pub fn run(&self, args: &[&str]) -> String {
        let output = command(&self.home).args(args).stdin(Stdio::null()).output().expect("bursar runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs `bursar` beside it and returns its output as JSON; null if it is none.
    pub fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[&["-o", "json"], args].concat())).unwrap_or(Value::Null)
    }

    /// Submits a job whose process writes its number to a file, and returns that process once it runs.
    pub fn job(&self, name: &str, rest: &str) -> Process {
        let file = self.home.join(name);
        let script = format!("echo $$ > {0}.new; mv {0}.new {0}; {rest}", file.display());
        let terms = ["submit", "--budget", "science/agents", "--gpus", "1", "--min-runtime", "10m"];
        self.run(&[&terms[..], &["--", "/bin/sh", "-c", &script]].concat());
        until("the job to run", || Process::of(fs::read_to_string(&file).ok()?.trim().parse().ok()?))
    }

    /// Returns it and all that descends from it now.
    pub fn processes(&mut self) -> BTreeSet<Process> {
        let us = Process::of(self.pid()).expect("it runs");
        let mut tree = BTreeSet::from([us]);
        let entries = fs::read_dir("/proc").expect("processes are shown").flatten();
        let all: Vec<Process> =
            entries.filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?)).collect();
        loop {
            let born: Vec<&Process> = all
                .iter()
                .filter(|one| !tree.contains(one) && tree.iter().any(|above| above.pid == one.parent))
                .collect();
            if born.is_empty() {
                break;
            }
            tree.extend(born);
        }
        self.seen.extend(&tree);
        tree
    }

    /// What a Ctrl-C in its terminal does: INT to its whole process group.
    pub fn press_ctrl_c(&self) {
        let group = Pid::from_raw(self.pid()).expect("a pid");
        kill_process_group(group, Signal::INT).expect("it runs");
    }

    /// Ends only itself, without a word.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.wait();
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        until("dev to end", || self.child.try_wait().expect("ours"))
    }

    /// Returns what lies in its folder for temporary files.
    pub fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.home.join("t")).expect("it is there").flatten();
        entries.map(|entry| entry.path()).collect()
    }

    /// Returns what it said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.join("dev.log")).unwrap_or_default()
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Only what this test started and saw.
        if matches!(self.child.try_wait(), Ok(None)) {
            self.processes();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.seen.iter().for_each(|process| process.kill());
    }
}

fn command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bursar"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BURSAR_")) {
        command.env_remove(name);
    }
    command.env("XDG_CONFIG_HOME", home).env("TMPDIR", home.join("t")).env("NO_COLOR", "1");
    command.current_dir(home);
    command
}
