//! Processes of our own tree: told apart by pid and start time, since pids come again.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for a later one of the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// Its pid.
    pub pid: i32,
    /// Its start, in clock ticks since the boot.
    pub start: u64,
}

/// Returns who a pid is now; nobody if it is gone, or only waits to be reaped.
pub fn identify(pid: i32) -> Option<Identity> {
    let stat = stat(pid)?;
    (stat.state != 'Z' && stat.state != 'X').then_some(Identity { pid, start: stat.start })
}

/// Returns the parent of a process.
pub fn parent(pid: i32) -> Option<i32> {
    Some(stat(pid)?.parent)
}

/// Returns whether a process still runs.
pub fn is_alive(who: Identity) -> bool {
    identify(who.pid) == Some(who)
}

/// Sends a signal, if it is still the same process.
pub fn signal(who: Identity, signal: Signal) -> bool {
    is_alive(who) && Pid::from_raw(who.pid).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Returns all that descend from a process, itself left out.
pub fn descendants(of: i32) -> Vec<Identity> {
    let mut found = BTreeSet::new();
    let mut parents = BTreeSet::from([of]);
    let all: Vec<(i32, Stat)> = all().filter_map(|pid| Some((pid, stat(pid)?))).collect();
    // Each round finds one generation; there are as many as there are.
    loop {
        let born: Vec<&(i32, Stat)> = all
            .iter()
            .filter(|(pid, stat)| parents.contains(&stat.parent) && !parents.contains(pid))
            .collect();
        if born.is_empty() {
            return found.into_iter().collect();
        }
        for (pid, stat) in born {
            parents.insert(*pid);
            if stat.state != 'Z' {
                found.insert(Identity { pid: *pid, start: stat.start });
            }
        }
    }
}

/// Returns the processes whose program lies in a folder, or lay there when it was started.
pub fn of_programs_in(folder: &Path) -> Vec<Identity> {
    let is_inside =
        |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(folder));
    all().filter(is_inside).filter_map(identify).collect()
}

/// Returns the processes of jobs whose files lie in a folder, by an environment that nobody but an agent gives.
pub fn of_jobs_in(folder: &Path) -> Vec<Identity> {
    let is_inside = |entry: &[u8]| {
        let file = entry.strip_prefix(b"BURSAR_CHECKPOINT_FILE=");
        file.is_some_and(|file| Path::new(OsStr::from_bytes(file)).starts_with(folder))
    };
    let is_job = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(is_inside)
    };
    all().filter(is_job).filter_map(identify).collect()
}

/// Reaps orphans that came to us and ended; `ours` are reaped by those who started them.
pub fn reap(us: i32, ours: &[i32]) {
    for pid in all() {
        let is_orphan = !ours.contains(&pid) && stat(pid).is_some_and(|s| s.parent == us && s.state == 'Z');
        if let Some(pid) = Pid::from_raw(pid).filter(|_| is_orphan) {
            // Gone already is as good.
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Stat {
    state: char,
    parent: i32,
    start: u64,
}

fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, parentheses too: fields are counted behind its last one.
    let rest = text.rsplit_once(')')?.1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::Signal;

    use super::{descendants, identify, is_alive, signal};

    #[test]
    fn a_process_is_known_by_pid_and_start() {
        let us = i32::try_from(std::process::id()).expect("a pid");
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let who = identify(i32::try_from(child.id()).expect("a pid")).expect("it runs");
        assert!(is_alive(who) && descendants(us).contains(&who));
        assert!(!is_alive(super::Identity { start: who.start + 1, ..who }));
        assert!(signal(who, Signal::KILL));
        child.wait().expect("reaped");
        assert!(!is_alive(who) && !signal(who, Signal::KILL));
    }
}
