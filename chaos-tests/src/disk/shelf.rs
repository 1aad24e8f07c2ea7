//! File systems that are made for a run and taken down after it, whatever becomes of the run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::lab::{Identity, alive, identity, try_until};

/// What the folders of all shelves begin with; then come the process that made them, and when that one started.
const PREFIX: &str = "bursar-disks";
/// How long a file system may be busy after its last user is gone.
const BUSY: Duration = Duration::from_secs(10);

/// Why this machine has no disks for a lab.
#[derive(Debug, Clone, thiserror::Error)]
#[error("disks of our own: {0}")]
pub struct Unavailable(pub String);

/// A folder in which file systems are mounted. Dropping it takes down what is still mounted there.
#[derive(Debug)]
pub struct Shelf {
    folder: PathBuf,
}

/// What kind of disk is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// ext4 in a file of so many MiB.
    Ext4 {
        /// Its size.
        mib: u64,
    },
    /// The same without a journal: nothing is written to its device but what programs write.
    Unjournaled {
        /// Its size.
        mib: u64,
    },
    /// ext4 in a file that claims so many MiB, on a file system in memory that has fewer.
    Overcommitted {
        /// What it claims.
        mib: u64,
        /// What there is.
        real_mib: u64,
    },
    /// A file system in memory of so many MiB.
    Memory {
        /// Its size.
        mib: u64,
    },
}

/// A file system, in its file or in memory, mounted unless it is being worked on.
#[derive(Debug)]
pub struct Disk {
    make: Make,
    at: PathBuf,
    /// The file system in memory that the image lies in.
    below: Option<PathBuf>,
    image: PathBuf,
}

impl Shelf {
    /// Makes a shelf, after taking down what runs that are over have left.
    ///
    /// # Errors
    /// When no folder can be made.
    pub fn new() -> Result<Self> {
        take_down_leftovers();
        let pid = i32::try_from(std::process::id()).context("Linux has no larger process numbers")?;
        let own = identity(pid).context("this process is not in /proc")?;
        let prefix = format!("{PREFIX}-{}-{}-", own.pid, own.started);
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir().context("no folder for disks")?;
        Ok(Self { folder: folder.keep() })
    }

    /// Makes a disk and mounts it.
    ///
    /// # Errors
    /// When this machine does not have such disks.
    pub fn disk(&self, name: &str, make: Make) -> Result<Disk, Unavailable> {
        self.make(name, make).map_err(|error| Unavailable(format!("{error:#}")))
    }

    fn make(&self, name: &str, make: Make) -> Result<Disk> {
        let at = self.folder.join(name);
        fs::create_dir_all(&at).with_context(|| format!("failed to make {}", at.display()))?;
        let mut disk = Disk { make, at, below: None, image: self.folder.join(format!("{name}.ext4")) };
        let (mib, room) = match make {
            Make::Ext4 { mib } | Make::Unjournaled { mib } => (mib, None),
            Make::Overcommitted { mib, real_mib } => (mib, Some(real_mib)),
            Make::Memory { .. } => {
                disk.mount()?;
                return Ok(disk);
            }
        };
        if let Some(room) = room {
            let below = self.folder.join(format!("{name}.below"));
            fs::create_dir_all(&below).with_context(|| format!("failed to make {}", below.display()))?;
            mount_memory(&below, room)?;
            disk.image = below.join("ext4");
            disk.below = Some(below);
        }
        let file = File::create(&disk.image).context("failed to make an image")?;
        file.set_len(mib << 20).context("failed to make an image")?;
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-F"]);
        if matches!(make, Make::Unjournaled { .. }) {
            mkfs.args(["-O", "^has_journal"]);
        }
        run(mkfs.arg(&disk.image))?;
        disk.mount()?;
        Ok(disk)
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        take_down(&self.folder);
    }
}

impl Disk {
    /// Returns where it is mounted.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Returns the file that it lies in.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Returns the folder of the file system that its image takes its room from, if it claims more than there is.
    pub fn below(&self) -> Option<&Path> {
        self.below.as_deref()
    }

