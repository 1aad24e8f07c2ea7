//! What `/proc` says about processes.

use std::fs;
use std::path::Path;

/// A process that cannot be mistaken for another one that gets its number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Its number.
    pub pid: i32,
    /// When it started, in ticks of the boot clock.
    pub started: u64,
}

/// Returns who runs under a number now, zombies not counted.
pub fn identity(pid: i32) -> Option<Identity> {
    let fields = stat(pid)?;
    if matches!(fields.first().map(String::as_str), Some("Z" | "X")) {
        return None;
    }
    Some(Identity { pid, started: fields.get(19)?.parse().ok()? })
}

/// Returns whether exactly this process still runs.
pub fn alive(process: Identity) -> bool {
    identity(process.pid) == Some(process)
}

/// Returns a process's parent.
pub fn parent(pid: i32) -> Option<i32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// Returns the processes whose parent is `pid`.
pub fn children(pid: i32) -> Vec<i32> {
    pids().into_iter().filter(|child| parent(*child) == Some(pid)).collect()
}

/// Returns the processes that name `folder` in their arguments or environment: those of the lab that lives in it.
pub fn own_processes(folder: &Path) -> Vec<Identity> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let names_it = |pid: &i32| {
        ["cmdline", "environ"].iter().any(|file| {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            text.windows(folder.len()).any(|part| part == folder)
        })
    };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    pids().into_iter().filter(|pid| *pid != own).filter(names_it).filter_map(identity).collect()
}

/// Returns a figure of `/proc/PID/smaps_rollup` or `status` in KiB, the sum of the lines that begin with `names`.
pub fn memory_kib(pid: i32, file: &str, names: &[&str]) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let figure = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    let wanted =
        |line: &&str| names.iter().any(|name| line.strip_prefix(name).is_some_and(|r| r.starts_with(':')));
    Some(text.lines().filter(wanted).filter_map(figure).sum())
}

fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The fields of `stat` behind the name, which may hold anything.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split_whitespace().map(String::from).collect())
}
