//! A node's executor over a temporary directory, and jobs for it.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use node_agent::executor::{Config, Executor, Happening, LaunchError, Order, RankId};
use scheduler_core::agent::{Assignment, Order as What};
use scheduler_core::id::{AttemptId, AttemptNo, Generation, GpuUuid, JobId, Name, Rank, SpecHash};
use scheduler_core::principal::AccountName;
use scheduler_core::spec::{Launch, Program, Tier};
use scheduler_core::unit::{Span, Timestamp};
use shim::format::{Exit, Record};
use shim::procs;
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A program that cargo builds as an example with these tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let deps = test.parent().expect("it lies in a directory");
    let program = deps.with_file_name("examples").join(name);
    assert!(
        program.exists(),
        "{} is not built: cargo builds examples without --test only",
        program.display()
    );
    program
}

/// The pause between two looks of a test that must not block its thread.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Looks until there is an answer, without blocking the thread.
pub(crate) async fn until_async<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            pause().await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("waited in vain for: {what}"))
}

pub(crate) struct Node {
    directory: TempDir,
    executor: Option<Executor>,
    news: Vec<(RankId, Happening)>,
}

impl Node {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711)).expect("its mode");
        let mut node = Self { directory, executor: None, news: Vec::new() };
        node.restart();
        node
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new(self.directory.path().join("data"), xtask::built::shim());
        config.allow_root_jobs = true;
        config
    }

    /// Drops the executor and opens the directory again, as a restarted agent does.
    pub(crate) fn restart(&mut self) {
        self.executor = None;
        self.news.clear();
        self.executor = Some(Executor::open(self.config()).expect("the directory opens"));
    }

    pub(crate) fn stop_agent(&mut self) {
        self.executor = None;
    }

    pub(crate) fn executor(&mut self) -> &mut Executor {
        self.executor.as_mut().expect("the executor is open")
    }

    pub(crate) fn launch(&mut self, job: &Job) -> Result<(), LaunchError> {
        let order = Order {
            assignment: &job.assignment,
            launch: &job.launch,
            protected_until: Some(Timestamp::from_millis(5_000)),
        };
        self.executor().launch(&order)
    }

    pub(crate) fn attempt(&self, job: &Job) -> PathBuf {
        let id = job.assignment.id();
        self.directory.path().join("data/attempts").join(format!("{}.{}", id.attempt, id.rank))
    }

    pub(crate) fn record(&self, job: &Job) -> Record {
        self.until("the record", || {
            let bytes = shim::files::read(&self.attempt(job), shim::format::RECORD).ok()??;
            Some(Record::decode(&bytes).expect("a whole file"))
        })
    }

    pub(crate) fn until<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> T {
        until(what, look)
    }

    /// Looks until the rank has the news that `wanted` takes.
    pub(crate) fn news<T>(
        &mut self,
        job: &Job,
        what: &str,
        mut wanted: impl FnMut(&Happening) -> Option<T>,
    ) -> T {
        let id = job.assignment.id();
        until(what, || {
            let fresh = self.executor().look();
            self.news.extend(fresh);
            self.news.iter().filter(|(of, _)| *of == id).find_map(|(_, news)| wanted(news))
        })
    }

    pub(crate) fn started(&mut self, job: &Job) -> u64 {
        self.news(job, "the start", |news| match news {
            Happening::Started { boot_ms } => Some(*boot_ms),
            _ => None,
        })
    }

    pub(crate) fn exit(&mut self, job: &Job) -> Exit {
        self.news(job, "the exit", |news| match news {
            Happening::Exited(exit) => Some(exit.as_ref().clone()),
            _ => None,
        })
    }

    pub(crate) fn gone(&mut self, job: &Job) {
        self.news(job, "the proof", |news| (*news == Happening::Gone).then_some(()));
        assert_eq!(self.living(job), [] as [i32; 0]);
    }

    /// Processes that carry the job's mark.
    pub(crate) fn living(&self, job: &Job) -> Vec<i32> {
        let Ok(Some(bytes)) = shim::files::read(&self.attempt(job), shim::format::SPEC) else {
            return Vec::new();
        };
        let mark = shim::format::Spec::decode(&bytes).expect("a whole file").mark;
        let all = procs::all().expect("/proc is readable");
        all.iter().map(|process| process.id.pid).filter(|pid| procs::has_mark(*pid, &mark)).collect()
    }

    pub(crate) fn said(&self, job: &Job, line: &str) {
        let path = self.attempt(job).join("job/stdout");
        until(line, || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            text.lines().any(|found| found == line).then_some(())
        });
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// No job outlives its test, whatever the test did.
impl Drop for Node {
    fn drop(&mut self) {
        end_all(&self.directory.path().join("data/attempts"));
    }
}

/// Ends every process of the attempts in a directory.
pub(crate) fn end_all(attempts: &Path) {
    for entry in std::fs::read_dir(attempts).into_iter().flatten().flatten() {
        let spec = shim::files::read(&entry.path(), shim::format::SPEC).ok().flatten();
        let Some(Ok(spec)) = spec.map(|bytes| shim::format::Spec::decode(&bytes)) else { continue };
        for process in procs::all().unwrap_or_default() {
            if procs::has_mark(process.id.pid, &spec.mark) {
                procs::signal(&process, libc::SIGKILL);
            }
        }
    }
}

pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) struct Job {
    pub(crate) assignment: Assignment,
    pub(crate) launch: Launch,
}

impl Job {
    /// Makes a job that runs `script` with `/bin/sh -c` as this test's own account.
    pub(crate) fn new(script: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).expect("accounts can be read");
        let account = user.map_or_else(|| "root".to_owned(), |user| user.name);
        let assignment = Assignment {
            attempt: AttemptId { job: JobId::new(number), no: AttemptNo::new(3) },
            rank: Rank::new(0),
            generation: Generation::new(1),
            order: What::Run,
            launch: SpecHash::new([0; 32]),
            account: AccountName::new(&account).expect("a plain name"),
            gpus: vec![GpuUuid::new(&format!("GPU-{}-{number}", std::process::id())).expect("a UUID")],
            budget: "lab/nlp".to_owned(),
            tier: Tier::Funded,
            start_by: Timestamp::from_millis(u64::MAX),
            protection: Span::from_secs(5),
            time_limit: None,
            grace: Span::from_secs(1),
            signal: 10,
            nodes: vec![Name::new("n1").expect("a name")],
            addresses: vec!["127.0.0.1".to_owned()],
            port: None,
            array: None,
        };
        let program = Program::Command(["/bin/sh", "-c", script].map(str::to_owned).to_vec());
        let launch = Launch {
            program,
            working_dir: "/".to_owned(),
            output: None,
            env: BTreeMap::new(),
            secrets: Vec::new(),
            checkpoint_glob: None,
        };
        Self { assignment, launch }
    }

    pub(crate) fn id(&self) -> RankId {
        self.assignment.id()
    }
}

pub(crate) fn kill(pid: i32) {
    // SAFETY: no pointers; the pid is of a process that this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}
