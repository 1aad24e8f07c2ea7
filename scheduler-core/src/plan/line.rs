//! The line: from the root, at each level the child with the lowest use first.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::waiting::Ask;
use crate::budget;
use crate::decision::{Level, UseOf, Why};
use crate::id::{BudgetId, Name};
use crate::ledger::FREE_FLOOR;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{ChargeMillis, MilliGpus, Span, Timestamp};

/// The waiting jobs of one pool and tier, in the order in which they are tried.
///
/// The head is passed over or placed; placing adds what it sets aside (free tier: its least usage) to every budget on
/// its path, so that one budget cannot take everything in a round.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    tier: Tier,
    sides: Vec<Side<'a>>,
    known: BTreeMap<BudgetId, usize>,
    root: Option<usize>,
    tried: u32,
}

/// A budget with waiting jobs in it or below it.
#[derive(Debug)]
struct Side<'a> {
    used: UseOf,
    parent: Option<usize>,
    children: BTreeSet<Ranked>,
    /// Its own jobs, the first one last.
    jobs: Vec<Ask<'a>>,
}

/// A child in its parent's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ranked {
    used: UseOf,
    side: usize,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.used.cmp_use(&other.used).then(self.side.cmp(&other.side))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Line<'a> {
    /// Forms the line of `by_leaf`, the jobs of each budget in reverse order of their places there.
    pub(crate) fn new(
        state: &State,
        pool: &Name,
        tier: Tier,
        by_leaf: BTreeMap<BudgetId, Vec<Ask<'a>>>,
        now: Timestamp,
    ) -> Self {
        let mut forming = Forming { state, pool, tier, now, sides: Vec::new(), known: BTreeMap::new() };
        for (leaf, jobs) in by_leaf {
            // A job whose budget is gone has no place; no edit removes a budget with live jobs.
            if let Some(side) = forming.side(leaf, budget::DEPTH_MAX + 1) {
                forming.sides[side].jobs = jobs;
            }
        }
        let Forming { mut sides, known, .. } = forming;
        for side in 0..sides.len() {
            if let Some(parent) = sides[side].parent {
                let used = sides[side].used;
                sides[parent].children.insert(Ranked { used, side });
            }
        }
        Self { tier, root: known.get(&budget::ROOT).copied(), known, sides, tried: 0 }
    }

    /// Returns the job whose turn it is.
    pub(crate) fn head(&self) -> Option<Ask<'a>> {
        let side = self.path().last().copied()?;
        self.sides[side].jobs.last().copied()
    }

    /// Returns why it is the head's turn: each level's numbers, and those of the sibling that would come next.
    pub(crate) fn why(&self) -> Why {
        let levels = self.path().into_iter().skip(1).map(|side| {
            let siblings = self.sides[side].parent.map(|parent| &self.sides[parent].children);
            let next = siblings.and_then(|children| children.iter().nth(1)).map(|ranked| ranked.used);
            Level { chosen: self.sides[side].used, next }
        });
        Why { place: self.tried.saturating_add(1), levels: levels.collect() }
    }

    /// Returns the uses at the level where the head's path and that of `leaf` part, the head's first; none within one
    /// budget.
    pub(crate) fn parting(&self, leaf: BudgetId) -> Option<(UseOf, UseOf)> {
        let theirs = self.path();
        let mut mine = Vec::new();
        let mut at = self.known.get(&leaf).copied();
        while let Some(side) = at {
            mine.push(side);
            at = self.sides[side].parent;
        }
        mine.reverse();
        let (their, my) = theirs.iter().zip(&mine).find(|(their, my)| their != my)?;
        Some((self.sides[*their].used, self.sides[*my].used))
    }

    /// Passes the head over: it waits, and the next is tried.
    pub(crate) fn pass(&mut self) {
        let path = self.path();
        let Some(last) = path.last() else { return };
        self.sides[*last].jobs.pop();
        self.tried = self.tried.saturating_add(1);
        self.leave_empty(&path);
    }

    /// Places the head: what it sets aside counts at once.
    pub(crate) fn place(&mut self, rate: MilliGpus, protection: Span) {
        let path = self.path();
        let Some(last) = path.last() else { return };
        self.sides[*last].jobs.pop();
        self.tried = self.tried.saturating_add(1);
        for side in path.iter().skip(1).copied() {
            let Some(parent) = self.sides[side].parent else { continue };
            let before = self.sides[side].used;
            let after = self.with(before, rate, protection);
            self.sides[parent].children.remove(&Ranked { used: before, side });
            self.sides[parent].children.insert(Ranked { used: after, side });
            self.sides[side].used = after;
        }
        self.leave_empty(&path);
    }

    fn with(&self, used: UseOf, rate: MilliGpus, protection: Span) -> UseOf {
        let add = |sum: ChargeMillis, span| {
            sum.checked_add(ChargeMillis::of(rate, span)).unwrap_or(ChargeMillis::new(u128::MAX))
        };
        match self.tier {
            Tier::Funded => UseOf { set_aside: add(used.set_aside, protection), ..used },
            Tier::Free => UseOf { charged: add(used.charged, FREE_FLOOR), ..used },
        }
    }

    /// Returns the sides from the root to the head's own.
    fn path(&self) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = self.root;
        while let Some(side) = at {
            path.push(side);
            let here = &self.sides[side];
            at = if here.jobs.is_empty() { here.children.first().map(|child| child.side) } else { None };
        }
        path
    }

    /// Takes sides without jobs out of the order, from the leaf upwards.
    fn leave_empty(&mut self, path: &[usize]) {
        for side in path.iter().rev().copied() {
            let here = &self.sides[side];
            if !here.jobs.is_empty() || !here.children.is_empty() {
                return;
            }
            let used = here.used;
            match here.parent {
                Some(parent) => {
                    self.sides[parent].children.remove(&Ranked { used, side });
                }
                None => self.root = None,
            }
        }
    }
}

struct Forming<'s, 'a> {
    state: &'s State,
    pool: &'s Name,
    tier: Tier,
    now: Timestamp,
    sides: Vec<Side<'a>>,
    known: BTreeMap<BudgetId, usize>,
}

impl Forming<'_, '_> {
    /// Returns the side of `id`, made with all above it; at most `levels` of them.
    fn side(&mut self, id: BudgetId, levels: usize) -> Option<usize> {
        if let Some(known) = self.known.get(&id) {
            return Some(*known);
        }
        let parent = match self.state.budgets.get(&id)?.parent {
            None => None,
            Some(above) => Some(self.side(above, levels.checked_sub(1)?)?),
        };
        let (books, tree) = (&self.state.books, &self.state.budgets);
        let window = self.state.meta.settings.window;
        let used = books.use_of(id, self.pool, self.tier, tree, window, self.now);
        self.sides.push(Side { used, parent, children: BTreeSet::new(), jobs: Vec::new() });
        self.known.insert(id, self.sides.len() - 1);
        Some(self.sides.len() - 1)
    }
}
