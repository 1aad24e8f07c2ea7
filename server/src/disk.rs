//! Whether there is room on disk for new work.

use std::path::PathBuf;
use std::time::Duration;

use scheduler_core::command::{Code, Rejection};
use tokio::sync::watch;

/// How often the free space is looked at.
pub const LOOK: Duration = Duration::from_secs(1);

/// The floor, and what was seen last.
#[derive(Debug)]
pub struct Disk {
    dir: PathBuf,
    min_bytes: u64,
    min_percent: u8,
    short: watch::Sender<Option<String>>,
    room: watch::Sender<Room>,
}

/// How much room there was; zeros if that is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Bytes that may still be written.
    pub free: u64,
    /// Bytes of the file system.
    pub size: u64,
}

impl Disk {
    /// Looks at the file system of `dir`.
    #[must_use]
    pub fn new(dir: PathBuf, min_bytes: u64, min_percent: u8) -> Self {
        let (short, room) = (watch::Sender::new(None), watch::Sender::new(Room::default()));
        let disk = Self { dir, min_bytes, min_percent, short, room };
        disk.look();
        disk
    }

    /// Looks again.
    pub fn look(&self) {
        let short = match rustix::fs::statvfs(&self.dir) {
            Ok(seen) => {
                let free = seen.f_bavail.saturating_mul(seen.f_frsize);
                let size = seen.f_blocks.saturating_mul(seen.f_frsize);
                self.room.send_replace(Room { free, size });
                shortage(free, size, self.min_bytes, self.min_percent)
            }
            Err(cause) => {
                self.room.send_replace(Room::default());
                Some(format!("the free space of {} is unknown: {cause}", self.dir.display()))
            }
        };
        self.short.send_if_modified(|old| {
            if short.is_some() && old.is_none() {
                tracing::error!(reason = short, "new submissions are refused");
            }
            let is_new = *old != short;
            *old = short;
            is_new
        });
    }

    /// Returns how much room there was when it was last looked at.
    #[must_use]
    pub fn room(&self) -> Room {
        *self.room.borrow()
    }

    /// Returns why there is no room, if so.
    #[must_use]
    pub fn shortage(&self) -> Option<String> {
        self.short.borrow().clone()
    }

    /// Refuses new work while there is no room.
    ///
    /// # Errors
    /// With the reason.
    pub fn admit(&self) -> Result<(), Rejection> {
        match self.shortage() {
            None => Ok(()),
            Some(why) => Err(Rejection::new(
                Code::Full,
                "a replica has too little free disk for new jobs".to_owned(),
                &why,
                "tell an operator; running work, reports and cancels go on".to_owned(),
            )),
        }
    }
}

fn shortage(free: u64, size: u64, min_bytes: u64, min_percent: u8) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    if free < min_bytes {
        return Some(format!("{} MiB are free, {} MiB is the least", mib(free), mib(min_bytes)));
    }
    let is_small = u128::from(free) * 100 < u128::from(size) * u128::from(min_percent);
    is_small.then(|| format!("{} of {} MiB are free, {min_percent} % is the least", mib(free), mib(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_floor_alone_refuses() {
        assert_eq!(shortage(100, 1000, 100, 10), None);
        assert!(shortage(99, 100, 100, 0).is_some());
        assert!(shortage(99, 1000, 0, 10).unwrap().contains("10 %"));
    }
}
