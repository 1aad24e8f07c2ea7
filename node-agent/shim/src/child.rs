//! Starting the main process: forked, held at a pipe until the record is durable, then dropped to the account and executed.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::format::{JOB, LaunchFailure, SCRIPT, STDERR, STDOUT, Spec, Step};
use crate::{cgroup, sys};

/// Where programs are looked for if the environment names no path.
const DEFAULT_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// A child that waits at the pipe.
#[derive(Debug)]
pub struct Held {
    /// Its process id.
    pub pid: i32,
    go: OwnedFd,
    failure: OwnedFd,
}

/// Everything the child needs, made before the fork.
struct Program {
    argv: Vec<CString>,
    env: Vec<CString>,
    /// The paths to try, in order.
    candidates: Vec<CString>,
}

impl Held {
    /// Forks the child. It waits, with nothing of the job executed, until [`Held::release`]; if this process dies first,
    /// the child ends.
    ///
    /// # Errors
    ///
    /// The spec can't be turned into a program, or no process could be made.
    pub fn fork(directory: &Path, spec: &Spec) -> Result<Self, LaunchFailure> {
        let failed = |error: io::Error| LaunchFailure { step: Step::Fork, errno: errno(&error) };
        let program = Program::of(directory, spec).map_err(failed)?;
        let (go_read, go) = sys::pipe().map_err(failed)?;
        let (failure, failure_write) = sys::pipe().map_err(failed)?;
        let pid = sys::fork().map_err(failed)?;
        if pid == 0 {
            drop((go, failure));
            run(directory, spec, &program, go_read, failure_write)
        }
        Ok(Self { pid, go, failure })
    }

    /// Lets the child execute its program. Returns when it has, or with what stopped it.
    ///
    /// # Errors
    ///
    /// The step that failed and the system's error number.
    pub fn release(self) -> Result<(), LaunchFailure> {
        // An error here means that the child is gone; its end is seen like any other.
        let _ = std::fs::File::from(self.go).write_all(b"g");
        let mut report = Vec::new();
        let _ = std::fs::File::from(self.failure).take(5).read_to_end(&mut report);
        let [step, number @ ..] = report.as_slice() else { return Ok(()) };
        let step = Step::ALL.get(usize::from(*step)).copied().unwrap_or(Step::Fork);
        Err(LaunchFailure { step, errno: number.try_into().map_or(0, i32::from_ne_bytes) })
    }
}

impl Program {
    fn of(directory: &Path, spec: &Spec) -> io::Result<Self> {
        let c = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
        let mut argv = spec.argv.iter().map(|argument| c(argument)).collect::<io::Result<Vec<_>>>()?;
        let env = spec.env.iter().map(|entry| c(entry)).collect::<io::Result<Vec<_>>>()?;
        let Some(script) = &spec.script else {
            let name = spec.argv.first().ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
            let candidates = candidates(name, spec).iter().map(|path| c(path)).collect::<io::Result<_>>()?;
            return Ok(Self { argv, env, candidates });
        };
        let path = sys::c_path(&script_path(directory))?;
        argv.insert(0, path.clone());
        if script.starts_with(b"#!") {
            return Ok(Self { argv, env, candidates: vec![path] });
        }
        argv.insert(0, c"/bin/sh".to_owned());
        Ok(Self { argv, env, candidates: vec![c"/bin/sh".to_owned()] })
    }
}

fn script_path(directory: &Path) -> PathBuf {
    directory.join(JOB).join(SCRIPT)
}

