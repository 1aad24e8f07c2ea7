//! What a job says of its checkpoints, by three ways: datagrams, a file that it replaces, and completion markers. All of it is
//! hostile input: read with a limit, never followed, never believed about time.

use std::fs::{OpenOptions, Permissions};
use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use crate::files::{self, Readers};
use crate::format::{self, Marker, Saves, Spec, Version};
use crate::report::{self, REPORT_MAX, Report};
use crate::scan::Scans;
use crate::sys;

/// The longest path of a socket that programs can name, in bytes.
pub const SOCKET_PATH_MAX: usize = 107;
/// Datagrams that are read at once.
const BATCH_MAX: usize = 256;
/// Pause after a batch, so that a flood of them costs little.
const SOCKET_PAUSE_MS: u64 = 10;
/// Pause between two looks at the report file.
const FILE_PAUSE_MS: u64 = 100;
/// The shortest time between two writings of the record.
const WRITE_PAUSE_MS: u64 = 1_000;

/// A job's progress, as this process heard of it.
#[derive(Debug)]
pub struct Progress {
    directory: PathBuf,
    saves: Saves,
    is_dirty: bool,
    socket: Option<UnixDatagram>,
    scans: Scans,
    next_socket_ms: u64,
    next_file_ms: u64,
    next_write_ms: u64,
}

impl Progress {
    /// Opens the ways to report, going on from what a shim before this one noted in this boot.
    pub fn open(directory: &Path, spec: &Spec, boot: &str) -> Self {
        let saves = files::read(directory, format::SAVES).ok().flatten();
        let saves = saves.and_then(|bytes| Saves::decode(&bytes).ok()).filter(|saves| saves.boot == boot);
        Self {
            directory: directory.to_owned(),
            saves: saves.unwrap_or_else(|| Saves { boot: boot.to_owned(), ..Saves::default() }),
            is_dirty: false,
            // Without it the file and the markers are left.
            socket: bind(directory, spec).ok(),
            scans: Scans::default(),
            next_socket_ms: 0,
            next_file_ms: 0,
            next_write_ms: 0,
        }
    }

    /// When the newest checkpoint was heard of.
    pub fn saved_ms(&self) -> Option<u64> {
        self.saves.saved_ms
    }

    /// A process of ours that is a child of this one and none of the job's.
    pub fn scanner(&self) -> Option<i32> {
        self.scans.pid()
    }

    /// Notes that a child of this process was reaped.
    pub fn reaped(&mut self, pid: i32) {
        self.scans.reaped(pid);
    }

    /// What can be read when there is news: the socket, unless it has its pause, and a scan's answer.
    pub fn fds(&self, now_ms: u64) -> [Option<RawFd>; 2] {
        let socket = self.socket.as_ref().filter(|_| now_ms >= self.next_socket_ms);
        [socket.map(AsRawFd::as_raw_fd), self.scans.fd()]
    }

