//! How a table keeps its values: in the chunk, or behind a pointer.

use alloc::sync::Arc;
use core::hash::Hash;

/// A way to keep values. It is part of a table's type and no part of what the table is: digests do not depend on it.
pub trait Store<V> {
    /// What a chunk has of a value.
    type Cell: Clone;

    /// Keeps a value.
    fn keep(value: V) -> Self::Cell;
    /// Returns the value.
    fn value(cell: &Self::Cell) -> &V;
    /// Returns the value for writing.
    fn value_mut(cell: &mut Self::Cell) -> &mut V;
    /// Takes the value out.
    fn take(cell: Self::Cell) -> V;
    /// Whether two are certainly the same, told without looking at the values.
    fn is_shared(a: &Self::Cell, b: &Self::Cell) -> bool;
}

/// Values in the chunk itself: for small ones.
#[derive(Debug)]
pub struct Inline;

impl<V: Clone> Store<V> for Inline {
    type Cell = V;

    fn keep(value: V) -> V {
        value
    }

    fn value(cell: &V) -> &V {
        cell
    }

    fn value_mut(cell: &mut V) -> &mut V {
        cell
    }

    fn take(cell: V) -> V {
        cell
    }

    fn is_shared(_: &V, _: &V) -> bool {
        false
    }
}

/// Each value behind a pointer of its own: for large ones. Then a write copies the chunk's pointers and one value,
/// where it would copy all values of the chunk with their texts and lists.
#[derive(Debug)]
pub struct Boxed;

impl<V: Clone> Store<V> for Boxed {
    type Cell = Arc<V>;

    fn keep(value: V) -> Arc<V> {
        Arc::new(value)
    }

    fn value(cell: &Arc<V>) -> &V {
        cell
    }

    fn value_mut(cell: &mut Arc<V>) -> &mut V {
        Arc::make_mut(cell)
    }

    fn take(cell: Arc<V>) -> V {
        Arc::unwrap_or_clone(cell)
    }

    fn is_shared(a: &Arc<V>, b: &Arc<V>) -> bool {
        Arc::ptr_eq(a, b)
    }
}

/// Feeds a record to a hasher.
pub(super) struct Hashed<'a, K, V>(pub(super) &'a K, pub(super) &'a V);

impl<K: Hash, V: Hash> Hash for Hashed<'_, K, V> {
    fn hash<H: core::hash::Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
        self.1.hash(hasher);
    }
}
