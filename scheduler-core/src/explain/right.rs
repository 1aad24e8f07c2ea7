//! Who may take whom now: rights by the numbers of this moment, without the plan's own decisions in them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;

use crate::budget;
use crate::decision::{Right, UseOf};
use crate::id::{BudgetId, Name};
use crate::lifecycle::burst::{Burst, Over};
use crate::spec::{Tier, Turn};
use crate::state::State;
use crate::unit::Timestamp;

/// Uses of budgets in one pool, each computed once.
#[derive(Debug)]
pub(crate) struct Uses<'a> {
    state: &'a State,
    pool: &'a Name,
    now: Timestamp,
    known: RefCell<BTreeMap<BudgetId, UseOf>>,
    burst: Option<Burst<'a>>,
}

/// A leaf and a turn in it: as much as there is to a funded job, as far as it is about rights among budgets.
#[derive(Debug)]
pub(crate) struct Leaf {
    budget: BudgetId,
    turn: Turn,
    /// From the root down to it.
    path: Vec<BudgetId>,
}

/// How a waiting funded job stands to an attempt that nobody protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It may take it.
    May(Right),
    /// It may not.
    Kept(Kept),
}

/// Why an attempt past its protection keeps its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Its side goes first where the paths part: the waiting job's use there, and its own.
    GoesFirst(UseOf, UseOf),
    /// Its side goes after the waiting job's, but by less than the margin.
    InMargin(UseOf, UseOf),
    /// The waiting job's budget has more than its burst limit, and its own has not.
    AboveLimit(Over),
    /// It is of the same budget, and its turn is not later.
    SameBudget,
    /// Nobody hears of a node of it, so nobody could confirm that it left.
    Unheard,
}

impl<'a> Uses<'a> {
    pub(crate) fn new(state: &'a State, pool: &'a Name, now: Timestamp) -> Self {
        Self { state, pool, now, known: RefCell::default(), burst: Burst::of(state, pool, now) }
    }

    /// Returns a leaf as [`Uses::sight`] asks for it.
    pub(super) fn leaf(&self, budget: BudgetId, turn: Turn) -> Leaf {
        Leaf { budget, turn, path: budget::path(self.state, budget) }
    }

    /// Returns the first budget on the way to a leaf that has more than its burst limit, where there is one.
    pub(crate) fn over_on_path(&self, leaf: BudgetId) -> Option<Over> {
        self.burst.as_ref()?.over_on_path(leaf)
    }

    /// Returns a budget's use.
    pub(super) fn of(&self, budget: BudgetId) -> UseOf {
        let (state, window) = (self.state, self.state.meta.settings.window);
        *self.known.borrow_mut().entry(budget).or_insert_with(|| {
            state.books.use_of(budget, self.pool, Tier::Funded, &state.budgets, window, self.now)
        })
    }

    /// Returns both sides' uses where the paths of two leaves part; none within one budget.
    pub(super) fn parting(&self, mine: BudgetId, theirs: BudgetId) -> Option<(UseOf, UseOf)> {
        self.parting_of(&budget::path(self.state, mine), &budget::path(self.state, theirs))
    }

    fn parting_of(&self, mine: &[BudgetId], theirs: &[BudgetId]) -> Option<(UseOf, UseOf)> {
        let (mine, theirs) = mine.iter().zip(theirs).find(|(mine, theirs)| mine != theirs)?;
        Some((self.of(*mine), self.of(*theirs)))
    }

    /// Returns the budget of the first that keeps it from taking from the other by its share: one with more than its
    /// burst limit, while the other has not.
    pub(super) fn above_limit(&self, mine: BudgetId, theirs: BudgetId) -> Option<Over> {
        let burst = self.burst.as_ref()?;
        burst.over_on_path(mine).filter(|_| burst.over_on_path(theirs).is_none())
    }

    /// Whether a waiting funded job of one leaf may take, by its share, funded work of another past its protection.
    pub(crate) fn may_take(&self, mine: BudgetId, theirs: BudgetId) -> bool {
        let margin = self.state.meta.settings.margin_ppm;
        self.above_limit(mine, theirs).is_none()
            && self.parting(mine, theirs).is_some_and(|(mine, theirs)| mine.is_below_by(&theirs, margin))
    }

    /// Returns how a funded job stands to a funded attempt past its protection; each by its leaf and turn.
    pub(super) fn sight(&self, mine: &Leaf, theirs: &Leaf) -> Sight {
        let (my, their) = (mine.budget, theirs.budget);
        let is_later = theirs.turn > mine.turn;
        let Some((mine, theirs)) = self.parting_of(&mine.path, &theirs.path) else {
            return if is_later { Sight::May(Right::Turn) } else { Sight::Kept(Kept::SameBudget) };
        };
        if let Some(over) = self.above_limit(my, their) {
            Sight::Kept(Kept::AboveLimit(over))
        } else if mine.is_below_by(&theirs, self.state.meta.settings.margin_ppm) {
            Sight::May(Right::Share { mine, theirs })
        } else if mine.cmp_ratio(&theirs).is_lt() {
            Sight::Kept(Kept::InMargin(mine, theirs))
        } else {
            Sight::Kept(Kept::GoesFirst(mine, theirs))
        }
    }
}
