//! The budget that a mistyped path probably means.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::lookup::{is_leaf, path_of};
use crate::state::State;

/// The most letters that may differ.
const DISTANCE_MAX: usize = 2;
/// Paths longer than this are not compared: no path in the tree is.
const LENGTH_MAX: usize = 560;

/// Returns the open leaf whose path is nearest to `text`: at most two letters away, or with the same last level.
pub(super) fn nearest(state: &State, text: &str) -> Option<String> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    let leaves = state.budgets.iter().filter(|(id, budget)| !budget.is_closed && is_leaf(state, **id));
    let paths: Vec<String> = leaves.map(|(&id, _)| path_of(state, id).to_string()).collect();
    let close = paths.iter().filter_map(|path| Some((distance(text, path)?, path))).min();
    if let Some((_, path)) = close {
        return Some(path.clone());
    }
    let last = |path: &str| path.rsplit('/').next().map(String::from);
    let wanted = last(text);
    let mut same = paths.iter().filter(|path| last(path) == wanted);
    let only = same.next()?;
    same.next().is_none().then(|| only.clone())
}

/// Returns how many letters to insert, drop or change, if at most [`DISTANCE_MAX`].
fn distance(a: &str, b: &str) -> Option<usize> {
    if a.len().abs_diff(b.len()) > DISTANCE_MAX {
        return None;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
        if row.iter().min().is_some_and(|least| *least > DISTANCE_MAX) {
            return None;
        }
    }
    row.last().copied().filter(|found| *found <= DISTANCE_MAX)
}
