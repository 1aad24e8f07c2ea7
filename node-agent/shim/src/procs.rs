//! Which processes belong to an attempt, and ending them.
//!
//! A process belongs to an attempt if one of these holds: it descends from the shim (a subreaper, so that a daemon's double
//! fork doesn't leave the tree) or from the main process; it is in the main process's session; it was started with the
//! attempt's mark in its environment; it is in the attempt's cgroup, where there is one. Zombies hold nothing and don't
//! count.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::format::{Identity, MARK_VARIABLE};
use crate::{cgroup, sys};

/// How much of an environment is looked at, in bytes.
const ENVIRONMENT_MAX: u64 = 256 << 10;
/// How large most are, in bytes.
const ENVIRONMENT_USUAL: usize = 16 << 10;
/// More than the line of a process can have: 52 numbers and a short name.
const STAT_MAX: usize = 2 << 10;
/// The kernel's flag of its own threads.
const PF_KTHREAD: u32 = 0x0020_0000;

/// A process as `/proc` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Process id and start time.
    pub id: Identity,
    /// Parent.
    pub parent: i32,
    /// Session.
    pub session: i32,
    /// True if it has ended and waits to be reaped.
    pub ended: bool,
    /// True if a signal stopped it.
    pub stopped: bool,
    /// True for a thread of the kernel's own, which was never started with an environment.
    pub is_kernels: bool,
}

/// What is known about an attempt's processes.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// Value of [`MARK_VARIABLE`].
    pub mark: &'a str,
    /// The shim, which is not part of the job.
    pub shim: Option<Identity>,
    /// The main process.
    pub main: Option<Identity>,
    /// Its group, where it has one.
    pub cgroup: Option<&'a Path>,
}

/// Reads the boot id.
///
/// # Errors
///
/// `/proc` can't be read.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Reads one process; `None` if there is none.
pub fn process(pid: i32) -> Option<Process> {
    // The kernel writes it whole into a buffer that is large enough, and this one is: there are many to read.
    let mut text = [0; STAT_MAX];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut text).ok()?;
    parse(pid, &text[..length])
}

fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    // The name in brackets may contain anything, brackets too: the fields begin after the last one.
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let flags: u32 = fields.nth(2)?.parse().ok()?;
    let start = fields.nth(12)?.parse().ok()?;
    Some(Process {
        id: Identity { pid, start },
        parent,
        session,
        ended: matches!(state, "Z" | "X"),
        stopped: state == "T",
        is_kernels: flags & PF_KTHREAD != 0,
    })
}

/// Says whether a process lives: it is there, has the same start time, and hasn't ended.
pub fn is_alive(id: Identity) -> bool {
    process(id.pid).is_some_and(|found| found.id == id && !found.ended)
}

/// Reads all processes.
///
/// # Errors
///
/// `/proc` can't be listed: then nobody may say that an attempt is empty.
pub fn all() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) {
            found.extend(process(pid));
        }
    }
    Ok(found)
}

/// Finds the living processes of an attempt.
///
/// # Errors
///
/// `/proc` or the group can't be listed.
pub fn members(attempt: Attempt<'_>) -> io::Result<Vec<Process>> {
    members_among(attempt, &all()?)
}

/// Finds the living processes of an attempt in a list of all processes.
///
/// # Errors
///
/// Its group can't be listed. Callers treat an error as "not empty".
pub fn members_among(attempt: Attempt<'_>, all: &[Process]) -> io::Result<Vec<Process>> {
    let known = |id: Option<Identity>| id.filter(|id| all.iter().any(|process| process.id == *id));
    let mut tree: Vec<i32> =
        [known(attempt.shim), known(attempt.main)].into_iter().flatten().map(|id| id.pid).collect();
    loop {
        let before = tree.len();
        for process in all {
            if tree.contains(&process.parent) && !tree.contains(&process.id.pid) {
                tree.push(process.id.pid);
            }
        }
        if tree.len() == before {
            break;
        }
    }
    // A session's number isn't given to another process while anybody is in the session. So it is the attempt's as long
    // as no other process has the main process's number.
    let session = attempt.main.filter(|main| {
        all.iter().all(|process| process.id.pid != main.pid || process.id.start == main.start)
    });
    let shim = attempt.shim.map(|shim| shim.pid);
    let grouped = attempt.cgroup.map(cgroup::processes).transpose()?.unwrap_or_default();
    let belongs = |process: &&Process| {
        let pid = process.id.pid;
        !process.ended
            && Some(pid) != shim
            && pid != 1
            && (tree.contains(&pid)
                || grouped.contains(&pid)
                || session.is_some_and(|main| process.session == main.pid && process.id.start >= main.start)
                || (!process.is_kernels && has_mark(pid, attempt.mark)))
    };
    Ok(all.iter().filter(belongs).copied().collect())
}

