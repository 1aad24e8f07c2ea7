//! A budget in state, and in a file.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::id::{BudgetId, Name};
use crate::spec::ContractDefaults;
use crate::unit::Share;

/// The longest path below the root, and the most budgets of a tree.
pub const DEPTH_MAX: usize = 16;
/// The most budgets of one tree.
pub const COUNT_MAX: usize = 10_000;
/// The most budgets in state: those of the tree, and closed ones that something still refers to.
pub const KEPT_MAX: usize = 2 * COUNT_MAX;
/// The most members of one tree, each counted as often as it is named.
pub const MEMBERS_MAX: usize = 100_000;

/// The root's id.
pub const ROOT: BudgetId = BudgetId::new(0);

/// A node of the tree; jobs are submitted to leaves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Its level of the path.
    pub name: Name,
    /// The budget above; none for the root.
    pub parent: Option<BudgetId>,
    /// Its children, by id.
    pub children: BTreeSet<BudgetId>,
    /// The part of the parent it may use.
    pub share: Share,
    /// The principal who edits what is below it.
    pub owner: Option<Name>,
    /// Principals who may submit here and below.
    pub members: BTreeSet<Name>,
    /// What a submission takes where it says nothing itself.
    pub defaults: ContractDefaults,
    /// Closed: takes no submissions, lets work finish.
    pub is_closed: bool,
}

/// A tree as a file says it: what `budget apply` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TreeNode {
    /// Its level of the path.
    pub name: Name,
    /// The part of the parent; the root's is the whole.
    pub share: Share,
    /// The principal who edits what is below it.
    pub owner: Option<Name>,
    /// Principals who may submit here and below.
    pub members: BTreeSet<Name>,
    /// What a submission takes where it says nothing itself.
    pub defaults: ContractDefaults,
    /// The budgets below.
    pub children: Vec<TreeNode>,
}
