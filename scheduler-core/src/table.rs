//! An ordered map that is cheap to clone and knows its digest.
//!
//! A spine of `Arc`-ed chunks by key range. Cloning copies the spine; a write copies one chunk, if someone else holds
//! it. Each chunk caches the sum of its records' hashes, so the digest costs only what changed; sums don't depend on
//! where chunks are cut, so a table restored from a snapshot has the digest of the one that grew.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::hash::{Hash, Hasher};
use core::ops::{Bound, RangeBounds};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(test)]
mod tests;

const CHUNK_MAX: usize = 64;

/// An ordered map from `K` to `V`; see the module's page.
#[derive(Debug)]
pub struct Table<K, V> {
    spine: Vec<Arc<Chunk<K, V>>>,
    len: usize,
}

#[derive(Debug)]
struct Chunk<K, V> {
    records: Vec<(K, V)>,
    sum: AtomicU64,
    is_summed: AtomicBool,
}

impl<K, V> Chunk<K, V> {
    fn new(records: Vec<(K, V)>) -> Self {
        Self { records, sum: AtomicU64::new(0), is_summed: AtomicBool::new(false) }
    }
}

impl<K: Clone, V: Clone> Clone for Chunk<K, V> {
    /// A clone is made to be written to, so it starts without a sum.
    fn clone(&self) -> Self {
        Self::new(self.records.clone())
    }
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { spine: self.spine.clone(), len: self.len }
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { spine: Vec::new(), len: 0 }
    }
}

