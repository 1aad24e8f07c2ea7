//! What each budget has, used and waits for: the rows of `budget tree`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::{ROOT, label};
use crate::decision::UseOf;
use crate::id::{BudgetId, Name};
use crate::ledger::{Class, PoolBooks};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{ChargeMillis, GpuCount, Share, Timestamp};

/// The budgets of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolUsage {
    /// Which pool.
    pub pool: Name,
    /// GPUs installed.
    pub gpus: GpuCount,
    /// What all shares divide: the capacity in service over the window.
    pub capacity: ChargeMillis,
    /// Each budget before those below it, siblings by id.
    pub rows: Vec<Row>,
}

/// One budget in one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub id: BudgetId,
    /// Its path, or the root's name.
    pub path: String,
    /// Levels below the root.
    pub depth: u32,
    /// The product of the shares up to the root, with the grants of now.
    pub share: Share,
    /// Its own part of its parent, without grants.
    pub own: Share,
    /// What grants make of that now.
    pub with_grants: Share,
    /// Its use.
    pub funded: UseOf,
    /// Its use of the free tier.
    pub free: UseOf,
    /// Its place among its siblings, from 1: lower use goes first.
    pub goes: u32,
    /// Jobs in line, in it and below, in whatever pool they may run.
    pub waiting: u32,
    /// GPUs occupied, by it and below.
    pub running: GpuCount,
}

/// Returns what every budget has and used in each pool: open ones, and closed ones with something left. A control
/// plane without GPUs shows the pool `main`.
#[must_use]
pub fn usage(state: &State, now: Timestamp) -> Vec<PoolUsage> {
    let waiting = waiting(state);
    let none = PoolBooks::default();
    let mut pools: Vec<(Name, &PoolBooks)> =
        state.books.pools().iter().map(|(name, books)| (name.clone(), &**books)).collect();
    if pools.is_empty() {
        pools.extend(Name::new("main").map(|name| (name, &none)));
    }
    let of = |(pool, books): (Name, &PoolBooks)| {
        let capacity = books.capacity(state.meta.settings.window, now);
        let mut view = View { state, pool: &pool, books, now, waiting: &waiting, rows: Vec::new() };
        view.add(ROOT, 0, Share::WHOLE);
        let (gpus, rows) = (books.installed(now).count, view.rows);
        PoolUsage { pool, gpus, capacity, rows }
    };
    pools.into_iter().map(of).collect()
}

/// Counts jobs in line by budget, those below included.
fn waiting(state: &State) -> BTreeMap<BudgetId, u32> {
    let mut counts: BTreeMap<BudgetId, u32> = BTreeMap::new();
    for place in state.line.keys() {
        *counts.entry(place.budget).or_default() += 1;
    }
    let leaves: Vec<(BudgetId, u32)> = counts.iter().map(|(&leaf, &count)| (leaf, count)).collect();
    for (leaf, count) in leaves {
        for above in super::path(state, leaf).into_iter().filter(|id| *id != leaf) {
            *counts.entry(above).or_default() += count;
        }
    }
    counts
}

struct View<'a> {
    state: &'a State,
    pool: &'a Name,
    books: &'a PoolBooks,
    now: Timestamp,
    waiting: &'a BTreeMap<BudgetId, u32>,
    rows: Vec<Row>,
}

impl View<'_> {
    /// Adds the rows of a budget and of all below it; returns the GPUs they occupy.
    fn add(&mut self, id: BudgetId, depth: u32, above: Share) -> u32 {
        let Some(budget) = self.state.budgets.get(&id) else {
            return 0;
        };
        let with_grants = budget.share_in(self.pool, self.now);
        let share = above.of(with_grants);
        let window = self.state.meta.settings.window;
        let allocation = self.books.allocation(id, (&self.state.budgets, self.pool), window, self.now);
        let at = self.rows.len();
        self.rows.push(Row {
            id,
            path: label(self.state, id),
            depth,
            share,
            own: budget.own_in(self.pool),
            with_grants,
            funded: self.use_of(id, Tier::Funded, allocation),
            free: self.use_of(id, Tier::Free, allocation),
            goes: 1,
            waiting: self.waiting.get(&id).copied().unwrap_or(0),
            running: GpuCount::new(0),
        });
        let mut children: Vec<(usize, UseOf)> = Vec::new();
        let mut running = self.occupied(id);
        let state = self.state;
        for (child, record) in budget.children.iter().filter_map(|id| Some((*id, state.budgets.get(id)?))) {
            let place = self.rows.len();
            let below = self.add(child, depth + 1, share);
            running += below;
            if record.is_closed && below == 0 && self.is_spent(place) {
                self.rows.truncate(place);
            } else {
                children.push((place, self.rows[place].funded));
            }
        }
        children.sort_by(|(_, a), (_, b)| a.cmp_use(b));
        for (goes, (place, _)) in (1..).zip(children) {
            self.rows[place].goes = goes;
        }
        self.rows[at].running = GpuCount::new(running);
        running
    }

    fn use_of(&self, budget: BudgetId, tier: Tier, allocation: ChargeMillis) -> UseOf {
        let window = self.state.meta.settings.window;
        let account = self.books.account(budget, tier);
        let charged = account.map_or(ChargeMillis::ZERO, |account| account.charged(window, self.now));
        let set_aside = account.map_or(ChargeMillis::ZERO, |account| account.set_aside(self.now));
        UseOf { budget, charged, set_aside, allocation }
    }

    fn occupied(&self, budget: BudgetId) -> u32 {
        let gpus = |tier| self.books.in_class(Class::Occupied { budget, tier }, self.now).count.get();
        gpus(Tier::Funded) + gpus(Tier::Free)
    }

    /// Whether nothing is left of the budget at a row: nothing booked and nobody in line.
    fn is_spent(&self, place: usize) -> bool {
        let row = &self.rows[place];
        row.waiting == 0 && row.funded.booked() == 0 && row.free.booked() == 0
    }
}
