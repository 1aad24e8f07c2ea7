//! A cgroup v2 directory of an attempt: who is in it can't leave it, and all of it is ended at once.

use std::io;
use std::path::Path;

/// How deep a group is followed; what a job makes below that is ended with the rest all the same.
const DEPTH_MAX: usize = 8;

/// Puts this process, and so what it starts, into a group.
///
/// # Errors
///
/// The group is gone or not ours.
pub fn enter(group: &Path) -> io::Result<()> {
    std::fs::write(group.join("cgroup.procs"), "0")
}

/// Lists the processes of a group and of those below it. One that is gone has none.
///
/// # Errors
///
/// It can't be read: then nobody may say that it is empty.
pub fn processes(group: &Path) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    list(group, 0, &mut found)?;
    Ok(found)
}

fn list(group: &Path, depth: usize, found: &mut Vec<i32>) -> io::Result<()> {
    let text = match std::fs::read_to_string(group.join("cgroup.procs")) {
        Ok(text) => text,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => return Ok(()),
        Err(error) => return Err(error),
    };
    found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|pid| *pid > 0));
    if depth < DEPTH_MAX {
        below(group, |inner| list(inner, depth + 1, found))?;
    }
    Ok(())
}

fn below(group: &Path, mut each: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let Ok(entries) = std::fs::read_dir(group) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            each(&entry.path())?;
        }
    }
    Ok(())
}

/// Ends every process of a group and of those below it, also frozen ones.
pub fn kill(group: &Path) {
    let _ = std::fs::write(group.join("cgroup.kill"), "1");
}

/// Lets a frozen group go on.
pub fn thaw(group: &Path) {
    let _ = std::fs::write(group.join("cgroup.freeze"), "0");
}

/// Removes an empty group and those below it.
pub fn remove(group: &Path) {
    let _ = below(group, |inner| {
        remove(inner);
        Ok(())
    });
    let _ = std::fs::remove_dir(group);
}
