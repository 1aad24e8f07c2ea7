//! Who used how much, halved with time, as Slurm keeps it: by leaf budget and user.

use std::collections::BTreeMap;
use std::sync::Arc;

use scheduler_core::id::BudgetId;
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::Timestamp;

use super::fair_tree::{Entry, Kind, ranks};
use super::multifactor::{Weights, decayed, seconds};
use crate::policy::Round;

/// A user within a leaf budget.
pub(super) type User = (BudgetId, Arc<str>);

/// The use of all users.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    used: BTreeMap<User, f64>,
    until: Option<Timestamp>,
}

impl Usage {
    /// Adds what ran since the last time, and lets the rest fade. Whoever waits or runs is known from then on. The free
    /// tier adds nothing: its class of service has the usage factor 0.
    pub(super) fn advance(&mut self, round: &Round<'_>, weights: &Weights) {
        let since = self.until.unwrap_or(round.now);
        let passed = round.now.since(since);
        self.until = Some(round.now);
        if !passed.is_zero() {
            self.used.values_mut().for_each(|used| *used = decayed(*used, passed, weights));
        }
        for (id, attempt) in round.state.attempts.iter() {
            let Some(go_at) = attempt.go_at.filter(|_| attempt.tier == Tier::Funded) else { continue };
            let Some(job) = round.numbers.get(&id.job).and_then(|at| round.jobs.get(*at)) else { continue };
            let until = attempt.ended.as_ref().map_or(round.now, |ended| ended.at.min(round.now));
            let ran = until.since(go_at.max(since));
            let gpus: usize = attempt.placements.iter().map(|placement| placement.slots.len()).sum();
            let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
            let used = self.used.entry((attempt.budget, job.user.clone())).or_insert(0.0);
            *used += f64::from(gpus) * seconds(ran);
        }
        for line in round.state.line.keys() {
            if let Some(job) = round.numbers.get(&line.job).and_then(|at| round.jobs.get(*at)) {
                self.used.entry((line.budget, job.user.clone())).or_insert(0.0);
            }
        }
    }

    /// Returns each user's factor, from 0 to 1, by Fair Tree over the budget tree; users of a leaf have equal shares.
    pub(super) fn factors(&self, state: &State) -> BTreeMap<User, f64> {
        let users: Vec<(&User, f64)> = self.used.iter().map(|(user, used)| (user, *used)).collect();
        let roots = state.budgets.iter().filter(|(_, budget)| budget.parent.is_none());
        let tree: Vec<Entry> = roots.map(|(id, _)| entry(state, *id, &users)).collect();
        let all = f64::from(u32::try_from(users.len()).unwrap_or(u32::MAX));
        let factor = |rank: usize| f64::from(u32::try_from(rank).unwrap_or(u32::MAX)) / all;
        let ranked = ranks(&tree).into_iter();
        ranked.filter_map(|(user, rank)| Some((users.get(user)?.0.clone(), factor(rank)))).collect()
    }
}

fn entry(state: &State, id: BudgetId, users: &[(&User, f64)]) -> Entry {
    let Some(budget) = state.budgets.get(&id) else {
        return Entry { shares: 0.0, kind: Kind::Account(Vec::new()) };
    };
    let mut children: Vec<Entry> = budget.children.iter().map(|child| entry(state, *child, users)).collect();
    let own = users.iter().enumerate().filter(|(_, (user, _))| user.0 == id);
    children.extend(
        own.map(|(at, (_, usage))| Entry { shares: 1.0, kind: Kind::User { user: at, usage: *usage } }),
    );
    Entry { shares: f64::from(budget.share.ppm()), kind: Kind::Account(children) }
}
