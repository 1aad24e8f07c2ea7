//! The burst limit, where a setting draws one (DESIGN 6): a budget that has more than so many times its share of a pool
//! goes after everybody else that waits.

use alloc::collections::BTreeMap;

use crate::budget;
use crate::id::{BudgetId, Name};
use crate::ledger::part_now;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::Timestamp;

/// GPUs are counted in millionths, so that small shares of small pools are no zeros.
const MILLION: u64 = 1_000_000;

/// What budgets have of one pool, and what they may before they go after others.
#[derive(Debug, Clone)]
pub struct Burst<'a> {
    state: &'a State,
    pool: &'a Name,
    now: Timestamp,
    /// GPUs of all nodes of the pool.
    whole: u64,
    /// GPUs of funded attempts that do not leave, of each budget and those below it.
    occupied: BTreeMap<BudgetId, u64>,
}

/// A budget that has more than its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// Which.
    pub budget: BudgetId,
    /// GPUs that it has.
    pub gpus: u64,
    /// What it may have, in millionths of a GPU.
    pub most: u64,
}

impl<'a> Burst<'a> {
    /// Counts a pool's; none where there is no limit.
    #[must_use]
    pub fn of(state: &'a State, pool: &'a Name, now: Timestamp) -> Option<Self> {
        if state.meta.settings.burst_limit_pct == 0 {
            return None;
        }
        let nodes = state.nodes.values().filter(|node| node.pool == *pool);
        let whole = count(nodes.map(|node| node.gpus.len()).sum());
        let mut by_leaf: BTreeMap<BudgetId, u64> = BTreeMap::new();
        for attempt in state.attempts.values().filter(|attempt| attempt.pool == *pool) {
            if attempt.tier == Tier::Funded && !attempt.is_leaving() {
                let gpus = count(attempt.placements.iter().map(|placement| placement.slots.len()).sum());
                *by_leaf.entry(attempt.budget).or_default() += gpus;
            }
        }
        let mut burst = Self { state, pool, now, whole, occupied: BTreeMap::new() };
        for (leaf, gpus) in by_leaf {
            burst.starts(leaf, gpus);
        }
        Some(burst)
    }

    /// Somebody starts: its budget and all above it have more.
    pub fn starts(&mut self, leaf: BudgetId, gpus: u64) {
        for id in budget::path(self.state, leaf) {
            *self.occupied.entry(id).or_default() += gpus;
        }
    }

    /// Returns a budget's GPUs and its limit, if it has more than that.
    #[must_use]
    pub fn over(&self, id: BudgetId) -> Option<Over> {
        let gpus = self.occupied.get(&id).copied().filter(|gpus| *gpus > 0)?;
        if id == budget::ROOT {
            return None;
        }
        let whole = self.whole.saturating_mul(MILLION);
        let share = part_now(id, (&self.state.budgets, self.pool), whole, self.now);
        let most = share.saturating_mul(self.state.meta.settings.burst_limit_pct.into()) / 100;
        (gpus.saturating_mul(MILLION) > most).then_some(Over { budget: id, gpus, most })
    }

    /// Returns the first budget on the way to a leaf that has more than its limit.
    #[must_use]
    pub fn over_on_path(&self, leaf: BudgetId) -> Option<Over> {
        budget::path(self.state, leaf).into_iter().find_map(|id| self.over(id))
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
