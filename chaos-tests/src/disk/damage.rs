//! Bits that flip, files that end early, and files that come back old.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Numbers from a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// Begins with a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `bound`, which is taken as at least 1.
    ///
    /// # Panics
    /// Never: a `usize` fits.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = u64::try_from(bound.max(1)).expect("a usize fits");
        usize::try_from((mixed ^ (mixed >> 31)) % bound).expect("below a usize")
    }

    /// Returns `count` different numbers below `bound`.
    pub fn some_of(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..bound).collect();
        (0..count.min(bound)).map(|_| left.swap_remove(self.below(left.len()))).collect()
    }
}

/// A file of a data directory that holds something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its path in the directory.
    pub path: PathBuf,
    /// How far it is written; what follows is zeros.
    pub length: usize,
}

impl Target {
    /// Flips a bit of it in a copy of the directory.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn flip(&self, data: &Path, bit: usize) -> Result<()> {
        let path = data.join(&self.path);
        let mut bytes = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        let byte = bytes.get_mut(bit / 8).context("the file is shorter")?;
        *byte ^= 1 << (bit % 8);
        fs::write(&path, bytes).with_context(|| format!("failed to write {}", path.display()))
    }

    /// Ends it at `length` in a copy of the directory.
    ///
    /// # Errors
    /// When it cannot be shortened.
    pub fn truncate(&self, data: &Path, length: usize) -> Result<()> {
        let path = data.join(&self.path);
        let file = fs::File::options().write(true).open(&path);
        let file = file.with_context(|| format!("failed to open {}", path.display()))?;
        file.set_len(u64::try_from(length).context("a usize fits")?)
            .with_context(|| format!("failed to shorten {}", path.display()))
    }
}

/// Lists the files of a data directory that hold anything, but for those that say nothing: the lock, and the reserve.
///
/// # Errors
/// When one cannot be read.
pub fn file_list(data: &Path) -> Result<Vec<Target>> {
    let mut found = Vec::new();
    collect(data, Path::new(""), &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(root: &Path, inside: &Path, found: &mut Vec<Target>) -> Result<()> {
    let folder = root.join(inside);
    let entries = fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("failed to list {}", folder.display()))?;
        let path = inside.join(entry.file_name());
        if entry.path().is_dir() {
            collect(root, &path, found)?;
            continue;
        }
        if says_nothing(&path) {
            continue;
        }
        let bytes = fs::read(entry.path()).with_context(|| format!("failed to read {}", path.display()))?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
            found.push(Target { path, length: last + 1 });
        }
    }
    Ok(())
}

fn says_nothing(path: &Path) -> bool {
    ["lock", "reserve"].iter().any(|name| path == Path::new(name))
}

/// Copies a data directory with everything in it but the reserve; what is at `to` goes first.
///
/// # Errors
/// When a file cannot be read or written.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("failed to remove {}", to.display()))?;
    }
    copy_folder(from, from, to)
}

fn copy_folder(root: &Path, from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("failed to make {}", to.display()))?;
    fs::set_permissions(to, fs::metadata(from)?.permissions()).context("failed to set a folder's mode")?;
    for entry in fs::read_dir(from).with_context(|| format!("failed to list {}", from.display()))? {
        let entry = entry.with_context(|| format!("failed to list {}", from.display()))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(root, &path, &target)?;
        } else if path.strip_prefix(root) == Ok(Path::new("reserve")) {
            // It is made again.
        } else {
            let copied = fs::copy(&path, &target);
            copied.with_context(|| format!("failed to copy {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_many_are_different_ones() {
        let mut drawn = Draw::new(7).some_of(3, 5);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 3);
        assert!(drawn.iter().all(|n| *n < 5));
        assert_eq!(Draw::new(7).some_of(9, 2).len(), 2);
    }

    #[test]
    fn flip_changes_one_bit_and_the_list_leaves_out_what_says_nothing() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("log")).expect("a folder");
        fs::write(dir.path().join("log/db"), [1, 2, 0, 0]).expect("a file");
        fs::write(dir.path().join("reserve"), [9]).expect("a file");
        fs::write(dir.path().join("empty"), []).expect("a file");
        let files = file_list(dir.path()).expect("it can be read");
        assert_eq!(files, [Target { path: "log/db".into(), length: 2 }]);
        files[0].flip(dir.path(), 9).expect("it can be written");
        assert_eq!(fs::read(dir.path().join("log/db")).expect("a file"), [1, 0, 0, 0]);
    }
}
