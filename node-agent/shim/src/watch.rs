//! The life of a shim: launch, watch, enforce, keep the exit, leave nothing behind. And that of a nurse, which takes over
//! where a shim died.

mod end;
mod stages;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child::Held;
use crate::files::{self, Readers};
use crate::format::{self, Exit, Identity, LaunchFailure, Phase, Record, Spec, Stage, Status, Stop};
use crate::procs::{self, Attempt, Process};
use crate::progress::Progress;
use crate::timeline::{Timeline, View};
use crate::{cgroup, sys};

pub use stages::tell_unkillable;

/// How long the shim sleeps at most: a missed wake delays a stop by this much.
const TICK_MS: u64 = 500;
/// The same while something is ending.
const ENDING_TICK_MS: u64 = 20;
/// The same while a checkpoint may end the grace early.
const NOTICED_TICK_MS: u64 = 100;

/// Why a shim gave up before it started anything. The exit code of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another shim or nurse has the attempt.
    Busy = 10,
    /// The attempt was launched or ended already.
    Launched = 11,
    /// The directory can't be used: unreadable spec, failing disk.
    Unusable = 12,
}

/// The main process, as far as this process can know it.
enum Main {
    /// A child: its exact end will be told.
    Child,
    /// A stranger, watched through this descriptor.
    Stranger,
    /// Ended.
    Ended,
}

struct Watch {
    directory: PathBuf,
    spec: Spec,
    boot: String,
    writer: &'static str,
    me: Option<Identity>,
    main: Identity,
    main_fd: Option<OwnedFd>,
    state: Main,
    started_ms: u64,
    stop: Option<(Stop, u64)>,
    stop_version: Option<(u64, i64, i64)>,
    progress: Progress,
    /// When the first checkpoint after the notice was heard of, or the exit leaves no more to wait for: it ends the grace, and
    /// later ones don't lengthen it.
    saved_ms: Option<u64>,
    noticed: bool,
    /// When the signal of the notice was last tried, if nobody listened.
    unheard_ms: Option<u64>,
    stage: Stage,
    /// When the processes that are left were told to end at once for the first time.
    killed_ms: Option<u64>,
    unkillable_told: bool,
    wake: Option<OwnedFd>,
    _lock: File,
}

/// Launches the attempt in `directory` and stays until nothing of it is left.
///
/// # Errors
///
/// Nothing was launched.
pub fn run_shim(directory: &Path, ready: impl FnOnce()) -> Result<(), Refusal> {
    let lock = take_lock(directory)?;
    let present = |name| std::fs::symlink_metadata(directory.join(name)).is_ok();
    if present(format::RECORD) || present(format::EXIT) {
        return Err(Refusal::Launched);
    }
    let spec = read_spec(directory)?;
    let boot = procs::boot_id().map_err(|_| Refusal::Unusable)?;
    let me = i32::try_from(std::process::id()).ok().and_then(procs::process).map(|me| me.id);
    let me = me.ok_or(Refusal::Unusable)?;
    sys::become_subreaper().map_err(|_| Refusal::Unusable)?;
    let wake = sys::open_fifo(&directory.join(format::WAKE)).ok();
    for name in [format::EXIT, format::PHASE] {
        files::reserve(directory, name).map_err(|_| Refusal::Unusable)?;
    }
    // Before the job: what it reports first must not get lost.
    let progress = Progress::open(directory, &spec, &boot);
    ready();
    if present(format::STOP) {
        write_unlaunched(directory, &boot, None);
        return Ok(());
    }
    let (main, started_ms) = match launch(directory, &spec, &boot, me) {
        Ok(launched) => launched,
        Err(failure) => {
            write_unlaunched(directory, &boot, Some(failure));
            return Ok(());
        }
    };
    let mut watch = Watch {
        main_fd: sys::pidfd_open(main.pid).ok(),
        directory: directory.to_owned(),
        spec,
        boot,
        writer: "shim",
        me: Some(me),
        main,
        state: Main::Child,
        started_ms,
        stop: None,
        stop_version: None,
        progress,
        saved_ms: None,
        noticed: false,
        unheard_ms: None,
        stage: Stage::Running,
        killed_ms: None,
        unkillable_told: false,
        wake,
        _lock: lock,
    };
    watch.write_phase();
    watch.run();
    Ok(())
}

