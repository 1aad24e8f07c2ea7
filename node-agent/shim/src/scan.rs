//! Looking for the newest completion marker of a job's checkpoints: in a process of the job's account, with a limit of time,
//! since a job's file system may hang and its folders are its own to fill.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::format::{Marker, Spec};
use crate::{child, sys};

/// Pause between two scans.
const PAUSE_MS: u64 = 2_000;
/// The same while a checkpoint may end the grace early.
const NOTICED_PAUSE_MS: u64 = 300;
/// How long a scan may take.
const LIMIT_MS: u64 = 5_000;
/// The most entries that a scan looks at.
const ENTRIES_MAX: usize = 20_000;
/// The most parts of a pattern.
const PARTS_MAX: usize = 32;
/// A marker that is further in the future than clocks of file servers are apart is none.
const FUTURE_MAX_S: i64 = 60;

/// Scans one after the other, never two at a time.
#[derive(Debug, Default)]
pub struct Scans {
    running: Option<Running>,
    /// When the last one ended.
    last_ms: Option<u64>,
}

#[derive(Debug)]
struct Running {
    pid: i32,
    /// None once it is read.
    answer: Option<OwnedFd>,
    killed_at_ms: u64,
    is_reaped: bool,
}

impl Scans {
    /// The process that scans now. It is a child of the shim and none of the job's.
    pub fn pid(&self) -> Option<i32> {
        self.running.as_ref().filter(|running| !running.is_reaped).map(|running| running.pid)
    }

