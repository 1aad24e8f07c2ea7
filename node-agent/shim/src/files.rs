//! Files of the contract: written whole or not at all, read with a limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::format::SIZE_MAX;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// The agent's account.
    Owner,
    /// Everyone who knows the path: the job.
    Everyone,
}

/// Replaces the file `name` in `directory`: a temporary file, fsync, rename, fsync of the directory. When this returns the
/// content survives a loss of power.
///
/// # Errors
///
/// The system's, of any of the steps; then the old file is untouched.
pub fn replace(directory: &Path, name: &str, content: &[u8], readers: Readers) -> io::Result<()> {
    put(directory, name, content, readers)?;
    sync_directory(directory)
}

/// As [`replace`], but not waiting for the directory: for files that mean nothing after a loss of power.
///
/// # Errors
///
/// The system's, of any of the steps; then the old file is untouched.
pub fn replace_unsynced(directory: &Path, name: &str, content: &[u8], readers: Readers) -> io::Result<()> {
    let temporary = directory.join(format!("{name}.tmp"));
    fill(&temporary, content, readers)?;
    std::fs::rename(temporary, directory.join(name))
}

/// As [`replace`], without the last step: for several files at once, followed by one [`sync_directory`].
///
/// # Errors
///
/// The system's, of any of the steps; then the old file is untouched.
pub fn put(directory: &Path, name: &str, content: &[u8], readers: Readers) -> io::Result<()> {
    let temporary = directory.join(format!("{name}.tmp"));
    fill(&temporary, content, readers)?.sync_all()?;
    std::fs::rename(temporary, directory.join(name))
}

/// Puts the blocks of a small file aside, so that [`replace`] of `name` works on a disk that is full by then.
///
/// # Errors
///
/// The system's: the disk is full already.
pub fn reserve(directory: &Path, name: &str) -> io::Result<()> {
    fill(&directory.join(format!("{name}.tmp")), &[0; 4_096], Readers::Owner).map(drop)
}

fn fill(path: &Path, content: &[u8], readers: Readers) -> io::Result<File> {
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::Everyone => 0o644,
    };
    // Cut to its length only after writing: the file may hold blocks that were put aside.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(mode).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))?;
    Ok(file)
}

/// Makes renames in a directory durable.
///
/// # Errors
///
/// The system's.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Reads a file of the contract; `None` if there is none.
///
/// # Errors
///
/// The system's; a file that is no plain one or larger than [`SIZE_MAX`] is `InvalidData`.
pub fn read(directory: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(directory.join(name)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let data = file.metadata()?;
    if !data.is_file() || data.len() > SIZE_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    let mut content = Vec::new();
    file.take(SIZE_MAX).read_to_end(&mut content)?;
    Ok(Some(content))
}
