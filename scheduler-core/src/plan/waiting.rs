//! Jobs that wait, sorted into classes of equals.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::fit::{barred, could_hold};
use crate::id::{BudgetId, JobId, Name, NodeId};
use crate::job::Job;
use crate::spec::{Shape, Tier};
use crate::state::State;

/// One waiting job, as far as order and place need it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub id: JobId,
    pub job: &'a Job,
    /// Its class: jobs of one class are placed alike, so one failure in a round speaks for all.
    pub class: usize,
}

/// What a class of jobs needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class<'a> {
    pub shape: &'a Shape,
    /// Where its launch failed before, and is not tried again.
    pub barred: BTreeSet<NodeId>,
}

/// All waiting jobs of a state.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    pub classes: Vec<Class<'a>>,
    asks: Vec<Ask<'a>>,
}

impl<'a> Waiting<'a> {
    /// Collects the jobs that wait.
    pub(crate) fn of(state: &'a State) -> Self {
        let mut known: BTreeMap<(&'a Shape, BTreeSet<NodeId>), usize> = BTreeMap::new();
        let mut waiting = Self { classes: Vec::new(), asks: Vec::new() };
        for place in state.line.keys() {
            let Some(job) = state.jobs.get(&place.job) else { continue };
            let shape = &job.terms.shape;
            // A job over several nodes is refused at submission, as long as nothing here can place one.
            if shape.nodes != 1 || shape.gpus_per_node.get() == 0 {
                continue;
            }
            let barred = barred(state, job);
            let class = *known.entry((shape, barred)).or_insert_with_key(|(shape, barred)| {
                waiting.classes.push(Class { shape, barred: barred.clone() });
                waiting.classes.len() - 1
            });
            waiting.asks.push(Ask { id: place.job, job, class });
        }
        waiting
    }

    /// Returns the jobs of a tier that stand in `pool`, by leaf, in reverse order of their places there: a job that
    /// names no pool stands in each where some node could hold it.
    pub(crate) fn of_pool(&self, state: &State, pool: &Name, tier: Tier) -> BTreeMap<BudgetId, Vec<Ask<'a>>> {
        let fits: Vec<bool> = self.classes.iter().map(|class| pool_could_hold(state, pool, class)).collect();
        let mut by_leaf: BTreeMap<BudgetId, Vec<Ask<'a>>> = BTreeMap::new();
        for ask in self.asks.iter().filter(|ask| ask.job.terms.tier == tier) {
            let stands = match &ask.job.terms.cluster {
                Some(named) => named == pool,
                None => fits[ask.class],
            };
            if stands {
                by_leaf.entry(ask.job.budget).or_default().push(*ask);
            }
        }
        by_leaf.values_mut().for_each(|jobs| jobs.reverse());
        by_leaf
    }

    /// Returns the class of a waiting job.
    pub(crate) fn class_of(&self, job: JobId) -> Option<&Class<'a>> {
        self.asks.iter().find(|ask| ask.id == job).map(|ask| &self.classes[ask.class])
    }

    /// Returns the jobs that stand in none of `pools`: nothing known could hold them.
    pub(crate) fn nowhere(&self, state: &State, pools: &BTreeSet<&Name>) -> Vec<Ask<'a>> {
        let fits = |class: &Class<'_>| pools.iter().any(|pool| pool_could_hold(state, pool, class));
        let fitting: Vec<bool> = self.classes.iter().map(fits).collect();
        let is_nowhere = |ask: &&Ask<'a>| match &ask.job.terms.cluster {
            Some(named) => !pools.contains(named),
            None => !fitting[ask.class],
        };
        self.asks.iter().filter(is_nowhere).copied().collect()
    }
}

fn pool_could_hold(state: &State, pool: &Name, class: &Class<'_>) -> bool {
    state.nodes.values().any(|node| node.pool == *pool && could_hold(node, class.shape))
}