/// Takes over a launched attempt whose shim is gone.
///
/// # Errors
///
/// There is nothing to take over.
pub fn run_nurse(directory: &Path, ready: impl FnOnce()) -> Result<(), Refusal> {
    let lock = take_lock(directory)?;
    let spec = read_spec(directory)?;
    let record = read(directory, format::RECORD).and_then(|bytes| Record::decode(&bytes).ok());
    let record = record.ok_or(Refusal::Unusable)?;
    let boot = procs::boot_id().map_err(|_| Refusal::Unusable)?;
    if record.boot != boot {
        return Err(Refusal::Launched);
    }
    // Opened before anything else: once the process is reaped, only a descriptor from before can tell its exit.
    let main_fd = sys::pidfd_open(record.main.pid).ok().filter(|_| procs::is_alive(record.main));
    ready();
    let phase = read(directory, format::PHASE).and_then(|bytes| Phase::decode(&bytes).ok());
    let exited = std::fs::symlink_metadata(directory.join(format::EXIT)).is_ok();
    let progress = Progress::open(directory, &spec, &boot);
    let mut watch = Watch {
        directory: directory.to_owned(),
        spec,
        boot,
        writer: "nurse",
        me: None,
        main: record.main,
        main_fd,
        state: if exited { Main::Ended } else { Main::Stranger },
        started_ms: phase.map_or(record.forked_ms, |phase| phase.started_ms),
        stop: None,
        stop_version: None,
        progress,
        saved_ms: None,
        noticed: phase.is_some_and(|phase| phase.noticed),
        unheard_ms: None,
        stage: Stage::Running,
        killed_ms: None,
        unkillable_told: std::fs::symlink_metadata(directory.join(format::UNKILLABLE)).is_ok(),
        wake: sys::open_fifo(&directory.join(format::WAKE)).ok(),
        _lock: lock,
    };
    watch.look_for_stop(phase.and_then(|phase| phase.stop_seen_ms));
    watch.run();
    Ok(())
}

fn take_lock(directory: &Path) -> Result<File, Refusal> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(directory.join(format::LOCK)).map_err(|_| Refusal::Unusable)?;
    sys::lock(file.as_raw_fd()).map_err(|_| Refusal::Busy)?;
    Ok(file)
}

fn read(directory: &Path, name: &str) -> Option<Vec<u8>> {
    files::read(directory, name).ok().flatten()
}

fn read_spec(directory: &Path) -> Result<Spec, Refusal> {
    read(directory, format::SPEC).and_then(|bytes| Spec::decode(&bytes).ok()).ok_or(Refusal::Unusable)
}