fn candidates(name: &[u8], spec: &Spec) -> Vec<Vec<u8>> {
    if name.contains(&b'/') {
        return vec![name.to_vec()];
    }
    let path = spec.env.iter().find_map(|entry| entry.strip_prefix(b"PATH=")).unwrap_or(DEFAULT_PATH);
    path.split(|byte| *byte == b':')
        .map(|folder| [if folder.is_empty() { b"." } else { folder }, b"/", name].concat())
        .collect()
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// The child's life up to its program. Never returns.
fn run(directory: &Path, spec: &Spec, program: &Program, go: OwnedFd, failure: OwnedFd) -> ! {
    sys::new_session();
    let mut byte = [0];
    if !matches!(std::fs::File::from(go).read(&mut byte), Ok(1)) {
        // The shim died before its record was durable: this launch never happened.
        sys::exit_now(0);
    }
    let (step, error) = match prepare(directory, spec) {
        Ok(()) => (Step::Program, execute(program)),
        Err(failed) => failed,
    };
    let mut report =
        vec![Step::ALL.iter().position(|known| *known == step).map_or(0, |at| at.to_le_bytes()[0])];
    report.extend(errno(&error).to_ne_bytes());
    let _ = std::fs::File::from(failure).write_all(&report);
    sys::exit_now(127)
}

fn prepare(directory: &Path, spec: &Spec) -> Result<(), (Step, io::Error)> {
    if let Some(group) = spec.group() {
        cgroup::enter(group).map_err(|error| (Step::Fork, error))?;
    }
    for signal in 1..32 {
        sys::set_signal(signal, false);
    }
    unblock_signals();
    // The shim may have asked for a lower score; the job gets the usual one.
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    if let Some(account) = &spec.account {
        drop_to(account).map_err(|error| (Step::Account, error))?;
    }
    let folder = Path::new(std::ffi::OsStr::from_bytes(&spec.directory));
    std::env::set_current_dir(folder).map_err(|error| (Step::Directory, error))?;
    // SAFETY: no pointers.
    unsafe { libc::umask(0o022) };
    open_streams(directory, spec)?;
    if let Some(script) = &spec.script {
        write_script(directory, script).map_err(|error| (Step::Logs, error))?;
    }
    Ok(())
}

fn unblock_signals() {
    // SAFETY: an all-zero set is valid and then made empty.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Becomes an account, for good.
///
/// # Errors
///
/// The system refuses.
pub fn drop_to(account: &crate::format::Account) -> io::Result<()> {
    let checked = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the list is valid for its length. Groups first, the user last: after it nothing could be set any more.
    unsafe {
        checked(libc::setgroups(account.groups.len(), account.groups.as_ptr()))?;
        checked(libc::setresgid(account.gid, account.gid, account.gid))?;
        checked(libc::setresuid(account.uid, account.uid, account.uid))
    }
}

fn open_streams(directory: &Path, spec: &Spec) -> Result<(), (Step, io::Error)> {
    let null = open(Path::new("/dev/null"), libc::O_RDONLY).map_err(|error| (Step::Logs, error))?;
    redirect(&null, 0);
    if let Some(output) = &spec.output {
        let path = Path::new(std::ffi::OsStr::from_bytes(output));
        let file = open(path, LOG_FLAGS).map_err(|error| (Step::Output, error))?;
        redirect(&file, 1);
        redirect(&file, 2);
        return Ok(());
    }
    for (name, number) in [(STDOUT, 1), (STDERR, 2)] {
        let path = directory.join(JOB).join(name);
        let file = open(&path, LOG_FLAGS).map_err(|error| (Step::Logs, error))?;
        redirect(&file, number);
    }
    Ok(())
}

/// The job appends: what it writes after somebody cut the file lands at the end.
const LOG_FLAGS: i32 =
    libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_NONBLOCK;

fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let path = sys::c_path(path)?;
    // SAFETY: a valid C string; the result is a new descriptor or -1.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o644) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn redirect(file: &OwnedFd, number: i32) {
    // SAFETY: valid descriptors. The flag that kept opening a FIFO from blocking is taken off for the job.
    unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_NONBLOCK);
        libc::dup2(file.as_raw_fd(), number);
    }
}

fn write_script(directory: &Path, script: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o700).custom_flags(libc::O_NOFOLLOW);
    options.open(script_path(directory))?.write_all(script)
}

/// Executes the first candidate that exists; returns only the error.
fn execute(program: &Program) -> io::Error {
    let pointers = |list: &[CString]| {
        list.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (argv, env) = (pointers(&program.argv), pointers(&program.env));
    let mut answer = io::Error::from_raw_os_error(libc::ENOENT);
    for path in &program.candidates {
        // SAFETY: both lists end with a null pointer and live as long as `program`.
        unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        let error = io::Error::last_os_error();
        // As a shell does: "found but not allowed" tells more than "not found".
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => answer = error,
            _ => return error,
        }
    }
    answer
}
