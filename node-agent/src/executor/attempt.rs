//! One rank's directory, looked at again and again: what happened to it since.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use shim::files::{self, Readers};
use shim::format::{self, Exit, Phase, Record, Saves, Spec, Status};
use shim::procs::{self, Attempt as Marked, Process};
use shim::{cgroup, sys};

use super::adopt;
use super::run::{Happening, StopOrder};

/// Pause between two tries to start a nurse.
const NURSE_PAUSE: Duration = Duration::from_secs(1);
/// How long the kernel is asked for the exit of a process that nobody of ours waited for.
const EXIT_QUERY: Duration = Duration::from_secs(5);

/// A rank as this agent knows it.
pub(super) struct Attempt {
    pub(super) directory: PathBuf,
    pub(super) spec: Option<Spec>,
    record: Option<Record>,
    /// Held from the first look on: once the process is reaped, only a descriptor from before can tell its exit.
    main_fd: Option<OwnedFd>,
    boot: String,
    is_started: bool,
    is_exited: bool,
    is_gone: bool,
    is_unkillable_told: bool,
    /// The record of its progress that was read last.
    saves: Option<(u64, i64, i64)>,
    /// Since when the agent itself ends what is left.
    killed_since: Option<Instant>,
    next_nurse: Instant,
    orphan_since: Option<Instant>,
}

impl Attempt {
    pub(super) fn open(directory: PathBuf, boot: &str) -> Self {
        let spec = read(&directory, format::SPEC).and_then(|bytes| Spec::decode(&bytes).ok());
        Self {
            directory,
            spec,
            record: None,
            main_fd: None,
            boot: boot.to_owned(),
            is_started: false,
            is_exited: false,
            is_gone: false,
            is_unkillable_told: false,
            saves: None,
            killed_since: None,
            next_nurse: Instant::now(),
            orphan_since: None,
        }
    }

    /// Looks for what happened since the last look, in order.
    pub(super) fn look(&mut self, copy: &Path) -> Vec<Happening> {
        let mut happened = Vec::new();
        if self.is_gone {
            return happened;
        }
        self.look_at_record();
        if !self.is_started && self.record.is_some() {
            self.look_at_phase(&mut happened);
        }
        if !self.is_exited {
            self.look_at_saves(&mut happened);
        }
        self.look_at_unkillable(&mut happened);
        if !self.is_exited {
            match self.exit() {
                Some(exit) => {
                    self.is_exited = true;
                    // Written before the exit: what came between our two looks would be lost.
                    self.look_at_saves(&mut happened);
                    happened.push(Happening::Exited(Box::new(exit)));
                }
                None => self.keep_watched(copy),
            }
        }
        if self.is_exited && self.prove_empty() {
            self.is_gone = true;
            happened.push(Happening::Gone);
        }
        happened
    }

    /// Hands a stop to whoever watches the rank. Doing it twice is doing it once.
    pub(super) fn stop(&self, stop: &StopOrder) -> std::io::Result<()> {
        let signal = self.spec.as_ref().map_or(libc::SIGUSR1, |spec| spec.signal);
        let stop = stop.encoded(signal);
        files::replace(&self.directory, format::STOP, &stop.encode(), Readers::Owner)?;
        wake(&self.directory);
        Ok(())
    }

    fn look_at_record(&mut self) {
        if self.record.is_some() {
            return;
        }
        self.record = read(&self.directory, format::RECORD)
            .and_then(|bytes| Record::decode(&bytes).ok())
            .filter(|record| record.boot == self.boot);
        if let Some(record) = &self.record {
            self.main_fd = sys::pidfd_open(record.main.pid)
                .ok()
                .filter(|_| procs::process(record.main.pid).is_some_and(|main| main.id == record.main));
        }
    }

    fn look_at_phase(&mut self, happened: &mut Vec<Happening>) {
        let phase = read(&self.directory, format::PHASE).and_then(|bytes| Phase::decode(&bytes).ok());
        if let Some(phase) = phase {
            self.is_started = true;
            happened.push(Happening::Started { boot_ms: phase.started_ms });
        }
    }

