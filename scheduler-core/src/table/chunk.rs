//! The two lower levels of a table.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hash;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::digest_of;
use super::store::{Hashed, Store};

/// The most records of a chunk.
pub(super) const CHUNK_MAX: usize = 32;
/// The most chunks of a group.
pub(super) const GROUP_MAX: usize = 64;

/// Neighbours in key order, with the sum of their hashes once somebody asked for it.
#[derive(Debug)]
pub(super) struct Summed<T> {
    pub(super) items: Vec<T>,
    sum: AtomicU64,
    is_summed: AtomicBool,
}

/// Some records: keys, and what is kept of their values.
pub(super) type Chunk<K, C> = Summed<(K, C)>;
/// A chunk, with its last key beside it: whoever looks for a key goes from chunk to chunk without a look into them.
#[derive(Debug)]
pub(super) struct Branch<K, C> {
    pub(super) last: K,
    pub(super) chunk: Arc<Chunk<K, C>>,
}

/// Some chunks.
pub(super) type Group<K, C> = Summed<Branch<K, C>>;
/// All of them.
pub(super) type Spine<K, C> = Vec<Arc<Group<K, C>>>;

/// Where a chunk is.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) group: usize,
    pub(super) chunk: usize,
}

impl<K: Clone, C> Branch<K, C> {
    /// Makes a chunk of records; none if there are none.
    pub(super) fn of(records: Vec<(K, C)>) -> Option<Self> {
        let last = records.last()?.0.clone();
        Some(Self { last, chunk: Arc::new(Chunk::new(records)) })
    }
}

impl<K: Clone, C> Clone for Branch<K, C> {
    fn clone(&self) -> Self {
        Self { last: self.last.clone(), chunk: Arc::clone(&self.chunk) }
    }
}

impl<T> Summed<T> {
    pub(super) fn new(items: Vec<T>) -> Self {
        Self { items, sum: AtomicU64::new(0), is_summed: AtomicBool::new(false) }
    }

    /// Returns the items for writing; the sum is asked for again.
    pub(super) fn items_mut(&mut self) -> &mut Vec<T> {
        *self.is_summed.get_mut() = false;
        &mut self.items
    }

    fn sum_of(&self, of: impl Fn(&T) -> u64) -> u64 {
        if self.is_summed.load(Ordering::Acquire) {
            return self.sum.load(Ordering::Relaxed);
        }
        let sum = self.items.iter().fold(0, |sum: u64, item| sum.wrapping_add(of(item)));
        self.sum.store(sum, Ordering::Relaxed);
        self.is_summed.store(true, Ordering::Release);
        sum
    }
}

impl<T: Clone> Clone for Summed<T> {
    /// A clone is made to be written to, so it starts without a sum.
    fn clone(&self) -> Self {
        Self::new(self.items.clone())
    }
}

impl<K: Hash, C> Group<K, C> {
    /// Returns the sum of its records' hashes.
    pub(super) fn sum<V: Hash, S: Store<V, Cell = C>>(&self) -> u64 {
        self.sum_of(|branch| branch.chunk.sum_of(|(key, cell)| digest_of(&Hashed(key, S::value(cell)))))
    }
}

/// Something with keys in order.
pub(super) trait Keyed {
    type Key: Ord;
    fn first_key(&self) -> Option<&Self::Key>;
    fn last_key(&self) -> Option<&Self::Key>;
}

impl<K: Ord, C> Keyed for Chunk<K, C> {
    type Key = K;

    fn first_key(&self) -> Option<&K> {
        self.items.first().map(|(k, _)| k)
    }

    fn last_key(&self) -> Option<&K> {
        self.items.last().map(|(k, _)| k)
    }
}

impl<K: Ord, C> Keyed for Group<K, C> {
    type Key = K;

    fn first_key(&self) -> Option<&K> {
        self.items.first().and_then(|branch| branch.chunk.first_key())
    }

    fn last_key(&self) -> Option<&K> {
        self.items.last().map(|branch| &branch.last)
    }
}

/// Returns what two rows that grew from one do not share, of each. Keys are looked at only where pointers differ.
pub(super) fn unshared<'a, T: Keyed>(
    mine: impl Iterator<Item = &'a Arc<T>>,
    theirs: impl Iterator<Item = &'a Arc<T>>,
) -> (Vec<&'a Arc<T>>, Vec<&'a Arc<T>>) {
    let (mut only_mine, mut only_theirs) = (Vec::new(), Vec::new());
    let mut theirs = theirs.peekable();
    for item in mine {
        let is_shared = loop {
            match theirs.peek() {
                Some(old) if Arc::ptr_eq(old, item) => {
                    theirs.next();
                    break true;
                }
                Some(old) if old.last_key() < item.first_key() => only_theirs.extend(theirs.next()),
                Some(_) | None => break false,
            }
        };
        if !is_shared {
            only_mine.push(item);
        }
    }
    only_theirs.extend(theirs);
    (only_mine, only_theirs)
}
