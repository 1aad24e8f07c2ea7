//! An attempt directory and the shim that cargo built with this test.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use shim::files::{self, Readers};
use shim::format::{self, Exit, Phase, Record, Saves, Spec, Stop};
use shim::procs::{self, Attempt};
use tempfile::TempDir;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Case {
    directory: TempDir,
    pub(crate) spec: Spec,
}

impl Case {
    /// Makes an attempt that runs `script` with `/bin/sh -c`.
    pub(crate) fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711)).expect("its mode");
        std::fs::create_dir(directory.path().join(format::JOB)).expect("the job's directory");
        let name = directory.path().file_name().and_then(|name| name.to_str()).expect("a name");
        let mark = format!("test.{}.{name}", std::process::id());
        let argv = ["/bin/sh", "-c", script].map(|argument| argument.as_bytes().to_vec()).to_vec();
        let env =
            vec![format!("{}={mark}", format::MARK_VARIABLE).into_bytes(), b"PATH=/usr/bin:/bin".to_vec()];
        let spec = Spec {
            job: 1,
            attempt: 1,
            rank: 0,
            mark,
            gpus: Vec::new(),
            argv,
            script: None,
            env,
            account: None,
            directory: b"/".to_vec(),
            output: None,
            time_limit_ms: None,
            grace_ms: 0,
            limit_kill_ms: 30_000,
            signal: libc::SIGUSR1,
            checkpoint_glob: None,
            cgroup: None,
            unkillable_ms: 60_000,
        };
        Self { directory, spec }
    }

    /// Makes an attempt whose script knows the directories by `$JOB` (its own) and `$ATTEMPT`, and the socket by `$SOCKET`.
    pub(crate) fn told(script: &str) -> Self {
        let mut case = Self::new(script);
        let paths = [("JOB", format::JOB), ("ATTEMPT", ""), ("SOCKET", format::SOCKET)];
        for (name, path) in paths {
            let path = case.path().join(path);
            case.spec.env.push(format!("{name}={}", path.display()).into_bytes());
        }
        case
    }

    /// Gives the attempt a cgroup v2 directory of its own, where this machine has one to give.
    pub(crate) fn grouped(mut self) -> Option<Self> {
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let root = root.into_iter().find(|root| root.join("cgroup.procs").exists())?;
        let group = root.join(&self.spec.mark);
        std::fs::create_dir(&group).ok()?;
        if !group.join("cgroup.kill").exists() {
            let _ = std::fs::remove_dir(&group);
            return None;
        }
        self.spec.cgroup = Some(group.into_os_string().into_encoded_bytes());
        Some(self)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn write_spec(&self) {
        files::replace(self.path(), format::SPEC, &self.spec.encode(), Readers::Owner)
            .expect("the spec is written");
    }

    /// Runs the first process of the shim and returns its code: the attempt is taken, or refused.
    pub(crate) fn shim(&self, mode: &str) -> i32 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bursar-shim"));
        command.arg(mode).arg(self.path()).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("the shim runs").code().expect("it exits")
    }

    pub(crate) fn launch(&self) {
        self.write_spec();
        assert_eq!(self.shim("--attempt"), 0);
    }

    pub(crate) fn stop(&self, stop: &Stop) {
        files::replace(self.path(), format::STOP, &stop.encode(), Readers::Owner)
            .expect("the stop is written");
        // As the agent does; without it the shim looks by itself, later.
        // A shim that has ended reads no more, and opening its pipe would wait for it.
        let mut options = std::fs::OpenOptions::new();
        options.write(true).custom_flags(libc::O_NONBLOCK);
        let _ = options.open(self.path().join(format::WAKE)).map(|mut wake| wake.write_all(b"w"));
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        files::read(self.path(), name).expect("the file is plain")
    }

    pub(crate) fn record(&self) -> Record {
        self.until("the record", || {
            self.bytes(format::RECORD).map(|bytes| Record::decode(&bytes).expect("a whole file"))
        })
    }

    pub(crate) fn exit(&self) -> Exit {
        self.until("the exit", || {
            self.bytes(format::EXIT).map(|bytes| Exit::decode(&bytes).expect("a whole file"))
        })
    }

    pub(crate) fn saves(&self) -> Saves {
        let bytes = self.bytes(format::SAVES);
        bytes.map(|bytes| Saves::decode(&bytes).expect("a whole file")).unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> Option<Phase> {
        self.bytes(format::PHASE).map(|bytes| Phase::decode(&bytes).expect("a whole file"))
    }

    /// Waits until the shim has proven that nothing is left, and checks it.
    pub(crate) fn emptied(&self) {
        self.until("the proof", || self.bytes(format::EMPTY));
        assert_eq!(self.members(), [] as [i32; 0]);
    }

    pub(crate) fn members(&self) -> Vec<i32> {
        let cgroup = self.spec.group();
        let attempt = Attempt { mark: &self.spec.mark, shim: None, main: None, cgroup };
        procs::members(attempt).expect("/proc is readable").iter().map(|process| process.id.pid).collect()
    }

    /// Waits for the job to write a line to its standard output.
    pub(crate) fn said(&self, line: &str) {
        self.until(line, || self.text("job/stdout").lines().any(|found| found == line).then_some(()));
    }

    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// No attempt outlives its test, whatever the test did.
impl Drop for Case {
    fn drop(&mut self) {
        for pid in self.members() {
            kill(pid);
        }
    }
}

pub(crate) fn kill(pid: i32) {
    // SAFETY: no pointers; the pid is of a process that this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// A stop with notice, `term_after_ms` before TERM and 1 s more before KILL.
pub(crate) fn preempt(term_after_ms: u64) -> Stop {
    Stop {
        kind: "notice".to_owned(),
        reason: "preempted for 7.1".to_owned(),
        notice: true,
        ..cancel(term_after_ms, term_after_ms + 1_000)
    }
}

pub(crate) fn cancel(term_after_ms: u64, kill_after_ms: u64) -> Stop {
    Stop {
        generation: 1,
        kind: "cancel".to_owned(),
        reason: "asked by alice".to_owned(),
        notice: false,
        signal: libc::SIGUSR1,
        term_after_ms,
        kill_after_ms,
    }
}
