//! An ordered map that is cheap to clone and knows its digest.
//!
//! ```text
//!  Table ──> Arc<[Arc<Group>, …]> ──> [(last K, Arc<Chunk>), …] ──> [(K, V), …]   each level in key order, at most 64 x 32 x …
//! ```
//!
//! Cloning copies one pointer; a write copies the top level, one group's pointers and one chunk's records, if someone
//! else holds them; of large records ([`Boxed`]) it copies pointers, and the one record that is written. Groups and
//! chunks cache the sum of their records' hashes, so the digest costs only what changed; sums don't depend on where
//! chunks are cut, so a table restored from a snapshot has the digest of the one that grew.

mod chunk;
mod digest;
mod store;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Bound, RangeBounds};

use chunk::{At, Branch, CHUNK_MAX, Chunk, GROUP_MAX, Group, Spine};
pub use digest::digest_of;
pub use store::{Boxed, Inline, Store};

/// An ordered map from `K` to `V`; see the module's page. `S` says how values are kept.
pub struct Table<K, V, S: Store<V> = Inline> {
    spine: Arc<Spine<K, S::Cell>>,
    len: usize,
    /// How often it was written: no part of what it is.
    writes: u64,
}

impl<K: Ord + fmt::Debug, V: fmt::Debug, S: Store<V>> fmt::Debug for Table<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K, V, S: Store<V>> Clone for Table<K, V, S> {
    fn clone(&self) -> Self {
        Self { spine: Arc::clone(&self.spine), len: self.len, writes: self.writes }
    }
}

impl<K, V, S: Store<V>> Default for Table<K, V, S> {
    fn default() -> Self {
        Self { spine: Arc::default(), len: 0, writes: 0 }
    }
}

impl<K, V, S: Store<V>> Table<K, V, S> {
    fn chunks(&self) -> impl DoubleEndedIterator<Item = &Arc<Chunk<K, S::Cell>>> {
        self.spine.iter().flat_map(|group| &group.items).map(|branch| &branch.chunk)
    }
}

impl<K: Ord, V, S: Store<V>> Table<K, V, S> {
    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns how often it was written so far. Of two states of one history, those with the same count have the same
    /// records; where a digest would have to hash what changed, this costs nothing.
    #[must_use]
    pub const fn writes(&self) -> u64 {
        self.writes
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
        let records = &self.chunk(self.locate(key)?).items;
        let at = records.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        Some(S::value(&records[at].1))
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
        self.chunks().flat_map(|chunk| chunk.items.iter().map(|(k, v)| (k, S::value(v))))
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
            Bound::Unbounded => At { group: 0, chunk: 0 },
            Bound::Included(key) | Bound::Excluded(key) => self.seek(|last| last < key),
        };
        let start = range.clone();
        let here = self.spine.get(first.group).map_or(&[][..], |group| &group.items[first.chunk..]);
        let later = self.spine.iter().skip(first.group + 1).flat_map(|group| &group.items);
        let records = here.iter().chain(later).flat_map(|branch| branch.chunk.items.iter());
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
            .map(|(k, v)| (k, S::value(v)))
    }

    /// Returns the first record.
    #[must_use]
    pub fn first(&self) -> Option<(&K, &V)> {
        let (key, value) = self.spine.first()?.items.first()?.chunk.items.first()?;
        Some((key, S::value(value)))
    }

    /// Returns the last record.
    #[must_use]
    pub fn last(&self) -> Option<(&K, &V)> {
        let (key, value) = self.spine.last()?.items.last()?.chunk.items.last()?;
        Some((key, S::value(value)))
    }

    /// Returns the last record whose key is not above `key`.
    pub fn at_or_before(&self, key: &K) -> Option<(&K, &V)> {
        let Some(at) = self.locate(key) else { return self.last() };
        let records = &self.chunk(at).items;
        let before = records.partition_point(|(k, _)| k <= key);
        let records = match (before, at.chunk.checked_sub(1)) {
            (0, Some(chunk)) => &self.chunk(At { chunk, ..at }).items,
            (0, None) => &self.spine[at.group.checked_sub(1)?].items.last()?.chunk.items,
            (before, _) => &records[..before],
        };
        let (found, value) = records.last()?;
        Some((found, S::value(value)))
    }

    /// Returns the first record whose key is above `key`.
    pub fn after(&self, key: &K) -> Option<(&K, &V)> {
        let at = self.seek(|last| last <= key);
        let records = &self.spine.get(at.group)?.items[at.chunk].chunk.items;
        let (found, value) = &records[records.partition_point(|(k, _)| k <= key)];
        Some((found, S::value(value)))
    }

    /// Returns the place of the first chunk whose last key isn't `before`, behind the last group if all are. Those that are
    /// come before those that aren't.
    fn seek(&self, before: impl Fn(&K) -> bool) -> At {
        let is_before = |branch: &Branch<K, S::Cell>| before(&branch.last);
        let group = self.spine.partition_point(|group| group.items.last().is_some_and(is_before));
        let chunk = self.spine.get(group).map_or(0, |group| group.items.partition_point(is_before));
        At { group, chunk }
    }

    /// Returns the place of the chunk that has `key`, or would have it if that is not behind all.
    fn locate<Q: Ord + ?Sized>(&self, key: &Q) -> Option<At>
    where
        K: Borrow<Q>,
    {
        let at = self.seek(|last| last.borrow() < key);
        (at.group < self.spine.len()).then_some(at)
    }

    fn chunk(&self, at: At) -> &Chunk<K, S::Cell> {
        &self.spine[at.group].items[at.chunk].chunk
    }
}