    /// Reads the record of its progress if it is another one than before.
    fn look_at_saves(&mut self, happened: &mut Vec<Happening>) {
        let Ok(data) = std::fs::symlink_metadata(self.directory.join(format::SAVES)) else { return };
        let version = Some((data.ino(), data.mtime(), data.mtime_nsec()));
        if version == self.saves {
            return;
        }
        if let Some(saves) = self.read_saves() {
            self.saves = version;
            if saves.saved_ms.is_some() || saves.signed_ms.is_some() {
                happened.push(Happening::Saved { saved_ms: saves.saved_ms, signed_ms: saves.signed_ms });
            }
        }
    }

    fn read_saves(&self) -> Option<Saves> {
        let saves = read(&self.directory, format::SAVES).and_then(|bytes| Saves::decode(&bytes).ok());
        saves.filter(|saves| saves.boot == self.boot)
    }

    fn look_at_unkillable(&mut self, happened: &mut Vec<Happening>) {
        if self.is_unkillable_told {
            return;
        }
        let Some(bytes) = read(&self.directory, format::UNKILLABLE) else { return };
        self.is_unkillable_told = true;
        let what = format::Fields::parse(&bytes).and_then(|fields| fields.text(format::WHAT));
        happened.push(Happening::Unkillable { what: what.unwrap_or_else(|_| "processes of it".to_owned()) });
    }

    /// Reads the exit. One that can't be read is unknown, and as final as any other.
    fn exit(&self) -> Option<Exit> {
        let bytes = match files::read(&self.directory, format::EXIT) {
            Ok(bytes) => bytes?,
            Err(_) => return Some(self.unknown("its exit can't be read")),
        };
        Some(Exit::decode(&bytes).unwrap_or_else(|_| self.unknown("its exit is not whole")))
    }

    fn unknown(&self, why: &str) -> Exit {
        self.exit_with(Status::Unknown(why.to_owned()))
    }

    fn exit_with(&self, status: Status) -> Exit {
        let stop = read(&self.directory, format::STOP).and_then(|bytes| format::Stop::decode(&bytes).ok());
        let phase = read(&self.directory, format::PHASE).and_then(|bytes| Phase::decode(&bytes).ok());
        Exit {
            boot: self.boot.clone(),
            status,
            launch: None,
            started_ms: phase.map(|phase| phase.started_ms),
            ended_ms: sys::boot_ms(),
            asked: stop.as_ref().map(|stop| stop.kind.clone()),
            generation: stop.map(|stop| stop.generation),
            noticed: phase.is_some_and(|phase| phase.noticed),
            saved_ms: self.read_saves().and_then(|saves| saves.saved_ms),
            user_ms: 0,
            system_ms: 0,
            peak_rss_kib: 0,
            writer: "agent".to_owned(),
        }
    }

    /// Says whether a shim or a nurse has the rank.
    fn is_watched(&self) -> bool {
        let Ok(file) = std::fs::File::open(self.directory.join(format::LOCK)) else { return false };
        sys::lock(file.as_raw_fd()).is_err()
    }

    /// The table of re-adoption, for a rank without an exit. The watcher is asked for first: as long as there is one, the
    /// exit is its to write.
    fn keep_watched(&mut self, copy: &Path) {
        if self.is_watched() {
            self.orphan_since = None;
            self.reap_for_nurse();
            return;
        }
        // The shim may have written its exit between our look and its end.
        if self.directory.join(format::EXIT).exists() {
            return;
        }
        self.look_at_record();
        let Some(record) = self.record.clone() else { return self.end_unrecorded() };
        if procs::is_alive(record.main) {
            if Instant::now() >= self.next_nurse {
                self.next_nurse = Instant::now() + NURSE_PAUSE;
                let _ = super::launch::start(copy, "--nurse", &self.directory);
            }
            return;
        }
        let since = *self.orphan_since.get_or_insert_with(Instant::now);
        let status = sys::reap_pid(record.main.pid)
            .or_else(|| self.main_fd.as_ref().and_then(sys::pidfd_exit_status))
            .map(told);
        let status = match status {
            Some(status) => status,
            None if self.main_fd.is_some() && since.elapsed() < EXIT_QUERY => return,
            None => Status::Unknown("shim and main process ended unseen".to_owned()),
        };
        self.write_exit(&self.exit_with(status));
    }

