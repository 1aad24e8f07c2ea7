//! The one module that reads clocks.
//!
//! Cluster time is a line through an anchor: (cluster time, boot clock) on one boot of this machine. While the machine
//! stays up the boot clock (`CLOCK_BOOTTIME`) counts on whatever happens to this process, so the anchor is written only
//! when the line moves, and a restarted process reads exactly on. No wall clock is trusted for that.
//!
//! The line moves forward only: to the time of an entry that is ahead of it, or, after a reboot, to what the other
//! replicas say; without any of them to the wall clock if that is credible, else time goes on from the last entry
//! with an alarm.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use scheduler_core::unit::{Span, Timestamp};

/// A wall clock later than this after the last entry is not believed.
const CREDIBLE: Span = Span::from_hours(72);

/// Cluster time as this replica carries it.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
    boot: String,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    anchor: Option<Anchor>,
    alarm: Option<String>,
}

/// A point that cluster time's line goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    cluster: Timestamp,
    boot_ms: u64,
}

impl Clock {
    /// Opens the clock of the replica in `data`.
    ///
    /// # Errors
    /// When the machine names no boot id, or the anchor's file cannot be read.
    pub fn open(data: &Path) -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let file = data.join("clock");
        let anchor = match fs::read_to_string(&file) {
            Ok(text) => parse(&text, &boot),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            Err(cause) => return Err(cause),
        };
        Ok(Self { file, boot, line: Mutex::new(Line { anchor, alarm: None }) })
    }

    /// Returns cluster time; `None` while nothing vouches for it.
    #[must_use]
    pub fn now(&self) -> Option<Timestamp> {
        let at = boot_ms();
        self.line().anchor.map(|anchor| anchor.at(at))
    }

    /// Returns cluster time, or the wall clock while nothing vouches for cluster time: for screens and dates of
    /// requests, never for entries.
    #[must_use]
    pub fn roughly(&self) -> Timestamp {
        self.now().unwrap_or_else(wall)
    }

    /// Takes note of a time that the log holds: a line that is there never runs behind it. Where there is none, a
    /// time in the log alone vouches for nothing: it may be of long ago.
    pub fn seen(&self, time: Timestamp) {
        if self.now().is_some_and(|now| time > now) {
            let alarm = self.alarm();
            self.set(time, alarm);
        }
    }

    /// Begins cluster time with the wall clock: a control plane is being founded.
    pub fn found(&self) {
        if self.now().is_none() {
            self.set(wall(), None);
        }
    }

    /// Draws the line through a witness's time, unless there is one already.
    pub fn take_witness(&self, time: Timestamp, last_entry: Timestamp) {
        if self.now().is_none() {
            self.set(time.max(last_entry), None);
        }
    }

    /// Draws the line without any witness: from the wall clock if it is credible, else from the last entry.
    pub fn take_wall(&self, last_entry: Timestamp) {
        if self.now().is_some() {
            return;
        }
        let (time, alarm) = credible(wall(), last_entry);
        if let Some(alarm) = &alarm {
            tracing::error!(alarm, "cluster time goes on from the last entry");
        }
        self.set(time, alarm);
    }

    /// Returns what is wrong with cluster time here, if something is.
    #[must_use]
    pub fn alarm(&self) -> Option<String> {
        self.line().alarm.clone()
    }

    fn set(&self, cluster: Timestamp, alarm: Option<String>) {
        let mut line = self.line();
        line.anchor = Some(Anchor { cluster, boot_ms: boot_ms() });
        line.alarm = alarm;
        let text = line.anchor.map(|anchor| format(anchor, &self.boot)).unwrap_or_default();
        // Under the lock, so that the file never goes back. It need not survive the machine, only the process: what
        // the kernel was given is there after any end of ours.
        if let Err(cause) = replace(&self.file, text.as_bytes()) {
            tracing::error!(%cause, path = %self.file.display(), "failed to write the anchor of cluster time");
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Anchor {
    fn at(self, boot_ms: u64) -> Timestamp {
        self.cluster.plus(Span::from_millis(boot_ms.saturating_sub(self.boot_ms)))
    }
}

/// Returns the wall clock: for the founding only, and where [`Clock`] decides that nothing better is there.
#[must_use]
pub fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn boot_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let secs = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    secs.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}

/// A moment to come on the boot clock, to wait for; in no entry and on no disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(u64);

impl Deadline {
    /// Returns the moment `patience` from now.
    #[must_use]
    pub fn after(patience: Duration) -> Self {
        Self(boot_ms().saturating_add(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns what is left until then.
    #[must_use]
    pub fn left(self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(boot_ms()))
    }

    /// Whether it has come.
    #[must_use]
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

/// A moment that was, on the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Returns this moment.
    #[must_use]
    pub fn now() -> Self {
        Self(boot_ms())
    }

    /// Returns how long ago it was.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        Duration::from_millis(boot_ms().saturating_sub(self.0))
    }
}

/// Chooses between the wall clock and the last entry's time.
fn credible(wall: Timestamp, last_entry: Timestamp) -> (Timestamp, Option<String>) {
    if wall >= last_entry && wall <= last_entry.plus(CREDIBLE) {
        return (wall, None);
    }
    let alarm = format!(
        "cluster time goes on from the last entry: no replica vouches for it, and the wall clock is {} s away",
        wall.since(last_entry).as_millis().max(last_entry.since(wall).as_millis()) / 1000
    );
    (last_entry, Some(alarm))
}

fn format(anchor: Anchor, boot: &str) -> String {
    format!("1 {boot} {} {}\n", anchor.cluster.as_millis(), anchor.boot_ms)
}

/// Reads an anchor of this boot; another boot's, or a damaged one, is none.
fn parse(text: &str, boot: &str) -> Option<Anchor> {
    let mut words = text.split_whitespace();
    let is_ours = words.next() == Some("1") && words.next() == Some(boot);
    let cluster = words.next()?.parse().ok()?;
    let boot_ms = words.next()?.parse().ok()?;
    (is_ours && words.next().is_none())
        .then_some(Anchor { cluster: Timestamp::from_millis(cluster), boot_ms })
}

fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let fresh = file.with_extension("new");
    fs::write(&fresh, content)?;
    fs::rename(&fresh, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_over_a_restart_of_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::open(dir.path()).unwrap();
        assert_eq!(clock.now(), None);
        clock.seen(Timestamp::from_millis(5_000_000));
        assert_eq!(clock.now(), None, "an old entry vouches for nothing");
        clock.take_witness(Timestamp::from_millis(5_000_000), Timestamp::ZERO);
        let before = clock.now().unwrap();
        drop(clock);
        let after = Clock::open(dir.path()).unwrap().now().unwrap();
        assert!(after >= before && after < before.plus(Span::from_mins(5)));
    }

    #[test]
    fn anchor_of_another_boot_or_a_damaged_one_is_none() {
        let anchor = Anchor { cluster: Timestamp::from_millis(7), boot_ms: 9 };
        let text = format(anchor, "a-b");
        assert_eq!(parse(&text, "a-b"), Some(anchor));
        assert_eq!(parse(&text, "c-d"), None);
        assert_eq!(parse("1 a-b 7", "a-b"), None);
        assert_eq!(parse("2 a-b 7 9", "a-b"), None);
    }

    #[test]
    fn wall_clock_is_believed_for_72_hours_after_the_last_entry_only() {
        let last = Timestamp::from_millis(1_000_000_000);
        assert_eq!(credible(last.plus(CREDIBLE), last), (last.plus(CREDIBLE), None));
        for wall in [last.plus(CREDIBLE).plus(Span::from_millis(1)), last.minus(Span::from_millis(1))] {
            let (time, alarm) = credible(wall, last);
            assert_eq!(time, last);
            assert!(alarm.is_some());
        }
    }

    #[test]
    fn time_in_the_log_pulls_the_line_forward_and_never_back() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::open(dir.path()).unwrap();
        clock.take_witness(Timestamp::from_millis(100_000), Timestamp::ZERO);
        clock.seen(Timestamp::from_millis(900_000));
        clock.seen(Timestamp::from_millis(100));
        assert!(clock.now().unwrap() >= Timestamp::from_millis(900_000));
        clock.take_witness(Timestamp::from_millis(99_000_000), Timestamp::ZERO);
        assert!(clock.now().unwrap() < Timestamp::from_millis(99_000_000));
    }
}
