//! The data directory: who holds it, and how much room is left.

use std::fmt;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A small file that is written in place.
pub(crate) trait InPlace: Send + fmt::Debug {
    /// Fills `bytes` from the offset; `UnexpectedEof` if the file is shorter.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes all of `bytes` at the offset.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Returns once everything written before is durable.
    fn sync(&self) -> io::Result<()>;
}

impl InPlace for File {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Room on the file system of the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeDisk {
    /// Bytes that this process may still write.
    pub free_bytes: u64,
    /// Size of the file system in bytes.
    pub total_bytes: u64,
}

impl FreeDisk {
    /// Asks the file system that holds `dir`.
    pub(crate) fn of(dir: &Path) -> io::Result<Self> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(Self {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    /// Whether new work must be refused: less than 5 % or less than 1 GiB is left.
    pub fn is_low(&self) -> bool {
        self.free_bytes < 1 << 30 || self.free_bytes < self.total_bytes / 20
    }
}

/// What log and snapshots take on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of the snapshots.
    pub snapshot_bytes: u64,
}

impl DiskUse {
    /// Adds up the files in `dir`. What goes while it is looked at is left out.
    pub(crate) fn of(dir: &Path) -> Self {
        Self { log_bytes: bytes_below(&dir.join("log")), snapshot_bytes: bytes_below(&dir.join("snap")) }
    }
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|entry| {
        let seen = entry.metadata().ok()?;
        Some(if seen.is_dir() { bytes_below(&entry.path()) } else { seen.len() })
    });
    bytes.sum()
}

/// Has what is read of the files in `dir`, and below it, come from the disk: after a write that failed the system shows
/// what was to be written as if it had been, and calls it durable at the next sync. What is only not written yet stays.
///
/// It is a wish: a file system that knows no such thing, or a file that cannot be opened, stops nobody here. Whoever reads
/// the file afterwards says what is wrong with it.
pub fn forget_cached(dir: &Path) {
    if let Err(cause) = forget_below(dir) {
        tracing::warn!(dir = %dir.display(), %cause, "what is read here may come from memory and not from the disk");
    }
}

/// Goes on behind a failure; returns the last.
fn forget_below(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut done = Ok(());
    for entry in entries {
        let forgotten = entry.and_then(|entry| {
            let kind = entry.file_type()?;
            if kind.is_dir() {
                forget_below(&entry.path())
            } else if kind.is_file() {
                let file = File::open(entry.path())?;
                Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
            } else {
                Ok(())
            }
        });
        done = forgotten.and(done);
    }
    done
}

/// An exclusive hold on a data directory; ends with the value, or with the process.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

/// Why the directory could not be taken.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another process has it; its number as it wrote it.
    Held(String),
    /// The file system refused.
    Io(io::Error),
}

/// How long a starting replica waits for its predecessor to be really gone.
const PATIENCE: Duration = Duration::from_secs(3);

impl DirLock {
    /// Makes `dir` if need be (mode 0700) and takes it for this process.
    pub(crate) fn take(dir: &Path) -> Result<Self, LockError> {
        make_private(dir).map_err(LockError::Io)?;
        let path: PathBuf = dir.join("lock");
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(LockError::Io)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(cause)) => return Err(LockError::Io(cause)),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    file.read_to_string(&mut holder).map_err(LockError::Io)?;
                    return Err(LockError::Held(holder.trim().to_owned()));
                }
            }
        }
        file.set_len(0).map_err(LockError::Io)?;
        file.rewind().map_err(LockError::Io)?;
        writeln!(file, "{}", std::process::id()).map_err(LockError::Io)?;
        Ok(Self { _file: file })
    }
}

/// Makes a directory that only its owner can enter, and narrows one that is there.
pub(crate) fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mut mode = fs::metadata(dir)?.permissions();
    if mode.mode() & 0o077 != 0 {
        mode.set_mode(0o700);
        fs::set_permissions(dir, mode)?;
    }
    Ok(())
}
