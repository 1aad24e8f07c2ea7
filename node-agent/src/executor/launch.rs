//! Launching a rank: everything is on disk before the first fork.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use scheduler_core::agent::{Assignment, Fault, RankId};
use scheduler_core::spec::{Launch, Program};
use scheduler_core::unit::Timestamp;
use shim::files::{self, Readers};
use shim::format::{self, Spec};
use shim::watch::Refusal;

use super::account::{self, Found};
use super::config::Config;
use super::environment;

/// A rank to launch.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// What the control plane said.
    pub assignment: &'a Assignment,
    /// What runs.
    pub launch: &'a Launch,
    /// The end of its protection if it starts now, in cluster time.
    pub protected_until: Option<Timestamp>,
}

impl Order<'_> {
    /// The rank.
    pub fn id(&self) -> RankId {
        self.assignment.id()
    }
}

/// Why a rank was not launched, and whose fault that is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct LaunchError {
    /// Who is to blame.
    pub fault: Fault,
    /// What went wrong, for people.
    pub what: String,
}

impl LaunchError {
    /// The node's fault.
    pub(super) fn node(what: String) -> Self {
        Self { fault: Fault::Node, what }
    }

    /// The job's fault.
    pub(super) fn job(code: u8, what: String) -> Self {
        Self { fault: Fault::Job { code }, what }
    }
}

/// What every launch of an agent needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launcher<'a> {
    pub(super) config: &'a Config,
    /// The copy of the shim.
    pub(super) copy: &'a Path,
    /// This data directory's own name.
    pub(super) instance: &'a str,
}

impl Launcher<'_> {
    /// Writes the directory of a rank and starts its shim. Returns once the shim has taken the attempt.
    pub(super) fn launch(&self, order: &Order<'_>, group: Option<&Path>) -> Result<(), LaunchError> {
        let account = account::find(order.assignment.account.as_str(), self.config.allow_root_jobs)?;
        let mut spec = spec(self.config, self.instance, order, &account)?;
        spec.cgroup = group.map(|group| group.as_os_str().as_encoded_bytes().to_vec());
        let directory = self.config.attempt(order.id());
        let written = write(self.config, &directory, &spec, (order, &account));
        written.map_err(|error| {
            LaunchError::node(format!("failed to write the attempt's directory: {error}"))
        })?;
        match start(self.copy, "--attempt", &directory) {
            Ok(0) => Ok(()),
            Ok(code) => Err(LaunchError::node(refusal(code))),
            Err(error) => Err(LaunchError::node(format!("failed to start the shim: {error}"))),
        }
    }
}

/// Starts a shim or nurse and waits for its first process, which says whether the attempt was taken.
pub(super) fn start(copy: &Path, mode: &str, directory: &Path) -> io::Result<i32> {
    let mut command = Command::new(copy);
    command.arg(mode).arg(directory).env_clear().current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status()?.code().unwrap_or(-1))
}

fn refusal(code: i32) -> String {
    if code == Refusal::Busy as i32 {
        "another shim has the attempt".to_owned()
    } else if code == Refusal::Launched as i32 {
        "the attempt was launched before".to_owned()
    } else {
        format!("the shim can't use the attempt's directory (code {code})")
    }
}

fn spec(config: &Config, instance: &str, order: &Order<'_>, account: &Found) -> Result<Spec, LaunchError> {
    let assignment = order.assignment;
    let random =
        super::run::random_hex().map_err(|error| LaunchError::node(format!("no random numbers: {error}")))?;
    let mark = format!("{instance}.{}.{}.{random}", assignment.attempt, assignment.rank);
    let (argv, script) = match &order.launch.program {
        Program::Command(argv) => (argv.iter().map(|argument| argument.clone().into_bytes()).collect(), None),
        Program::Script(text) => (Vec::new(), Some(text.clone().into_bytes())),
    };
    Ok(Spec {
        job: assignment.attempt.job.get(),
        attempt: u32::from(assignment.attempt.no.get()),
        rank: assignment.rank.get(),
        env: environment::build(config, order, account, &mark)?,
        mark,
        gpus: assignment.gpus.iter().map(ToString::to_string).collect(),
        argv,
        script,
        account: account.drop.clone(),
        directory: order.launch.working_dir.clone().into_bytes(),
        output: order.launch.output.as_deref().map(|output| output_path(order, output)),
        time_limit_ms: assignment.time_limit.map(|span| span.as_millis()),
        grace_ms: assignment.grace.as_millis(),
        limit_kill_ms: u64::try_from(config.limit_kill.as_millis()).unwrap_or(u64::MAX),
        signal: i32::from(assignment.signal),
        checkpoint_glob: order.launch.checkpoint_glob.clone().map(String::into_bytes),
        cgroup: None,
        unkillable_ms: u64::try_from(config.unkillable_after.as_millis()).unwrap_or(u64::MAX),
    })
}

