//! What left state with an entry: the difference of two tables costs only what they do not share.

use std::hash::Hash;

use scheduler_core::state::State;
use scheduler_core::table::{Store, Table};

use super::super::record::Left;

/// Returns what is in `before` and not in `after`; none if nothing.
pub(super) fn left(before: &State, after: &State) -> Option<Left> {
    let jobs = gone(&before.jobs, &after.jobs);
    let decisions = gone(&before.decisions, &after.decisions);
    let bills = gone(&before.bills, &after.bills);
    let arrays = gone(&before.arrays, &after.arrays);
    let is_nothing = jobs.is_empty() && arrays.is_empty() && decisions.is_empty() && bills.is_empty();
    (!is_nothing).then(|| Left { before: before.clone(), jobs, arrays, decisions, bills })
}

fn gone<K: Ord + Clone + Hash, V, S: Store<V>>(before: &Table<K, V, S>, after: &Table<K, V, S>) -> Vec<K> {
    let touched = before.touched_since(after).map(|(key, _)| key);
    touched.filter(|key| !after.contains(*key)).cloned().collect()
}
