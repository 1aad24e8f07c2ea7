//! The life of a shim: launch, watch, enforce, keep the exit, leave nothing behind. And that of a nurse, which takes over
//! where a shim died.

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
use crate::sys;
use crate::timeline::{Timeline, View};

/// How long the shim sleeps at most: a missed wake delays a stop by this much.
const TICK_MS: u64 = 500;
/// The same while something is ending.
const ENDING_TICK_MS: u64 = 20;
/// The same while a checkpoint may end the grace early.
const NOTICED_TICK_MS: u64 = 100;
/// How long a nurse asks the kernel for the exit of a process that isn't its child.
const EXIT_QUERY_MS: u64 = 5_000;

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
    checkpoint_before: Option<(u64, i64, i64)>,
    saved_ms: Option<u64>,
    noticed: bool,
    stage: Stage,
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
    files::reserve(directory, format::EXIT).map_err(|_| Refusal::Unusable)?;
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
        checkpoint_before: None,
        saved_ms: None,
        noticed: false,
        stage: Stage::Running,
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
        checkpoint_before: None,
        saved_ms: None,
        noticed: phase.is_some_and(|phase| phase.noticed),
        stage: Stage::Running,
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
        noticed: false,
        user_ms: 0,
        system_ms: 0,
        peak_rss_kib: 0,
        writer: "shim".to_owned(),
    };
    sys::reap(|_, _, _| ());
    persist(directory, format::EXIT, &exit.encode());
    persist(directory, format::EMPTY, &format::Writer::new().finish());
}

