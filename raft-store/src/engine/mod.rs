//! The key-value engine under log and snapshots: narrow, so that another can take its place, and so that tests
//! can crash one that remembers what was synced.

mod sled;

#[cfg(test)]
pub(crate) mod disk_model;
#[cfg(test)]
pub(crate) mod memory;

use std::io;

#[cfg(test)]
pub(crate) use self::sled::LETS_PASS;
pub(crate) use self::sled::{OpenError, SledEngine};

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// One change of a batch.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Sets a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its new value, at most [`VALUE_MAX`] bytes.
        value: Vec<u8>,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
}

/// The longest value. An engine may keep several dozen of its neighbours in one place, and that place has bounds of its
/// own: see `sled.rs`.
pub(crate) const VALUE_MAX: usize = 14 << 10;
/// What is cut to fit is cut to this size: a value is that and an envelope.
pub(crate) const PIECE_BYTES: usize = 12 << 10;

/// An ordered store of bytes.
pub(crate) trait Engine: Send + Sync + 'static {
    /// Makes all changes at once, in order with other writes. Readable on return, durable after the next
    /// [`Engine::sync`].
    fn write(&self, changes: Vec<Change>) -> io::Result<()>;

    /// Returns once everything written before is durable.
    fn sync(&self) -> io::Result<()>;

    /// Returns how many bytes may still be written.
    fn room(&self) -> io::Result<u64>;

    /// Returns the value of a key.
    fn get(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>>;

    /// Returns the greatest key that is not above `key`, and its value.
    fn floor(&self, key: &[u8]) -> io::Result<Option<Pair>>;

    /// Returns up to `limit` keys in `from..to` in order.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> io::Result<Vec<Pair>>;
}