    /// A launch that left no record: nothing of the job was executed, unless somebody took the record away.
    fn end_unrecorded(&mut self) {
        match self.members() {
            Ok(members) if members.is_empty() => {}
            _ => return,
        }
        let since = *self.orphan_since.get_or_insert_with(Instant::now);
        // A shim that was forked but hasn't its lock yet finds this exit and starts nothing; one that has it is watched.
        if since.elapsed() < NURSE_PAUSE {
            return;
        }
        let mut exit = self.unknown("the shim ended before it started anything");
        exit.launch = Some(format::LaunchFailure { step: format::Step::Fork, errno: libc::ESRCH });
        self.write_exit(&exit);
    }

    /// Writes an exit under the lock, so that no shim and no nurse writes one at the same time.
    fn write_exit(&self, exit: &Exit) {
        let Ok(_lock) = adopt::lock(&self.directory) else { return };
        if !self.directory.join(format::EXIT).exists() {
            // If the disk is full the next look tries again.
            let _ = files::replace(&self.directory, format::EXIT, &exit.encode(), Readers::Owner);
        }
    }

    /// A nurse can't wait for a process that is not its child. If it is ours (an agent inherits what a shim leaves), the nurse
    /// learns the exit from what we reaped.
    fn reap_for_nurse(&self) {
        let Some(record) = &self.record else { return };
        if procs::is_alive(record.shim) || procs::is_alive(record.main) {
            return;
        }
        if let Some(status) = sys::reap_pid(record.main.pid) {
            let mut out = format::Writer::new();
            out.show("status", status);
            let _ = files::replace_unsynced(&self.directory, format::REAPED, &out.finish(), Readers::Owner);
        }
    }

    fn members(&self) -> std::io::Result<Vec<Process>> {
        // Without the mark nobody can say that nothing is left.
        let spec = self.spec.as_ref().ok_or(std::io::ErrorKind::InvalidData)?;
        let record = self.record.as_ref();
        procs::members(Marked {
            mark: &spec.mark,
            shim: record.map(|record| record.shim),
            main: record.map(|record| record.main),
            cgroup: spec.group(),
        })
    }

    /// Ends what is left where no shim does, and says so if it is there long after.
    fn kill(&mut self, members: &[Process]) {
        if let Some(group) = self.spec.as_ref().and_then(Spec::group) {
            cgroup::kill(group);
        }
        for process in members {
            procs::signal(process, libc::SIGKILL);
            sys::reap_pid(process.id.pid);
        }
        let since = *self.killed_since.get_or_insert_with(Instant::now);
        let limit =
            self.spec.as_ref().map_or(Duration::MAX, |spec| Duration::from_millis(spec.unkillable_ms));
        if !self.is_unkillable_told && since.elapsed() >= limit {
            // If the disk is full the next look tries again.
            let _ = shim::watch::tell_unkillable(&self.directory, members);
        }
    }

    /// After the exit: nothing of the rank may be left. Its watcher sees to it; without one the agent does.
    fn prove_empty(&mut self) -> bool {
        if self.directory.join(format::EMPTY).exists() {
            // Looked at again: the proof may be of an earlier boot or from before a bug of ours.
            return matches!(self.members(), Ok(members) if members.is_empty());
        }
        if self.is_watched() {
            return false;
        }
        match self.members() {
            Ok(members) if members.is_empty() => {
                if let Some(group) = self.spec.as_ref().and_then(Spec::group) {
                    cgroup::remove(group);
                }
                let empty = format::Writer::new().finish();
                // Looked at again in another boot, so a loss of power may take it.
                files::replace_unsynced(&self.directory, format::EMPTY, &empty, Readers::Owner).is_ok()
            }
            Ok(members) => {
                self.kill(&members);
                false
            }
            Err(_) => false,
        }
    }
}

fn told(status: i32) -> Status {
    match sys::decode_status(status) {
        Ok(code) => Status::Code(code),
        Err(signal) => Status::Signal(signal),
    }
}

fn read(directory: &Path, name: &str) -> Option<Vec<u8>> {
    files::read(directory, name).ok().flatten()
}

/// Makes the watcher look now. Without one nobody has the FIFO open, and nothing happens.
fn wake(directory: &Path) {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW);
    if let Ok(mut fifo) = options.open(directory.join(format::WAKE)) {
        let _ = fifo.write_all(b"w");
    }
}