    /// Mounts it.
    ///
    /// # Errors
    /// With what the system said.
    pub fn mount(&mut self) -> Result<()> {
        match self.make {
            Make::Memory { mib } => mount_memory(&self.at, mib),
            Make::Ext4 { .. } | Make::Unjournaled { .. } | Make::Overcommitted { .. } => {
                // What ext4 does by default, said aloud: after an error of its own nothing is written any more.
                let options = "loop,errors=remount-ro";
                run(Command::new("mount").args(["-t", "ext4", "-o", options]).arg(&self.image).arg(&self.at))
            }
        }
    }

    /// Unmounts it, once nobody uses it any more.
    ///
    /// # Errors
    /// With what the system said.
    pub fn unmount(&mut self) -> Result<()> {
        unmount(&self.at)
    }

    /// Lets the file system's own check mend what it can; it must not be mounted.
    ///
    /// # Errors
    /// When it cannot.
    pub fn mend(&self) -> Result<()> {
        let said = Command::new("e2fsck").args(["-f", "-y"]).arg(&self.image).output();
        let said = said.context("failed to run e2fsck")?;
        // 1: errors were corrected.
        if matches!(said.status.code(), Some(0 | 1)) { Ok(()) } else { bail!("e2fsck: {said:?}") }
    }

    /// Returns the loop device below it.
    ///
    /// # Errors
    /// When it is not mounted, or lies in memory.
    pub fn device(&self) -> Result<String> {
        let mounted = mounts();
        let found = mounted.iter().rev().find(|(_, at)| *at == self.at);
        let (device, _) = found.with_context(|| format!("{} is not mounted", self.at.display()))?;
        Ok(device.clone())
    }
}

fn mount_memory(at: &Path, mib: u64) -> Result<()> {
    run(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "bursar"]).arg(at))
}

fn unmount(at: &Path) -> Result<()> {
    let mut last = None;
    let done = try_until(BUSY, || match run(Command::new("umount").arg(at)) {
        Ok(()) => Some(()),
        Err(error) => {
            last = Some(error);
            None
        }
    });
    match (done, last) {
        (Some(()), _) | (None, None) => Ok(()),
        (None, Some(error)) => Err(error.context(format!("failed to unmount {}", at.display()))),
    }
}

/// Runs a program of the system to its end.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let Output { status, stderr, .. } =
        command.output().with_context(|| format!("failed to run {command:?}"))?;
    if !status.success() {
        bail!("{:?}: {}", command.get_program(), String::from_utf8_lossy(&stderr).trim());
    }
    Ok(())
}

/// Returns what is mounted: the device and the place, in the order of mounting.
fn mounts() -> Vec<(String, PathBuf)> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let words = text.lines().map(|line| line.split(' ').map(String::from).collect::<Vec<_>>());
    words.filter_map(|words| Some((words.first()?.clone(), words.get(1)?.into()))).collect()
}

/// Unmounts everything below a folder, the last first, and removes the folder.
fn take_down(folder: &Path) {
    for (_, at) in mounts().into_iter().rev().filter(|(_, at)| at.starts_with(folder)) {
        // Nobody can let go of a file system that stands still.
        let _ = Command::new("fsfreeze").arg("--unfreeze").arg(&at).output();
        if let Err(error) = unmount(&at) {
            eprintln!("{error:#}; it goes when its last user does");
            let _ = run(Command::new("umount").arg("--lazy").arg(&at));
        }
    }
    if let Err(error) = fs::remove_dir_all(folder) {
        eprintln!("failed to remove {}: {error}", folder.display());
    }
}

/// Takes down the shelves of processes that are no more.
fn take_down_leftovers() {
    let folders = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for folder in folders.map(|entry| entry.path()) {
        let is_over = maker(&folder).is_some_and(|maker| !alive(maker));
        if is_over {
            eprintln!("taking down what a run that is over left in {}", folder.display());
            take_down(&folder);
        }
    }
}

/// Returns who made a shelf, by its name.
fn maker(folder: &Path) -> Option<Identity> {
    let name = folder.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_prefix('-')?;
    let mut numbers = name.split('-');
    Some(Identity { pid: numbers.next()?.parse().ok()?, started: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shelf_s_name_tells_who_made_it() {
        let maker = maker(Path::new("/tmp/bursar-disks-17-4242-Xy1")).expect("a shelf");
        assert_eq!(maker, Identity { pid: 17, started: 4242 });
        assert_eq!(super::maker(Path::new("/tmp/bursar-lab-17-4242-x")), None);
    }
}