/// Fills in `%j` job, `%a` attempt, `%r` rank, `%A` array and `%t` task (without an array the job and 0), and puts a relative path under the working directory.
fn output_path(order: &Order<'_>, output: &str) -> Vec<u8> {
    let id = order.id();
    let mut name = String::new();
    let mut letters = output.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            name.push(letter);
            continue;
        }
        match letters.next() {
            Some('j') => name.push_str(&id.attempt.job.to_string()),
            Some('a') => name.push_str(&id.attempt.no.to_string()),
            Some('r') => name.push_str(&id.rank.to_string()),
            Some('A') => {
                let array = order.assignment.array.map_or(id.attempt.job, |task| task.of);
                name.push_str(&array.to_string());
            }
            Some('t') => {
                let index = order.assignment.array.map_or(0, |task| task.index);
                name.push_str(&index.to_string());
            }
            Some('%') | None => name.push('%'),
            Some(other) => name.extend(['%', other]),
        }
    }
    Path::new(&order.launch.working_dir).join(name).into_os_string().into_encoded_bytes()
}

/// Writes everything of a launch: after this a restarted agent knows that it may have happened.
fn write(
    config: &Config,
    directory: &Path,
    spec: &Spec,
    (order, account): (&Order<'_>, &Found),
) -> io::Result<()> {
    make_directory(directory, 0o711)?;
    let job = directory.join(format::JOB);
    make_directory(&job, 0o700)?;
    if let Some(drop) = &account.drop {
        std::os::unix::fs::lchown(&job, Some(drop.uid), Some(drop.gid))?;
    }
    // A shim of an earlier agent that comes late finds this spec or none, never an older one.
    let _lock = super::adopt::lock(directory)?;
    // The job reads the hosts in this boot alone, and of the intent only its being there counts: the directory's own sync
    // is enough for both.
    let hosts = environment::hosts(order.assignment);
    files::replace_unsynced(directory, format::HOSTS, hosts.as_bytes(), Readers::Everyone)?;
    files::put(directory, format::SPEC, &spec.encode(), Readers::Owner)?;
    files::replace_unsynced(directory, format::INTENT, &format::Writer::new().finish(), Readers::Owner)?;
    files::sync_directory(directory)?;
    files::sync_directory(&config.attempts())
}

/// Makes a directory, or takes it as it is if it is a real one. The mode doesn't depend on the umask.
pub(super) fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !std::fs::symlink_metadata(path)?.is_dir() {
                return Err(error);
            }
        }
        Err(error) => return Err(error),
    }
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Says what a launch failure in an exit file means: whose fault, and in words.
pub(super) fn explain(failure: format::LaunchFailure, spec: Option<&Spec>) -> LaunchError {
    let error = io::Error::from_raw_os_error(failure.errno);
    let code = if failure.errno == libc::ENOENT { 127 } else { 126 };
    let shown = |bytes: Option<&[u8]>| {
        bytes.map_or_else(String::new, |bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    use format::Step;
    match failure.step {
        Step::Fork => LaunchError::node(format!("failed to make the process: {error}")),
        Step::Account => LaunchError::node(format!("failed to become the job's account: {error}")),
        Step::Logs => LaunchError::node(format!("failed to open the job's logs: {error}")),
        Step::Directory => {
            let path = shown(spec.map(|spec| spec.directory.as_slice()));
            LaunchError::job(code, format!("failed to enter the working directory {path}: {error}"))
        }
        Step::Output => {
            let path = shown(spec.and_then(|spec| spec.output.as_deref()));
            LaunchError::job(code, format!("failed to open the output file {path}: {error}"))
        }
        Step::Program => {
            let name = shown(spec.and_then(|spec| spec.argv.first().map(Vec::as_slice)));
            let name = if name.is_empty() { "the script".to_owned() } else { name };
            LaunchError::job(code, format!("failed to execute {name}: {error}"))
        }
    }
}