impl<K: Ord, V, S: Store<V>> Table<K, V, S> {
    /// Whether nothing was written since `other` was cloned from this one, or the other way round: told without a look at the
    /// records, so it may be wrong in saying no.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.spine, &other.spine)
    }

    /// Returns every record that differs from `earlier`, among some neighbours that don't: what a check of the last
    /// change has to look at. `earlier` must be a clone that this table grew from.
    pub fn touched_since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (&'a K, &'a V)> {
        // Most commands leave most tables alone.
        let skip = if Arc::ptr_eq(&self.spine, &earlier.spine) { usize::MAX } else { 0 };
        let (mine, theirs) = chunk::unshared(self.spine.iter().skip(skip), earlier.spine.iter().skip(skip));
        let chunks = |groups: Vec<&'a Arc<Group<K, S::Cell>>>| {
            groups.into_iter().flat_map(|group| &group.items).map(|branch| &branch.chunk)
        };
        let (mine, theirs) = chunk::unshared(chunks(mine), chunks(theirs));
        let mut before = theirs.into_iter().flat_map(|chunk| &chunk.items).peekable();
        let records = mine.into_iter().flat_map(|chunk| chunk.items.iter());
        let records = records.filter(move |(key, cell)| {
            while before.next_if(|(old, _)| old < key).is_some() {}
            before.peek().is_none_or(|(old, was)| old != key || !S::is_shared(was, cell))
        });
        records.map(|(k, v)| (k, S::value(v)))
    }
}

