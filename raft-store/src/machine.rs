//! What the replicated log drives.

use std::io::{self, Read, Write};

/// An error of the machine's own making.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One committed entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed<'a> {
    /// Its place in the log.
    pub index: u64,
    /// The term whose leader put it there.
    pub term: u64,
    /// The bytes that were proposed.
    pub payload: &'a [u8],
}

/// The replicated state. Every call is made on one dedicated thread, in log order.
///
/// The log also holds entries that are not the machine's (a leader's first entry, changes of membership): it is
/// told of these by [`Machine::advanced`], so that it always knows its index.
///
/// After a restart the machine is brought back by [`Machine::install`] with the newest snapshot, followed by
/// the entries that were applied after it. Answers of entries applied again go nowhere.
pub trait Machine: Send + 'static {
    /// Applies a batch of committed entries in order and returns one answer an entry.
    ///
    /// A panic here stops the process: what may go wrong inside one entry is the machine's to catch.
    fn apply(&mut self, entries: &[Committed<'_>]) -> Vec<Vec<u8>>;

    /// Tells that the log has advanced over an entry that is not the machine's.
    fn advanced(&mut self, index: u64, term: u64);

    /// Freezes the present state. Must be cheap: no entry is applied meanwhile. The frozen value is written on
    /// another thread.
    fn freeze(&self) -> Box<dyn Frozen>;

    /// Replaces the whole state by a snapshot that [`Frozen::write`] made, here or on another replica, whose
    /// last entry is (`index`, `term`).
    ///
    /// # Errors
    ///
    /// If the snapshot cannot be read. The process then stops, since the state is neither old nor new.
    fn install(&mut self, index: u64, term: u64, snapshot: &mut dyn Read) -> Result<(), BoxError>;
}

/// A state that no longer changes.
pub trait Frozen: Send {
    /// Writes the state.
    ///
    /// # Errors
    ///
    /// Only those that `out` returned.
    fn write(&self, out: &mut dyn Write) -> io::Result<()>;
}
