//! A budget in state, and in a file.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::id::{BudgetId, GrantId, Name};
use crate::spec::ContractDefaults;
use crate::unit::{Share, Timestamp};

/// The longest path below the root, and the most budgets of a tree.
pub const DEPTH_MAX: usize = 16;
/// The most budgets of one tree.
pub const COUNT_MAX: usize = 10_000;
/// The most budgets in state: those of the tree, and closed ones that something still refers to.
pub const KEPT_MAX: usize = 2 * COUNT_MAX;
/// The most members of one tree, each counted as often as it is named.
pub const MEMBERS_MAX: usize = 100_000;

/// The most former shares of one budget that are kept.
pub const WAS_MAX: usize = 32;

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
    /// Another part of it in these pools.
    pub pools: BTreeMap<Name, Share>,
    /// The principal who edits what is below it.
    pub owner: Option<Name>,
    /// Principals who may submit here and below.
    pub members: BTreeSet<Name>,
    /// What a submission takes where it says nothing itself.
    pub defaults: ContractDefaults,
    /// Closed: takes no submissions, lets work finish.
    pub is_closed: bool,
    /// What grants add to its share, and take from it: those that still count in the window.
    pub slices: Vec<Slice>,
    /// The shares that it had before, as far as the window reaches, the oldest first.
    pub was: Vec<Was>,
}

/// A share that a budget had.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Was {
    /// Up to this moment.
    pub until: Timestamp,
    /// So much of the parent.
    pub share: Share,
    /// Another part of it in these pools.
    pub pools: BTreeMap<Name, Share>,
}

impl Budget {
    /// Makes an open budget without owner, members, defaults and children.
    #[must_use]
    pub fn new(name: Name, parent: Option<BudgetId>, share: Share) -> Self {
        Self {
            name,
            parent,
            children: BTreeSet::new(),
            share,
            pools: BTreeMap::new(),
            owner: None,
            members: BTreeSet::new(),
            defaults: ContractDefaults::default(),
            is_closed: false,
            slices: Vec::new(),
            was: Vec::new(),
        }
    }

    /// Gives it other shares from `now` on; what it had is known for as long as the window reaches, and no more than
    /// so many of them.
    pub fn set_shares(
        &mut self,
        share: Share,
        pools: &BTreeMap<Name, Share>,
        (now, oldest): (Timestamp, Timestamp),
    ) {
        self.was.retain(|was| was.until > oldest);
        if share == self.share && *pools == self.pools {
            return;
        }
        if self.was.last().is_none_or(|last| last.until < now) {
            if self.was.len() >= WAS_MAX {
                self.was.remove(0);
            }
            self.was.push(Was { until: now, share: self.share, pools: self.pools.clone() });
        }
        self.share = share;
        self.pools.clone_from(pools);
    }

    /// Returns its own share in a pool, without grants.
    #[must_use]
    pub fn own_in(&self, pool: &Name) -> Share {
        self.pools.get(pool).copied().unwrap_or(self.share)
    }

    /// Returns its share in a pool at a moment: its own, and what grants add to it and take from it then.
    #[must_use]
    pub fn share_in(&self, pool: &Name, at: Timestamp) -> Share {
        self.with_grants(self.own_in(pool), at)
    }

    /// Returns the share that held in a pool at a moment of the window: its own of that time, with the grants of then.
    #[must_use]
    pub fn share_then(&self, pool: &Name, at: Timestamp) -> Share {
        let was = self.was.iter().find(|was| at < was.until);
        let own =
            was.map_or_else(|| self.own_in(pool), |was| was.pools.get(pool).copied().unwrap_or(was.share));
        self.with_grants(own, at)
    }

    /// Returns its share at a moment where it has no other in a pool, with the grants of then.
    #[must_use]
    pub fn share_at(&self, at: Timestamp) -> Share {
        self.with_grants(self.share, at)
    }

    fn with_grants(&self, own: Share, at: Timestamp) -> Share {
        if self.slices.is_empty() {
            return own;
        }
        let then = self.slices.iter().filter(|slice| slice.is_on(at));
        let sum = |is_gain| {
            let of = then.clone().filter(move |slice| slice.is_gain == is_gain);
            of.map(|slice| u64::from(slice.share.ppm())).sum::<u64>()
        };
        let ppm = (u64::from(own.ppm()) + sum(true)).saturating_sub(sum(false));
        u32::try_from(ppm).ok().and_then(Share::from_ppm).unwrap_or(Share::WHOLE)
    }
}

/// What one grant adds to a budget's share, or takes from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slice {
    /// By which grant.
    pub grant: GrantId,
    /// Added, or taken.
    pub is_gain: bool,
    /// So much of the parent.
    pub share: Share,
    /// From this moment on.
    pub begins_at: Timestamp,
    /// Up to this one.
    pub until: Timestamp,
}

impl Slice {
    /// Whether it counts at a moment.
    #[must_use]
    pub fn is_on(&self, at: Timestamp) -> bool {
        self.begins_at <= at && at < self.until
    }
}

/// A tree as a file says it: what `budget apply` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TreeNode {
    /// Its level of the path.
    pub name: Name,
    /// The part of the parent; the root's is the whole.
    pub share: Share,
    /// Another part of it in these pools; the root has none.
    pub pools: BTreeMap<Name, Share>,
    /// The principal who edits what is below it.
    pub owner: Option<Name>,
    /// Principals who may submit here and below.
    pub members: BTreeSet<Name>,
    /// What a submission takes where it says nothing itself.
    pub defaults: ContractDefaults,
    /// The budgets below.
    pub children: Vec<TreeNode>,
}