impl<K: Ord, V> Table<K, V> {
    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the record at `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let chunk = &self.spine[self.chunk_of(key)?];
        let at = chunk.records.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        Some(&chunk.records[at].1)
    }

    /// Whether there is a record at `key`.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Returns all records in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.spine.iter().flat_map(|chunk| chunk.records.iter().map(|(k, v)| (k, v)))
    }

    /// Returns all keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(k, _)| k)
    }

    /// Returns all values in key order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, v)| v)
    }

    /// Returns the records whose keys are in `range`, in key order.
    pub fn range<'a, R>(&'a self, range: R) -> impl Iterator<Item = (&'a K, &'a V)> + 'a
    where
        R: RangeBounds<K> + Clone + 'a,
    {
        let first = match range.start_bound() {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => {
                self.spine.partition_point(|chunk| chunk.records.last().is_some_and(|(k, _)| k < key))
            }
        };
        let start = range.clone();
        let records = self.spine[first..].iter().flat_map(|chunk| chunk.records.iter());
        records
            .skip_while(move |(k, _)| match start.start_bound() {
                Bound::Unbounded => false,
                Bound::Included(s) => k < s,
                Bound::Excluded(s) => k <= s,
            })
            .take_while(move |(k, _)| match range.end_bound() {
                Bound::Unbounded => true,
                Bound::Included(e) => k <= e,
                Bound::Excluded(e) => k < e,
            })
            .map(|(k, v)| (k, v))
    }

    /// Returns the first record.
    #[must_use]
    pub fn first(&self) -> Option<(&K, &V)> {
        let (key, value) = self.spine.first()?.records.first()?;
        Some((key, value))
    }

    /// Returns the last record.
    #[must_use]
    pub fn last(&self) -> Option<(&K, &V)> {
        let (key, value) = self.spine.last()?.records.last()?;
        Some((key, value))
    }

    /// Returns the last record whose key is not above `key`.
    pub fn at_or_before(&self, key: &K) -> Option<(&K, &V)> {
        let chunks = self.spine.partition_point(|c| c.records.first().is_some_and(|(k, _)| k <= key));
        let records = &self.spine[chunks.checked_sub(1)?].records;
        let (found, value) = &records[records.partition_point(|(k, _)| k <= key).checked_sub(1)?];
        Some((found, value))
    }

    /// Returns the first record whose key is above `key`.
    pub fn after(&self, key: &K) -> Option<(&K, &V)> {
        let chunk = self.spine.partition_point(|c| c.records.last().is_some_and(|(k, _)| k <= key));
        let records = &self.spine.get(chunk)?.records;
        let (found, value) = &records[records.partition_point(|(k, _)| k <= key)];
        Some((found, value))
    }

    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        let at =
            self.spine.partition_point(|chunk| chunk.records.last().is_some_and(|(k, _)| k.borrow() < key));
        (at < self.spine.len()).then_some(at)
    }
}

impl<K: Ord, V> Table<K, V> {
    /// Returns every record that differs from `earlier`, among up to a chunk of neighbours each that don't: what a
    /// check of the last change has to look at. `earlier` must be a clone that this table grew from.
    pub fn touched_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (&'a K, &'a V)> {
        let mut at = 0;
        self.spine
            .iter()
            .filter(move |chunk| {
                let first = chunk.records.first().map(|(k, _)| k);
                while let Some(old) = earlier.spine.get(at) {
                    if Arc::ptr_eq(old, chunk) {
                        at += 1;
                        return false;
                    }
                    if old.records.last().map(|(k, _)| k) >= first {
                        return true;
                    }
                    at += 1;
                }
                true
            })
            .flat_map(|chunk| chunk.records.iter().map(|(k, v)| (k, v)))
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    /// Puts a record at `key` and returns the one it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some(at) = self.chunk_of(&key).or_else(|| self.spine.len().checked_sub(1)) else {
            self.spine.push(Arc::new(Chunk::new(alloc::vec![(key, value)])));
            self.len = 1;
            return None;
        };
        let chunk = self.chunk_mut(at);
        match chunk.records.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(found) => Some(core::mem::replace(&mut chunk.records[found].1, value)),
            Err(place) => {
                chunk.records.insert(place, (key, value));
                self.len += 1;
                self.split_if_full(at);
                None
            }
        }
    }

    /// Returns the record at `key` for writing.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.chunk_of(key)?;
        let place = self.spine[at].records.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        Some(&mut self.chunk_mut(at).records[place].1)
    }

    /// Takes the record at `key` out.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.chunk_of(key)?;
        let place = self.spine[at].records.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        let (_, value) = self.chunk_mut(at).records.remove(place);
        self.len -= 1;
        self.join_if_sparse(at);
        Some(value)
    }

    fn chunk_mut(&mut self, at: usize) -> &mut Chunk<K, V> {
        let chunk = Arc::make_mut(&mut self.spine[at]);
        *chunk.is_summed.get_mut() = false;
        chunk
    }

    /// Joins a chunk that is nearly empty with its lower neighbour, so that a table that shrank has a short spine.
    fn join_if_sparse(&mut self, at: usize) {
        let len = self.spine[at].records.len();
        if len == 0 {
            self.spine.remove(at);
        } else if len <= CHUNK_MAX / 4
            && let Some(lower) = at.checked_sub(1)
            && self.spine[lower].records.len() + len <= CHUNK_MAX / 4 * 3
        {
            let chunk = self.spine.remove(at);
            self.chunk_mut(lower).records.extend(chunk.records.iter().cloned());
        }
    }

    fn split_if_full(&mut self, at: usize) {
        let is_last = at + 1 == self.spine.len();
        let chunk = self.chunk_mut(at);
        if chunk.records.len() <= CHUNK_MAX {
            return;
        }
        // Keys mostly grow: a full last chunk stays full, so that growing tables don't end half empty.
        let cut = if is_last { CHUNK_MAX } else { CHUNK_MAX / 2 };
        let upper = chunk.records.split_off(cut);
        self.spine.insert(at + 1, Arc::new(Chunk::new(upper)));
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(records: I) -> Self {
        let mut table = Self::default();
        for (key, value) in records {
            table.insert(key, value);
        }
        table
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for Table<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let mine = self.spine.iter().flat_map(|chunk| &chunk.records);
        self.len == other.len && mine.eq(other.spine.iter().flat_map(|chunk| &chunk.records))
    }
}

impl<K: Eq, V: Eq> Eq for Table<K, V> {}

impl<K: Hash, V: Hash> Hash for Table<K, V> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.len.hash(hasher);
        hasher.write_u64(self.digest());
    }
}

impl<K: Hash, V: Hash> Table<K, V> {
    /// Returns the sum of the records' hashes: equal tables have equal digests, however they came to be.
    pub fn digest(&self) -> u64 {
        self.spine.iter().fold(0, |sum, chunk| sum.wrapping_add(chunk.sum()))
    }
}

impl<K: Hash, V: Hash> Chunk<K, V> {
    fn sum(&self) -> u64 {
        if self.is_summed.load(Ordering::Acquire) {
            return self.sum.load(Ordering::Relaxed);
        }
        let sum = self.records.iter().fold(0, |sum: u64, record| sum.wrapping_add(digest_of(record)));
        self.sum.store(sum, Ordering::Relaxed);
        self.is_summed.store(true, Ordering::Release);
        sum
    }
}

/// Returns the first 64 bits of the BLAKE3 hash of what `value` feeds to a hasher, integers as little endian.
pub fn digest_of(value: &impl Hash) -> u64 {
    let mut hasher = Blake(blake3::Hasher::new());
    value.hash(&mut hasher);
    hasher.finish()
}

struct Blake(blake3::Hasher);

macro_rules! little_endian {
    ($($method:ident($int:ty)),*) => {
        $(fn $method(&mut self, value: $int) {
            self.0.update(&value.to_le_bytes());
        })*
    };
}

impl Hasher for Blake {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    little_endian!(write_u8(u8), write_u16(u16), write_u32(u32), write_u64(u64), write_u128(u128));

    // A length or a discriminant: as wide on every machine.
    fn write_usize(&mut self, value: usize) {
        self.0.update(&u64::try_from(value).unwrap_or(u64::MAX).to_le_bytes());
    }

    fn write_isize(&mut self, value: isize) {
        self.0.update(&i64::try_from(value).unwrap_or(i64::MAX).to_le_bytes());
    }

    fn finish(&self) -> u64 {
        let hash = self.0.finalize();
        let mut first = [0; 8];
        first.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_le_bytes(first)
    }
}