    /// What can be read once the scan has an answer.
    pub fn fd(&self) -> Option<RawFd> {
        self.running.as_ref()?.answer.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// When there is something to do next.
    pub fn due_ms(&self, is_noticed: bool) -> u64 {
        let pause_ms = if is_noticed { NOTICED_PAUSE_MS } else { PAUSE_MS };
        match &self.running {
            Some(running) => running.killed_at_ms,
            None => self.last_ms.map_or(0, |last_ms| last_ms + pause_ms),
        }
    }

    /// Takes an answer if there is one, and begins the next scan when it is time.
    pub fn look(&mut self, spec: &Spec, pattern: &[u8], is_noticed: bool, now_ms: u64) -> Option<Marker> {
        let is_due = now_ms >= self.due_ms(is_noticed);
        let Some(running) = &mut self.running else {
            if is_due {
                self.running = start(spec, pattern, now_ms);
                self.last_ms = Some(now_ms);
            }
            return None;
        };
        let answer = running.answer.take_if(|answer| sys::readable(answer)).and_then(read);
        if running.is_reaped {
            self.running = None;
            self.last_ms = Some(now_ms);
        } else if is_due {
            // One that hangs in its file system can't even be ended. It is waited for, and no other is begun.
            sys::end_child(running.pid);
            running.killed_at_ms = now_ms + LIMIT_MS;
        }
        answer
    }

    /// Notes that a child was reaped: its number may be another process's from now on.
    pub fn reaped(&mut self, pid: i32) {
        if let Some(running) = &mut self.running {
            running.is_reaped |= running.pid == pid;
        }
    }

    /// Ends a scan that runs.
    pub fn end(&mut self) {
        if let Some(pid) = self.pid() {
            sys::end_child(pid);
            let until_ms = sys::boot_ms() + 1_000;
            while sys::reap_pid(pid).is_none() && sys::boot_ms() < until_ms {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        self.running = None;
    }
}

fn read(answer: OwnedFd) -> Option<Marker> {
    let mut bytes = [0; 16];
    if File::from(answer).read(&mut bytes).ok()? != bytes.len() {
        return None;
    }
    let part = |at: usize| bytes[at..at + 8].try_into().map(i64::from_ne_bytes).ok();
    Some(Marker { seconds: part(0)?, nanos: part(8)? })
}

fn start(spec: &Spec, pattern: &[u8], now_ms: u64) -> Option<Running> {
    let (answer, say) = sys::pipe().ok()?;
    match sys::fork() {
        Ok(0) => scan(spec, pattern, say),
        Ok(pid) => {
            let killed_at_ms = now_ms + LIMIT_MS;
            Some(Running { pid, answer: Some(answer), killed_at_ms, is_reaped: false })
        }
        Err(_) => None,
    }
}

/// The scanning process. It keeps nothing of the shim's open: a lock that it held would outlive the shim.
fn scan(spec: &Spec, pattern: &[u8], say: OwnedFd) -> ! {
    let Some(mut say) = sys::keep_only(say).map(File::from) else { sys::exit_now(1) };
    sys::alarm_ms(LIMIT_MS * 2);
    if let Some(account) = &spec.account
        && child::drop_to(account).is_err()
    {
        sys::exit_now(1);
    }
    let newest = newest(Path::new(OsStr::from_bytes(&spec.directory)), pattern);
    // No marker at all is an answer too: the first one is then a new one.
    let newest = newest.unwrap_or(Marker { seconds: i64::MIN, nanos: 0 });
    let answer = [newest.seconds.to_ne_bytes(), newest.nanos.to_ne_bytes()].concat();
    let _ = say.write_all(&answer);
    sys::exit_now(0)
}

/// Returns the newest time of the plain files under `base` that a pattern takes (`*`, `?`, `[a-z]`, part by part). Links are not
/// followed where the pattern chooses, and no more than a bounded number of entries is looked at.
pub fn newest(base: &Path, pattern: &[u8]) -> Option<Marker> {
    let mut start = base.to_owned();
    if pattern.first() == Some(&b'/') {
        start = PathBuf::from("/");
    }
    let parts: Vec<&[u8]> = pattern.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() || parts.len() > PARTS_MAX {
        return None;
    }
    let mut walk = Walk { newest: None, left: ENTRIES_MAX, latest: sys::wall_s() + FUTURE_MAX_S };
    walk.enter(start, &parts);
    walk.newest
}

struct Walk {
    newest: Option<Marker>,
    left: usize,
    latest: i64,
}

impl Walk {
    fn enter(&mut self, mut folder: PathBuf, mut parts: &[&[u8]]) {
        // What the job named itself may be a link; what we choose may not.
        while let [part, rest @ ..] = parts
            && !is_pattern(part)
            && !rest.is_empty()
        {
            folder.push(OsStr::from_bytes(part));
            parts = rest;
        }
        let [part, rest @ ..] = parts else { return };
        if !is_pattern(part) {
            return self.take(&folder.join(OsStr::from_bytes(part)));
        }
        let Ok(entries) = std::fs::read_dir(&folder) else { return };
        for entry in entries.flatten() {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let name = entry.file_name().into_vec();
            if !matches(part, &name) {
                continue;
            }
            let path = folder.join(OsStr::from_bytes(&name));
            match rest {
                [] => self.take(&path),
                rest if entry.file_type().is_ok_and(|kind| kind.is_dir()) => self.enter(path, rest),
                _ => {}
            }
        }
    }

    fn take(&mut self, path: &Path) {
        let Ok(data) = std::fs::symlink_metadata(path) else { return };
        if data.is_file() && data.mtime() <= self.latest {
            self.newest = self.newest.max(Some(Marker { seconds: data.mtime(), nanos: data.mtime_nsec() }));
        }
    }
}

fn is_pattern(part: &[u8]) -> bool {
    part.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Says whether a name is what a part of a pattern means. A leading dot has to be named.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    let (mut at, mut seen) = (0, 0);
    // Where to go on if what follows the last star does not fit: every star but the last is settled.
    let mut star = None;
    while seen < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, seen));
            at += 1;
        } else if let Some(length) = one(&pattern[at..], name[seen]) {
            at += length;
            seen += 1;
        } else if let Some((star_at, star_seen)) = star {
            star = Some((star_at, star_seen + 1));
            at = star_at + 1;
            seen = star_seen + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns how much of a pattern stands for this letter; `None` if it is for another one.
fn one(pattern: &[u8], letter: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => {
            let (is_negated, set) = match rest {
                [b'!' | b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            // A bracket that comes first is one of the letters.
            let Some(end) = set.iter().skip(1).position(|byte| *byte == b']').map(|at| at + 1) else {
                return (letter == b'[').then_some(1);
            };
            let length = pattern.len() - set.len() + end + 1;
            (is_in(&set[..end], letter) != is_negated).then_some(length)
        }
        [byte, ..] if *byte == letter => Some(1),
        _ => None,
    }
}

fn is_in(mut set: &[u8], letter: u8) -> bool {
    loop {
        match set {
            [from, b'-', to, rest @ ..] => {
                if (*from..=*to).contains(&letter) {
                    return true;
                }
                set = rest;
            }
            [byte, rest @ ..] => {
                if *byte == letter {
                    return true;
                }
                set = rest;
            }
            [] => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{matches, newest};
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_pattern_takes_what_a_shell_would() {
        for (pattern, name) in [
            ("*", "a"),
            ("step-*.done", "step-12.done"),
            ("*a*b", "xaxxab"),
            ("?[0-9]", "c7"),
            ("[!a-c]x", "dx"),
            ("[]]", "]"),
            (".*", ".done"),
        ] {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*", ".done"), ("a", "ab"), ("*.done", "done"), ("[0-9]", "a"), ("?", ""), ("[!a]", "a")]
        {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        let many = "*a".repeat(200);
        assert!(!matches(many.as_bytes(), "a".repeat(150).as_bytes()), "in time that does not explode");
    }

    #[test]
    fn the_newest_plain_file_counts_and_neither_links_nor_the_future_do() {
        let base = tempfile::tempdir().unwrap();
        let make = |name: &str, ago: i64| {
            let path = base.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = std::fs::File::create(path).unwrap();
            let shift = Duration::from_secs(ago.unsigned_abs());
            let now = SystemTime::now();
            file.set_modified(if ago < 0 { now + shift } else { now - shift }).unwrap();
        };
        let found = |pattern: &str| newest(base.path(), pattern.as_bytes()).map(|marker| marker.seconds);
        assert_eq!(found("c/*/done"), None);
        make("c/1/done", 500);
        let first = found("c/*/done").unwrap();
        make("c/2/done", 400);
        assert!(found("c/*/done").unwrap() > first);
        assert_eq!(found("c/1/done"), Some(first));
        make("c/3/done", -5_000);
        make("elsewhere/done", 10);
        std::os::unix::fs::symlink(base.path().join("elsewhere"), base.path().join("c/4")).unwrap();
        std::os::unix::fs::symlink(base.path().join("elsewhere/done"), base.path().join("c/1/link")).unwrap();
        std::fs::create_dir(base.path().join("c/5")).unwrap();
        std::fs::create_dir(base.path().join("c/5/done")).unwrap();
        assert_eq!(found("c/*/done"), Some(first + 100));
        assert_eq!(found("c/1/*"), Some(first));
    }
}