/// Forks the main process, makes the record durable, and lets it execute.
fn launch(
    directory: &Path,
    spec: &Spec,
    boot: &str,
    shim: Identity,
) -> Result<(Identity, u64), LaunchFailure> {
    let failed = |error: &io::Error| LaunchFailure {
        step: format::Step::Fork,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    let held = Held::fork(directory, spec)?;
    let gone = || failed(&io::Error::from_raw_os_error(libc::ESRCH));
    let main = procs::process(held.pid).ok_or_else(gone)?.id;
    let inode = sys::pidfd_open(main.pid).ok().and_then(|fd| sys::inode(&fd));
    let forked_ms = sys::boot_ms();
    let record = Record { boot: boot.to_owned(), shim, main, pidfs_inode: inode, forked_ms };
    // A child that can't be recorded must not run: dropping `held` closes its pipe, which ends it.
    files::replace(directory, format::RECORD, &record.encode(), Readers::Owner)
        .map_err(|error| failed(&error))?;
    held.release()?;
    Ok((main, sys::boot_ms()))
}

/// Writes the exit of an attempt that never ran.
fn write_unlaunched(directory: &Path, boot: &str, launch: Option<LaunchFailure>) {
    let stop = read(directory, format::STOP).and_then(|bytes| Stop::decode(&bytes).ok());
    // A stop that came before the launch is its end; a launch that failed is not.
    let noticed = launch.is_none() && stop.as_ref().is_some_and(|stop| stop.notice);
    let code = launch.map_or(0, |failure| if failure.errno == libc::ENOENT { 127 } else { 126 });
    let exit = Exit {
        boot: boot.to_owned(),
        status: if launch.is_some() {
            Status::Code(code)
        } else {
            Status::Unknown("never started".to_owned())
        },
        launch,
        started_ms: None,
        ended_ms: sys::boot_ms(),
        asked: stop.as_ref().map(|stop| stop.kind.clone()),
        generation: stop.map(|stop| stop.generation),
        noticed,
        saved_ms: None,
        user_ms: 0,
        system_ms: 0,
        peak_rss_kib: 0,
        writer: "shim".to_owned(),
    };
    sys::reap(|_, _, _| ());
    let _ = std::fs::remove_file(directory.join(format::SOCKET));
    persist(directory, files::replace, format::EXIT, &exit.encode());
    prove_empty(directory);
}

/// Says that nothing is left. Whoever reads it in another boot looks again, so a loss of power may take it.
fn prove_empty(directory: &Path) {
    persist(directory, files::replace_unsynced, format::EMPTY, &format::Writer::new().finish());
}

/// How a file is written.
type Write = fn(&Path, &str, &[u8], Readers) -> io::Result<()>;

/// Writes a file that must not get lost, for as long as it takes: a full disk has an end, a lost exit has not.
fn persist(directory: &Path, write: Write, name: &str, content: &[u8]) {
    while write(directory, name, content, Readers::Owner).is_err() {
        if !directory.exists() {
            return;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

impl Watch {
    fn run(&mut self) {
        loop {
            self.collect();
            self.look_for_stop(None);
            let now_ms = sys::boot_ms();
            self.look_for_progress(now_ms);
            let timeline = self.timeline();
            let ended = matches!(self.state, Main::Ended);
            self.advance(&timeline, now_ms);
            // Whoever still has grace keeps it, also after the main process: a shell that obeys TERM at once must not cost
            // its child the time to save.
            let graced = self.is_ending() && self.stage < Stage::Killing;
            if ended || self.stage == Stage::Killing {
                match self.members() {
                    Ok(members) if members.is_empty() && ended => break,
                    Ok(members) if !(ended && graced) => self.kill(&members, now_ms),
                    _ => {}
                }
            }
            self.sleep(now_ms, &timeline, ended);
        }
        self.progress.close();
        prove_empty(&self.directory);
        if let Some(group) = self.spec.group() {
            cgroup::remove(group);
        }
    }

    fn timeline(&self) -> Timeline {
        Timeline::of(View {
            spec: &self.spec,
            started_ms: self.started_ms,
            stop: self.stop.as_ref().map(|(stop, seen)| (stop, *seen)),
            saved_ms: self.saved_ms,
        })
    }

    fn members(&self) -> io::Result<Vec<Process>> {
        let (shim, main, cgroup) = (self.me, Some(self.main), self.spec.group());
        let mut members = procs::members(Attempt { mark: &self.spec.mark, shim, main, cgroup })?;
        let scanner = self.progress.scanner();
        members.retain(|process| Some(process.id.pid) != scanner);
        Ok(members)
    }

    fn sleep(&self, now_ms: u64, timeline: &Timeline, ended: bool) {
        let graced = ended && self.stage < Stage::Killing && self.is_ending();
        let long_killing = self.killed_ms.is_some_and(|killed_ms| now_ms > killed_ms.saturating_add(2_000));
        let tick_ms = if long_killing {
            TICK_MS
        } else if graced {
            NOTICED_TICK_MS
        } else if ended || self.stage >= Stage::Terminating {
            ENDING_TICK_MS
        } else if self.stop.is_some() {
            NOTICED_TICK_MS
        } else {
            TICK_MS
        };
        let due_ms = timeline.next_ms(now_ms).unwrap_or(u64::MAX);
        let due_ms = due_ms.min(self.progress.due_ms(&self.spec, self.noticed));
        let wait_ms = due_ms.saturating_sub(now_ms).clamp(1, tick_ms);
        let main = if ended { None } else { self.main_fd.as_ref().map(AsRawFd::as_raw_fd) };
        let wake = self.wake.as_ref().map(AsRawFd::as_raw_fd);
        let [socket, scan] = self.progress.fds(now_ms);
        let [_, woken, _, _] = sys::wait_readable([main, wake, socket, scan], Duration::from_millis(wait_ms));
        if woken && let Some(wake) = &self.wake {
            sys::drain(wake);
        }
    }

    fn look_for_progress(&mut self, now_ms: u64) {
        self.progress.look(&self.spec, self.noticed, now_ms);
        let Some((_, seen_ms)) = &self.stop else { return };
        if self.noticed && self.saved_ms.is_none() {
            self.saved_ms = self.progress.saved_ms().filter(|saved_ms| saved_ms > seen_ms);
        }
    }

    /// Says whether the attempt was told to end, so that what is left after the main process still has its grace.
    fn is_ending(&self) -> bool {
        self.stop.is_some() || self.stage >= Stage::Terminating
    }
}

/// What tells one version of a file from the next.
fn version(path: &Path) -> Option<(u64, i64, i64)> {
    let data = std::fs::symlink_metadata(path).ok()?;
    Some((data.ino(), data.mtime(), data.mtime_nsec()))
}