/// Says whether a process was started with this mark.
pub fn has_mark(pid: i32, mark: &str) -> bool {
    marks(pid, |found| found == mark.as_bytes())
}

/// Says whether a process was started with a mark that `matches` takes.
pub fn marks(pid: i32, mut matches: impl FnMut(&[u8]) -> bool) -> bool {
    let Ok(file) = File::open(format!("/proc/{pid}/environ")) else { return false };
    // Growing from nothing costs more calls than most environments have lines.
    let mut environment = Vec::with_capacity(ENVIRONMENT_USUAL);
    if file.take(ENVIRONMENT_MAX).read_to_end(&mut environment).is_err() {
        return false;
    }
    environment.split(|byte| *byte == 0).any(|entry| {
        entry
            .strip_prefix(MARK_VARIABLE.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(&mut matches)
    })
}

/// Signals exactly this process, never a later one with its pid. Says whether it got the signal.
pub fn signal(process: &Process, signal: i32) -> bool {
    let Ok(pidfd) = sys::pidfd_open(process.id.pid) else { return false };
    // Looked at again now that the descriptor pins the process: the pid can't have been reused after this.
    self::process(process.id.pid).is_some_and(|now| now.id == process.id)
        && sys::pidfd_signal(&pidfd, signal).is_ok()
}

/// Says in words which process it is and what it hangs in.
pub fn describe(process: &Process) -> String {
    let pid = process.id.pid;
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    // The job chose its name: nothing but plain letters of it is repeated.
    let plain = |bytes: &[u8]| {
        let letters =
            bytes.iter().filter(|byte| byte.is_ascii_graphic()).take(32).map(|byte| char::from(*byte));
        letters.collect::<String>()
    };
    let stat = read("stat");
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2)).copied();
    let state = state.map_or('?', char::from);
    let place = plain(&read("wchan"));
    let place = if place.is_empty() || place == "0" { "an unknown place".to_owned() } else { place };
    format!("process {pid} ({}), state {state} in {place}", plain(&read("comm")))
}

/// Says whether a process has a handler for a signal: the default action of most signals is death.
pub fn catches(pid: i32, signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).ok().and_then(|bit| 1_u64.checked_shl(bit)).is_some_and(|bit| mask & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Identity, Process, members_among, parse};

    fn process(pid: i32, parent: i32, session: i32) -> Process {
        let id = Identity { pid, start: 100 };
        Process { id, parent, session, ended: false, stopped: false, is_kernels: false }
    }

    fn found(attempt: Attempt<'_>, all: &[Process]) -> Vec<i32> {
        members_among(attempt, all).unwrap().iter().map(|process| process.id.pid).collect()
    }

    const SHIM: Identity = Identity { pid: 999_000_010, start: 100 };
    const MAIN: Identity = Identity { pid: 999_000_011, start: 100 };

    #[test]
    fn a_name_with_brackets_hides_nothing() {
        let stat = b"5 (a) b) S 1 2 3 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4711 0";
        let process = parse(5, stat).unwrap();
        assert_eq!((process.parent, process.session, process.id.start), (1, 3, 4711));
        assert!(!process.ended && !process.is_kernels);
        let thread = b"9 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 12 0";
        assert!(parse(9, thread).unwrap().is_kernels);
    }

    #[test]
    fn descendants_and_the_session_belong_and_the_shim_does_not() {
        let all = [
            process(SHIM.pid, 1, SHIM.pid),
            process(MAIN.pid, SHIM.pid, MAIN.pid),
            process(999_000_012, MAIN.pid, 999_000_012),
            process(999_000_013, 1, MAIN.pid),
            process(999_000_014, 1, 999_000_014),
        ];
        let attempt = Attempt { mark: "none", shim: Some(SHIM), main: Some(MAIN), cgroup: None };
        assert_eq!(found(attempt, &all), [MAIN.pid, 999_000_012, 999_000_013]);
    }

    #[test]
    fn a_reused_pid_does_not_make_a_stranger_a_member() {
        let stranger = Process { id: Identity { start: 900, ..MAIN }, ..process(MAIN.pid, 1, MAIN.pid) };
        let attempt = Attempt { mark: "none", shim: Some(SHIM), main: Some(MAIN), cgroup: None };
        assert_eq!(found(attempt, &[stranger, process(999_000_012, MAIN.pid, MAIN.pid)]), [] as [i32; 0]);
    }
}
