//! Room on the disk, and a reserve for when others have taken it all.
//!
//! ```text
//! free ──────────────► ample: everything is taken
//!   less than the reserve: the reserve is given up, its bytes go to the log
//!      ──────────────► scarce: only what must be recorded is taken (`propose_from_reserve`)
//!   less than a write needs
//!      ──────────────► none: proposals are refused, and what is in the log already waits for room
//!   three reserves are free again: the reserve is made anew, ample
//! ```
//!
//! The engine is never asked to write what does not fit: after a write that failed half way nobody knows what it
//! holds, and the process would have to stop.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};

use crate::disk::FreeDisk;

/// How much room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// For everything.
    Ample,
    /// For what must be recorded.
    Scarce,
    /// For nothing.
    None,
}

/// The least that must be free before anything is written, beside what is written.
pub(crate) const LEAST: u64 = 2 << 20;
/// The reserve: a sixteenth of the disk within these bounds.
const RESERVE_MIN: u64 = 4 << 20;
const RESERVE_MAX: u64 = 16 << 20;
/// Free space is looked at this often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is known about the room on one disk, for all who ask.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    room: AtomicU8,
    is_awaited: AtomicBool,
    is_closed: AtomicBool,
}

impl Gauge {
    /// Returns how much room there was a moment ago.
    pub(crate) fn room(&self) -> Room {
        if self.is_awaited.load(Ordering::Relaxed) {
            return Room::None;
        }
        match self.room.load(Ordering::Relaxed) {
            0 => Room::Ample,
            1 => Room::Scarce,
            _ => Room::None,
        }
    }

    /// Notes how much room there is, and says so when that changes.
    pub(crate) fn note(&self, room: Room) {
        let number = match room {
            Room::Ample => 0,
            Room::Scarce => 1,
            Room::None => 2,
        };
        if self.room.swap(number, Ordering::Relaxed) == number {
            return;
        }
        match room {
            Room::Ample => tracing::info!("the disk has room again: everything is taken"),
            Room::Scarce => tracing::error!("the disk is nearly full: only what must be recorded is taken"),
            Room::None => tracing::error!("the disk is full: nothing is taken until there is room"),
        }
    }

    /// Tells whether a write waits for room: nothing more is taken meanwhile.
    pub(crate) fn await_room(&self, is_awaited: bool) {
        self.is_awaited.store(is_awaited, Ordering::Relaxed);
    }

    /// Ends all waiting for room.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether waiting is of no more use.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

/// The file that keeps room free.
#[derive(Debug)]
struct Reserve {
    dir: PathBuf,
    path: PathBuf,
    is_held: bool,
    /// Given up, and not made again since.
    is_spent: bool,
}

/// Looks at the disk of `dir` now and from now on, until the gauge is gone. Must come before anything is written:
/// a disk that is full when a replica starts gets its reserve.
pub(crate) fn watch(dir: &Path, gauge: &Arc<Gauge>) -> io::Result<()> {
    let path = dir.join("reserve");
    let mut reserve = Reserve { dir: dir.to_owned(), is_held: path.try_exists()?, path, is_spent: false };
    gauge.note(reserve.look()?);
    let weak = Arc::downgrade(gauge);
    thread::Builder::new().name("raft-room".into()).spawn(move || keep(&mut reserve, &weak))?;
    Ok(())
}

fn keep(reserve: &mut Reserve, gauge: &Weak<Gauge>) {
    loop {
        thread::sleep(LOOK_EVERY);
        let Some(gauge) = gauge.upgrade().filter(|gauge| !gauge.is_closed()) else { return };
        match reserve.look() {
            Ok(room) => gauge.note(room),
            // A disk that cannot be asked is not known to be full; writing tells.
            Err(cause) => tracing::warn!("failed to look after the disk's reserve: {cause}"),
        }
    }
}

impl Reserve {
    fn look(&mut self) -> io::Result<Room> {
        let free = FreeDisk::of(&self.dir)?;
        let size = (free.total_bytes / 16).clamp(RESERVE_MIN, RESERVE_MAX);
        if free.free_bytes < size && self.is_held {
            std::fs::remove_file(&self.path)?;
            (self.is_held, self.is_spent) = (false, true);
            return Ok(Room::Scarce);
        }
        if free.free_bytes >= size.saturating_mul(3) && !self.is_held {
            self.make(size)?;
            self.is_spent = false;
        }
        // What was taken before must still fit.
        Ok(if free.free_bytes < LEAST * 2 {
            Room::None
        } else if free.free_bytes < size || self.is_spent {
            Room::Scarce
        } else {
            Room::Ample
        })
    }

    fn make(&mut self, size: u64) -> io::Result<()> {
        let file = File::create(&self.path)?;
        // A file system that cannot set room aside goes without.
        if let Err(cause) = fallocate(&file, FallocateFlags::empty(), 0, size) {
            tracing::debug!("no reserve is kept on this disk: {cause}");
            drop(file);
            return std::fs::remove_file(&self.path);
        }
        self.is_held = true;
        Ok(())
    }
}
