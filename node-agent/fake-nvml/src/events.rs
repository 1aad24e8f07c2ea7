//! Event sets: registrations and a cursor each, so that every set delivers every event of its GPUs once.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use crate::abi::{Code, Handle, INVALID_ARGUMENT, TIMEOUT, UNKNOWN};
use crate::live::{load, lock};
use crate::state::Event;

/// How often a waiter looks at the state file.
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Set {
    masks: HashMap<Handle, u64>,
    /// Sequence number of the newest event that was delivered or is older than the set.
    cursor: u64,
}

#[derive(Default)]
struct Sets {
    next: usize,
    open: HashMap<usize, Set>,
}

static SETS: LazyLock<Mutex<Sets>> = LazyLock::new(Mutex::default);

/// Opens a set. Events from before are not delivered to it.
pub(crate) fn create() -> Result<usize, Code> {
    let state = load().ok_or(UNKNOWN)?;
    let cursor = state.events.iter().map(|event| event.sequence).max().unwrap_or(0);
    let mut sets = lock(&SETS);
    sets.next += 1;
    let id = sets.next;
    sets.open.insert(id, Set { masks: HashMap::new(), cursor });
    Ok(id)
}

/// Registers a GPU's events of the types in `mask`.
pub(crate) fn register(id: usize, handle: Handle, mask: u64) -> Result<(), Code> {
    let mut sets = lock(&SETS);
    let set = sets.open.get_mut(&id).ok_or(INVALID_ARGUMENT)?;
    *set.masks.entry(handle).or_insert(0) |= mask;
    Ok(())
}

/// Closes a set; its waiters get an error.
pub(crate) fn free(id: usize) -> Result<(), Code> {
    lock(&SETS).open.remove(&id).map(|_| ()).ok_or(INVALID_ARGUMENT)
}

/// Blocks until an event of the set arrives or the time is over.
pub(crate) fn wait(id: usize, timeout: Duration) -> Result<Event, Code> {
    let until = Instant::now() + timeout;
    loop {
        if let Some(event) = take(id)? {
            return Ok(event);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(TIMEOUT);
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

fn take(id: usize) -> Result<Option<Event>, Code> {
    let state = load().ok_or(UNKNOWN)?;
    let mut sets = lock(&SETS);
    let set = sets.open.get_mut(&id).ok_or(INVALID_ARGUMENT)?;
    let mut newer: Vec<&Event> = state.events.iter().filter(|event| event.sequence > set.cursor).collect();
    newer.sort_by_key(|event| event.sequence);
    for event in newer {
        set.cursor = event.sequence;
        let mask = set.masks.get(&(event.gpu + 1)).copied().unwrap_or(0);
        if mask & event.event_type != 0 {
            return Ok(Some(*event));
        }
    }
    Ok(None)
}