    /// When there is something to do that nothing wakes for.
    pub fn due_ms(&self, spec: &Spec, is_noticed: bool) -> u64 {
        let scan_ms = spec.checkpoint_glob.as_ref().map(|_| self.scans.due_ms(is_noticed));
        let write_ms = self.is_dirty.then_some(self.next_write_ms);
        let socket_ms = (self.socket.is_some() && self.next_socket_ms > 0).then_some(self.next_socket_ms);
        [scan_ms, write_ms, socket_ms].into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Takes what there is.
    pub fn look(&mut self, spec: &Spec, is_noticed: bool, now_ms: u64) {
        if now_ms >= self.next_socket_ms {
            self.next_socket_ms = 0;
            if self.look_at_socket(now_ms) {
                self.next_socket_ms = now_ms + SOCKET_PAUSE_MS;
            }
        }
        if now_ms >= self.next_file_ms {
            self.next_file_ms = now_ms + FILE_PAUSE_MS;
            self.look_at_file(now_ms);
        }
        if let Some(pattern) = &spec.checkpoint_glob
            && let Some(newest) = self.scans.look(spec, pattern, is_noticed, now_ms)
        {
            self.take_marker(newest, now_ms);
        }
        if self.is_dirty && now_ms >= self.next_write_ms {
            self.write(now_ms);
        }
    }

    /// Takes the last there is before the end is written down.
    pub fn finish(&mut self, now_ms: u64) {
        self.look_at_socket(now_ms);
        self.look_at_file(now_ms);
        if self.is_dirty {
            self.write(now_ms);
        }
    }

    /// Ends what belongs to it.
    pub fn close(&mut self) {
        self.scans.end();
        self.socket = None;
        let _ = std::fs::remove_file(self.directory.join(format::SOCKET));
    }

    /// Says whether there was anything.
    fn look_at_socket(&mut self, now_ms: u64) -> bool {
        let mut heard = Vec::new();
        let mut any = false;
        if let Some(socket) = &self.socket {
            // One byte more than is allowed: a longer one is cut by the kernel, and so found out.
            let mut buffer = [0; REPORT_MAX + 1];
            for _ in 0..BATCH_MAX {
                let Ok(length) = socket.recv(&mut buffer) else { break };
                any = true;
                if let Some(report) = report::read(&buffer[..length])
                    && !heard.contains(&report)
                {
                    heard.push(report);
                }
            }
        }
        heard.into_iter().for_each(|report| self.take(report, now_ms));
        any
    }

    fn look_at_file(&mut self, now_ms: u64) {
        let path = self.directory.join(format::JOB).join(format::CHECKPOINT);
        let Some(version) = version(&path) else { return };
        if self.saves.file == Some(version) {
            return;
        }
        self.saves.file = Some(version);
        self.is_dirty = true;
        if let Some(report) = read(&path).and_then(|bytes| report::read(&bytes)) {
            self.take(report, now_ms);
        }
    }

    fn take(&mut self, report: Report, now_ms: u64) {
        if report == Report::Saved {
            self.saves.saved_ms = Some(now_ms);
        }
        self.saves.signed_ms.get_or_insert(now_ms);
        self.is_dirty = true;
    }

    /// The first scan tells what was there before; later ones whether there is anything newer. When it was seen counts.
    fn take_marker(&mut self, newest: Marker, now_ms: u64) {
        let known = self.saves.marker;
        if known.is_none_or(|known| known < newest) {
            self.saves.marker = Some(newest);
            self.is_dirty = true;
            if known.is_some() {
                self.take(Report::Saved, now_ms);
            }
        }
    }

    fn write(&mut self, now_ms: u64) {
        self.next_write_ms = now_ms + WRITE_PAUSE_MS;
        // Not synced: a time of the boot clock means nothing in another boot.
        let written =
            files::replace_unsynced(&self.directory, format::SAVES, &self.saves.encode(), Readers::Owner);
        self.is_dirty = written.is_err();
    }
}

/// Makes the socket, for the job's account alone. It lies in a directory that the job can't change.
fn bind(directory: &Path, spec: &Spec) -> std::io::Result<UnixDatagram> {
    let path = directory.join(format::SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mask = sys::set_umask(0o177);
    let bound = UnixDatagram::bind(&path);
    sys::set_umask(mask);
    let socket = bound?;
    socket.set_nonblocking(true)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    if let Some(account) = &spec.account {
        std::os::unix::fs::lchown(&path, Some(account.uid), Some(account.gid))?;
    }
    Ok(socket)
}

fn version(path: &Path) -> Option<Version> {
    let data = std::fs::symlink_metadata(path).ok()?;
    let changed = Marker { seconds: data.mtime(), nanos: data.mtime_nsec() };
    Some(Version { inode: data.ino(), changed })
}

/// Reads a small plain file that the job may replace by anything at any moment.
fn read(path: &Path) -> Option<Vec<u8>> {
    let limit = u64::try_from(REPORT_MAX).ok()?;
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    // Looked at before it is opened too: opening a device may do something.
    let is_small = |data: &std::fs::Metadata| data.is_file() && data.len() <= limit;
    std::fs::symlink_metadata(path).ok().filter(is_small)?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok().filter(is_small)?;
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content).ok()?;
    Some(content)
}
