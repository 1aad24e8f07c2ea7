//! What happens to a disk.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl, opcode};

use super::shelf::{Disk, run};
use crate::lab::try_until;

impl Disk {
    /// Takes the power: nothing more reaches the image, not even the file system's journal. What was synced is there
    /// when it is mounted again, and nothing else need be.
    ///
    /// # Errors
    /// When the file system cannot be told.
    pub fn cut_power(&self) -> Result<()> {
        /// Do not write the journal out.
        const NO_LOG_FLUSH: u32 = 2;
        let folder = File::open(self.at()).context("failed to open a disk")?;
        // SAFETY: EXT4_IOC_SHUTDOWN reads one u32, which the setter passes by pointer.
        let down = unsafe {
            ioctl(folder.as_fd(), Setter::<{ opcode::read::<u32>(b'X', 125) }, u32>::new(NO_LOG_FLUSH))
        };
        down.context("failed to cut the power of a disk")
    }

    /// Makes what is written so far survive a power cut, whoever wrote it.
    ///
    /// # Errors
    /// When the file system cannot be synced.
    pub fn sync(&self) -> Result<()> {
        run(Command::new("sync").arg("--file-system").arg(self.at()))
    }

    /// Lets it stand still until the value is dropped: writes wait.
    ///
    /// # Errors
    /// When it cannot be told to.
    pub fn freeze(&self) -> Result<Frozen> {
        run(Command::new("fsfreeze").arg("--freeze").arg(self.at()))?;
        Ok(Frozen(self.at().to_owned()))
    }

    /// Has ext4 find an error of its own: it is read-only from now on, until it is mounted again.
    ///
    /// # Errors
    /// When it cannot be told to.
    pub fn fail_to_read_only(&self) -> Result<()> {
        let device = self.device()?;
        let name = device.rsplit('/').next().context("a device has a name")?;
        fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "made by a test\n")
            .context("failed to have ext4 find an error")
    }

    /// Takes the part of the device away that begins in the middle of a file, under the mounted file system: what lies
    /// there and is not in memory cannot be read any more. Returns how many bytes of the device are left.
    ///
    /// # Errors
    /// When it cannot be found where the file lies, or the image cannot be shortened.
    pub fn lose_from_the_middle_of(&self, file: &Path) -> Result<u64> {
        let said = Command::new("filefrag").args(["-v", "-b1024"]).arg(file).output();
        let said = said.context("failed to run filefrag")?;
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        let (first, last) =
            text.lines().filter_map(extent).max().with_context(|| format!("{file:?}: {text}"))?;
        let keep = (first + last) / 2 * 1024;
        let image = File::options().write(true).open(self.image()).context("failed to open an image")?;
        image.set_len(keep).context("failed to shorten an image")?;
        Ok(keep)
    }

    /// Fills it until only so much is left; it is free again when the value is dropped.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn fill(&self, left: u64) -> Result<Ballast> {
        Ballast::put(self.at(), left)
    }

    /// Fills it wholly, a replica's reserve included.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn fill_up(&self) -> Result<Ballast> {
        Ballast::put_again_and_again(self.at())
    }
}

/// Reads the first and the last block of an extent from a line such as `0: 0.. 4095: 10241.. 14336: 4096: eof`.
fn extent(line: &str) -> Option<(u64, u64)> {
    let mut parts = line.split(':');
    parts.next()?.trim().parse::<u64>().ok()?;
    let (first, last) = parts.nth(1)?.split_once("..")?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

/// A file system that stands still; goes on when this is dropped.
#[derive(Debug)]
pub struct Frozen(PathBuf);

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("fsfreeze").arg("--unfreeze").arg(&self.0)) {
            eprintln!("{error:#}");
        }
    }
}

/// A file that takes room away; gone when dropped.
#[derive(Debug)]
pub struct Ballast(PathBuf);

impl Ballast {
    /// Puts one into a folder, so large that only so many bytes are left; what others give up afterwards stays free.
    ///
    /// # Errors
    /// When the room cannot be taken.
    pub fn put(folder: &Path, left: u64) -> Result<Self> {
        let ballast = Self::new(folder)?;
        ballast.grow(left)?;
        Ok(ballast)
    }

    /// Puts one into a folder that takes all there is, and what others give up for a while, too.
    ///
    /// # Errors
    /// When the room cannot be taken.
    pub fn put_again_and_again(folder: &Path) -> Result<Self> {
        /// Longer than a replica takes to give its reserve up.
        const A_WHILE: Duration = Duration::from_secs(1);
        let ballast = Self::new(folder)?;
        let mut failed = None;
        let _ = try_until(A_WHILE, || {
            failed = ballast.grow(0).err();
            failed.is_some().then_some(())
        });
        match failed {
            None => Ok(ballast),
            Some(error) => Err(error),
        }
    }

    fn new(folder: &Path) -> Result<Self> {
        let path = folder.join("ballast");
        File::create(&path).with_context(|| format!("failed to make {}", path.display()))?;
        Ok(Self(path))
    }

    fn grow(&self, left: u64) -> Result<()> {
        let folder = self.0.parent().context("ballast is in a folder")?;
        let file = File::options().write(true).open(&self.0).context("failed to open ballast")?;
        let mut length = file.metadata().context("failed to look at ballast")?.len();
        // Room goes in smaller and smaller pieces: the last ones a file system may not have after all.
        let mut piece = free_bytes(folder)?.saturating_sub(left);
        while piece >= 4096 {
            match fallocate(&file, FallocateFlags::empty(), length, piece) {
                Ok(()) => {
                    length += piece;
                    piece = free_bytes(folder)?.saturating_sub(left).min(piece);
                }
                Err(Errno::NOSPC) => piece /= 2,
                Err(cause) => return Err(cause).context("failed to take room"),
            }
        }
        Ok(())
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            eprintln!("failed to remove {}: {error}", self.0.display());
        }
    }
}

/// Returns how much a program may still write there.
fn free_bytes(folder: &Path) -> Result<u64> {
    let seen = rustix::fs::statvfs(folder).context("failed to see the free space")?;
    Ok(seen.f_bavail.saturating_mul(seen.f_frsize))
}

/// Returns the number of the newest high-water mark in a replica's data directory, as far as the file system shows it.
///
/// The mark is written with every group commit and synced every 50 ms, so a power cut that takes anything takes the
/// newest one.
pub fn newest_mark(data: &Path) -> Option<u64> {
    const SLOTS: [usize; 2] = [0, 4096];
    let bytes = fs::read(data.join("mark")).ok()?;
    let number = |at: usize| bytes.get(at + 16..at + 24)?.try_into().ok().map(u64::from_le_bytes);
    SLOTS.into_iter().filter_map(number).max()
}

#[cfg(test)]
mod tests {
    use super::extent;

    #[test]
    fn extents_are_read() {
        assert_eq!(
            extent("   0:        0..    4095:      10241..     14336:   4096:   last,eof"),
            Some((10_241, 14_336))
        );
        assert_eq!(extent("File size of at/data/db is 4194304 (4096 blocks of 1024 bytes)"), None);
    }
}
