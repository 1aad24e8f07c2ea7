//! The budget tree: who may use which part of the GPU time (DESIGN 3).
//!
//! The tree in state is a table of [`Budget`]s that name their parent and children. People write it as a file, a
//! [`TreeNode`]; [`diff`] says what a file would change, [`apply_tree`] checks the rights to each change and makes it.

mod check;
mod diff;
mod edit;
mod fit;
mod grant;
mod leave;
mod lookup;
mod merge;
mod record;
mod rights;
mod suggest;
#[cfg(test)]
mod tests;
mod timed;
mod usage;

pub use diff::{Change, What, diff};
pub use edit::{apply_tree, edited, found};
pub use grant::{
    Ended, GRANTS_MAX, Grant, LENGTH_MAX, REASON_MAX, Standing, end_grant, grant, next_moment, pass,
};
pub use lookup::{
    defaults, effective_share, find, for_submission, is_leaf, is_worth_nothing, label, named, path, path_of,
    tree,
};
pub use record::{Budget, COUNT_MAX, DEPTH_MAX, KEPT_MAX, MEMBERS_MAX, ROOT, Slice, TreeNode, WAS_MAX, Was};
pub use rights::{is_member, is_operator, may_edit, owns};
pub use timed::{
    Became, EDITS_MAX, Edited, TimedEdit, Trees, cancel_edit, changes_of, due_edit, next_look, plan_edit,
};
pub use usage::{PoolUsage, Row, usage};