/// Writes a file that must not get lost, for as long as it takes: a full disk has an end, a lost exit has not.
fn persist(directory: &Path, name: &str, content: &[u8]) {
    while files::replace(directory, name, content, Readers::Owner).is_err() {
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
            self.look_for_checkpoint(now_ms);
            let timeline = self.timeline();
            let ended = matches!(self.state, Main::Ended);
            self.advance(timeline.stage(now_ms));
            // Whoever still has grace keeps it, also after the main process: a shell that obeys TERM at once must not cost
            // its child the time to save.
            let graced = self.is_ending() && self.stage < Stage::Killing;
            if ended || self.stage == Stage::Killing {
                match self.members() {
                    Ok(members) if members.is_empty() && ended => break,
                    Ok(members) if !(ended && graced) => self.signal(&members, libc::SIGKILL),
                    _ => {}
                }
            }
            self.sleep(now_ms, &timeline, ended);
        }
        persist(&self.directory, format::EMPTY, &format::Writer::new().finish());
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
        procs::members(Attempt { mark: &self.spec.mark, shim: self.me, main: Some(self.main) })
    }

    fn signal(&self, members: &[Process], signal: i32) {
        for process in members {
            procs::signal(process, signal);
        }
    }

    fn sleep(&self, now_ms: u64, timeline: &Timeline, ended: bool) {
        let long_killing = self.stage == Stage::Killing && now_ms > timeline.kill_ms.saturating_add(2_000);
        let tick_ms = if long_killing {
            TICK_MS
        } else if ended || self.stage >= Stage::Terminating {
            ENDING_TICK_MS
        } else if self.noticed {
            NOTICED_TICK_MS
        } else {
            TICK_MS
        };
        let due_ms = timeline.next_ms(now_ms).map_or(tick_ms, |at| at.saturating_sub(now_ms).min(tick_ms));
        let main = if ended { None } else { self.main_fd.as_ref().map(AsRawFd::as_raw_fd) };
        let wake = self.wake.as_ref().map(AsRawFd::as_raw_fd);
        let [_, woken] = sys::wait_readable([main, wake], Duration::from_millis(due_ms));
        if woken && let Some(wake) = &self.wake {
            sys::drain(wake);
        }
    }

    /// Reaps, and keeps the exit of the main process as soon as it is known.
    fn collect(&mut self) {
        let mut end = None;
        let main = self.main.pid;
        let own = matches!(self.state, Main::Child);
        sys::reap(|pid, status, usage| {
            if own && pid == main {
                end = Some((status, *usage));
            }
        });
        match self.state {
            Main::Child => {
                if let Some((status, usage)) = end {
                    self.write_exit(told(status), Some(&usage));
                }
            }
            Main::Stranger => {
                let ended = self.main_fd.as_ref().is_none_or(sys::readable) || !procs::is_alive(self.main);
                if ended {
                    let status = self.query_exit();
                    self.write_exit(status, None);
                }
            }
            Main::Ended => {}
        }
    }

    /// Asks the kernel how a process ended that isn't a child. It answers once the process is reaped by its parent.
    fn query_exit(&self) -> Status {
        let Some(fd) = &self.main_fd else { return Status::Unknown("its end was not seen".to_owned()) };
        let until_ms = sys::boot_ms() + EXIT_QUERY_MS;
        loop {
            if let Some(status) = sys::pidfd_exit_status(fd).or_else(|| self.reaped_by_agent()) {
                return told(status);
            }
            if sys::boot_ms() >= until_ms {
                return Status::Unknown("the kernel does not tell".to_owned());
            }
            std::thread::sleep(Duration::from_millis(ENDING_TICK_MS));
        }
    }

    /// An agent that inherited the process and reaped it says how it ended.
    fn reaped_by_agent(&self) -> Option<i32> {
        let fields = format::Fields::parse(&read(&self.directory, format::REAPED)?).ok()?;
        fields.number("status").ok()
    }

    fn write_exit(&mut self, status: Status, usage: Option<&libc::rusage>) {
        let time_ms = |time: libc::timeval| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            seconds * 1_000 + u64::try_from(time.tv_usec).unwrap_or(0) / 1_000
        };
        let now_ms = sys::boot_ms();
        let timeline = self.timeline();
        let limited = timeline.by_limit && now_ms >= timeline.term_ms;
        let stop = self.stop.as_ref().map(|(stop, _)| stop);
        let exit = Exit {
            boot: self.boot.clone(),
            status,
            launch: None,
            started_ms: Some(self.started_ms),
            ended_ms: now_ms,
            asked: if limited { Some("limit".to_owned()) } else { stop.map(|stop| stop.kind.clone()) },
            generation: stop.map(|stop| stop.generation),
            noticed: self.noticed,
            user_ms: usage.map_or(0, |usage| time_ms(usage.ru_utime)),
            system_ms: usage.map_or(0, |usage| time_ms(usage.ru_stime)),
            peak_rss_kib: usage.and_then(|usage| u64::try_from(usage.ru_maxrss).ok()).unwrap_or(0),
            writer: self.writer.to_owned(),
        };
        persist(&self.directory, format::EXIT, &exit.encode());
        self.state = Main::Ended;
    }

    /// Reads the stop if it is new. `seen_ms` is when another shim first saw it.
    fn look_for_stop(&mut self, seen_ms: Option<u64>) {
        let version = version(&self.directory.join(format::STOP));
        if version.is_none() || version == self.stop_version {
            return;
        }
        let Some(stop) = read(&self.directory, format::STOP).and_then(|bytes| Stop::decode(&bytes).ok())
        else {
            return;
        };
        self.stop_version = version;
        let known = self.stop.as_ref();
        if known.is_some_and(|(known, _)| stop.generation < known.generation) {
            return;
        }
        // The grace runs from the first stop: a second order never lengthens it, and an ending job stays ending.
        let now_ms = sys::boot_ms();
        let first_ms = seen_ms.or_else(|| known.map(|(_, seen)| *seen)).unwrap_or(now_ms);
        let elapsed_ms = now_ms.saturating_sub(first_ms);
        let mut stop = stop;
        if let Some((known, _)) = known {
            stop.term_after_ms = (elapsed_ms + stop.term_after_ms).min(known.term_after_ms);
            stop.kill_after_ms = (elapsed_ms + stop.kill_after_ms).min(known.kill_after_ms);
        } else {
            self.checkpoint_before = self.checkpoint_version();
        }
        self.stop = Some((stop, first_ms));
    }

    fn checkpoint_version(&self) -> Option<(u64, i64, i64)> {
        version(&self.directory.join(format::JOB).join(format::CHECKPOINT))
    }

    fn look_for_checkpoint(&mut self, now_ms: u64) {
        if self.stop.is_some() && self.saved_ms.is_none() && self.noticed {
            let current = self.checkpoint_version();
            if current.is_some() && current != self.checkpoint_before {
                self.saved_ms = Some(now_ms);
            }
        }
    }

    /// Says whether the attempt was told to end, so that what is left after the main process still has its grace.
    fn is_ending(&self) -> bool {
        self.stop.is_some() || self.stage >= Stage::Terminating
    }

    /// Enters each stage once, in order.
    fn advance(&mut self, stage: Stage) {
        if stage <= self.stage || (matches!(self.state, Main::Ended) && !self.is_ending()) {
            return;
        }
        self.stage = stage;
        let stop = self.stop.as_ref().map(|(stop, _)| stop);
        let signal = match stage {
            Stage::Running => return,
            Stage::Noticing => {
                self.noticed |= stop.is_some_and(|stop| stop.notice);
                self.write_notice();
                stop.map_or(self.spec.signal, |stop| stop.signal)
            }
            Stage::Terminating => libc::SIGTERM,
            Stage::Killing => libc::SIGKILL,
        };
        // Written before the signal: an end that the notice caused must find the phase on disk.
        self.write_phase();
        let Ok(members) = self.members() else { return };
        for process in &members {
            if stage != Stage::Noticing || procs::catches(process.id.pid, signal) {
                procs::signal(process, signal);
            }
        }
    }

    fn write_notice(&self) {
        let timeline = self.timeline();
        let reason = match &self.stop {
            Some((stop, _)) if stop.notice => format!("{}: {}", stop.kind, stop.reason),
            _ => "time limit".to_owned(),
        };
        let left_ms = timeline.kill_ms.saturating_sub(sys::boot_ms());
        let text = format!("reason={reason}\ndeadline_in_ms={left_ms}\nwanted=checkpoint\n");
        let _ = files::replace_unsynced(&self.directory, format::NOTICE, text.as_bytes(), Readers::Everyone);
    }

    fn write_phase(&self) {
        let phase = Phase {
            stage: self.stage,
            started_ms: self.started_ms,
            stop_seen_ms: self.stop.as_ref().map(|(_, seen)| *seen),
            noticed: self.noticed,
        };
        // Not synced: a phase means nothing in another boot.
        let _ = files::replace_unsynced(&self.directory, format::PHASE, &phase.encode(), Readers::Owner);
    }
}

fn told(status: i32) -> Status {
    match sys::decode_status(status) {
        Ok(code) => Status::Code(code),
        Err(signal) => Status::Signal(signal),
    }
}

/// What tells one version of a file from the next.
fn version(path: &Path) -> Option<(u64, i64, i64)> {
    let data = std::fs::symlink_metadata(path).ok()?;
    Some((data.ino(), data.mtime(), data.mtime_nsec()))
}
