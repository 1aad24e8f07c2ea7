//! Files of a history directory: their names, and changes of them that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::error::Error;

/// So many files that were set aside are kept.
const ASIDE_MAX: usize = 16;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A sealed segment.
    Sealed,
    /// The segment that is being written.
    Open,
    /// A segment that comes from a peer.
    Part,
}

impl Role {
    const ALL: [Self; 3] = [Self::Sealed, Self::Open, Self::Part];

    const fn ending(self) -> &'static str {
        match self {
            Self::Sealed => "seg",
            Self::Open => "open",
            Self::Part => "part",
        }
    }
}

/// Returns the path of the segment that begins at `from`.
pub(super) fn path(dir: &Path, from: u64, role: Role) -> PathBuf {
    dir.join(format!("{from:020}.{}", role.ending()))
}

/// Returns what is in the directory by its name: where each begins, and what it is.
pub(super) fn list(dir: &Path) -> Result<Vec<(u64, Role)>, Error> {
    let failed = |cause| Error::io("list", dir)(cause);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some((stem, ending)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
        let role = Role::ALL.into_iter().find(|role| role.ending() == ending);
        let from = if stem.len() == 20 { stem.parse().ok() } else { None };
        found.extend(from.zip(role));
    }
    found.sort_unstable_by_key(|(from, role)| (*from, role.ending()));
    Ok(found)
}

/// Makes a directory for this account alone.
pub(super) fn make_dir(dir: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(Error::io("make", dir))
}

/// Opens a file for reading and writing, made if it is not there.
pub(super) fn open_or_make(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.open(path).map_err(Error::io("open", path))
}

/// Opens a file for reading; none if it is not there.
pub(super) fn open(path: &Path) -> Result<Option<File>, Error> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::io("open", path)(cause)),
    }
}

/// Makes a file durable.
pub(super) fn sync(file: &File, path: &Path) -> Result<(), Error> {
    #[cfg(test)]
    if let Some(cause) = fails_now(path) {
        return Err(Error::io("sync", path)(cause));
    }
    file.sync_all().map_err(Error::io("sync", path))
}

/// The file whose next sync fails, as when its disk cannot write.
#[cfg(test)]
pub(super) static FAILS: std::sync::Mutex<Option<PathBuf>> = std::sync::Mutex::new(None);

#[cfg(test)]
fn fails_now(path: &Path) -> Option<io::Error> {
    let mut fails = FAILS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    fails.take_if(|fails| fails == path).map(|_| io::Error::other("the disk cannot write"))
}

/// Makes a directory's names durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io("sync", dir))
}

/// Replaces a file whole, durably.
pub(super) fn replace(dir: &Path, name: &str, content: &[u8]) -> Result<(), Error> {
    let (path, new) = (dir.join(name), dir.join(format!("{name}.new")));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let write = || {
        let mut file = options.open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    };
    write().map_err(Error::io("replace", &path))?;
    sync_dir(dir)
}

/// Removes a file; one that is not there is removed.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(cause)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Moves a file that cannot be used where a person can look at it. The oldest of many go.
pub(super) fn set_aside(dir: &Path, path: &Path) -> Result<(), Error> {
    let aside = dir.join("aside");
    make_dir(&aside)?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("file");
    let mut n = 0_u32;
    let mut to = aside.join(name);
    while to.exists() {
        n += 1;
        to = aside.join(format!("{name}.{n}"));
    }
    fs::rename(path, &to).map_err(Error::io("set aside", path))?;
    sync_dir(dir)?;
    let mut kept: Vec<_> = fs::read_dir(&aside)
        .map_err(Error::io("list", &aside))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .map(|path| (fs::metadata(&path).and_then(|meta| meta.modified()).ok(), path))
        .collect();
    kept.sort();
    let surplus = kept.len().saturating_sub(ASIDE_MAX);
    kept.iter().take(surplus).try_for_each(|(_, path)| remove(path))
}