impl<K: Ord + Clone, V, S: Store<V>> Table<K, V, S> {
    /// Puts a record at `key` and returns the one it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some(at) = self.locate(&key).or_else(|| self.last_chunk()) else {
            let first = Branch::of(alloc::vec![(key, S::keep(value))]);
            self.spine_mut().push(Arc::new(Group::new(first.into_iter().collect())));
            self.len = 1;
            return None;
        };
        let Branch { last, chunk } = &mut self.group_mut(at.group)[at.chunk];
        let records = Arc::make_mut(chunk).items_mut();
        match records.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(found) => Some(S::take(core::mem::replace(&mut records[found].1, S::keep(value)))),
            Err(place) => {
                if place == records.len() {
                    *last = key.clone();
                }
                records.insert(place, (key, S::keep(value)));
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
        let at = self.locate(key)?;
        let place = self.chunk(at).items.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        Some(S::value_mut(&mut self.records_mut(at)[place].1))
    }

    /// Takes the record at `key` out.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.locate(key)?;
        let place = self.chunk(at).items.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        let Branch { last, chunk } = &mut self.group_mut(at.group)[at.chunk];
        let records = Arc::make_mut(chunk).items_mut();
        let (_, value) = records.remove(place);
        if let Some((key, _)) = records.last().filter(|_| place == records.len()) {
            *last = key.clone();
        }
        self.len -= 1;
        self.join_if_sparse(at);
        Some(S::take(value))
    }

    fn last_chunk(&self) -> Option<At> {
        let group = self.spine.len().checked_sub(1)?;
        Some(At { group, chunk: self.spine[group].items.len().checked_sub(1)? })
    }

    /// Every write comes through here.
    fn spine_mut(&mut self) -> &mut Spine<K, S::Cell> {
        self.writes += 1;
        Arc::make_mut(&mut self.spine)
    }

    fn group_mut(&mut self, group: usize) -> &mut Vec<Branch<K, S::Cell>> {
        Arc::make_mut(&mut self.spine_mut()[group]).items_mut()
    }

    fn records_mut(&mut self, at: At) -> &mut Vec<(K, S::Cell)> {
        Arc::make_mut(&mut self.group_mut(at.group)[at.chunk].chunk).items_mut()
    }

    /// Joins a chunk that is nearly empty with its lower neighbour, and a group likewise, so that a table that shrank
    /// has a short spine.
    fn join_if_sparse(&mut self, at: At) {
        let group = &self.spine[at.group].items;
        let len = group[at.chunk].chunk.items.len();
        let lower = at.chunk.checked_sub(1).map(|chunk| At { chunk, ..at });
        if len == 0 {
            self.group_mut(at.group).remove(at.chunk);
        } else if len <= CHUNK_MAX / 4
            && let Some(lower) = lower
            && group[lower.chunk].chunk.items.len() + len <= CHUNK_MAX / 4 * 3
        {
            let Branch { last, chunk } = self.group_mut(at.group).remove(at.chunk);
            self.records_mut(lower).extend(chunk.items.iter().cloned());
            self.group_mut(lower.group)[lower.chunk].last = last;
        } else {
            return;
        }
        self.join_groups_if_sparse(at.group);
    }

    fn join_groups_if_sparse(&mut self, at: usize) {
        let len = self.spine[at].items.len();
        if len == 0 {
            self.spine_mut().remove(at);
        } else if len <= GROUP_MAX / 4
            && let Some(lower) = at.checked_sub(1)
            && self.spine[lower].items.len() + len <= GROUP_MAX / 4 * 3
        {
            let group = self.spine_mut().remove(at);
            self.group_mut(lower).extend(group.items.iter().cloned());
        }
    }

    /// Splits a chunk that is too large, and its group if that is then. Keys mostly grow: a full last one stays full,
    /// so that growing tables don't end half empty.
    fn split_if_full(&mut self, at: At) {
        if self.chunk(at).items.len() <= CHUNK_MAX {
            return;
        }
        let is_last_group = at.group + 1 == self.spine.len();
        let is_last = is_last_group && at.chunk + 1 == self.spine[at.group].items.len();
        let Branch { last, chunk } = &mut self.group_mut(at.group)[at.chunk];
        let records = Arc::make_mut(chunk).items_mut();
        let upper = records.split_off(if is_last { CHUNK_MAX } else { CHUNK_MAX / 2 });
        if let Some((key, _)) = records.last() {
            *last = key.clone();
        }
        let group = self.group_mut(at.group);
        if let Some(branch) = Branch::of(upper) {
            group.insert(at.chunk + 1, branch);
        }
        if group.len() > GROUP_MAX {
            let upper = group.split_off(if is_last { GROUP_MAX } else { GROUP_MAX / 2 });
            self.spine_mut().insert(at.group + 1, Arc::new(Group::new(upper)));
        }
    }
}

impl<K: Ord + Clone, V, S: Store<V>> FromIterator<(K, V)> for Table<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(records: I) -> Self {
        let mut table = Self::default();
        for (key, value) in records {
            table.insert(key, value);
        }
        table
    }
}

impl<K: Ord, V: PartialEq, S: Store<V>> PartialEq for Table<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord, V: Eq, S: Store<V>> Eq for Table<K, V, S> {}

impl<K: Hash, V: Hash, S: Store<V>> Hash for Table<K, V, S> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.len.hash(hasher);
        hasher.write_u64(self.digest());
    }
}

impl<K: Hash, V: Hash, S: Store<V>> Table<K, V, S> {
    /// Returns the sum of the records' hashes: equal tables have equal digests, however they came to be.
    pub fn digest(&self) -> u64 {
        self.spine.iter().fold(0, |sum, group| sum.wrapping_add(group.sum::<V, S>()))
    }
}
