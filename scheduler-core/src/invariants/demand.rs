//! Demand is what jobs have or want, tasks to come too, and nothing else.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use crate::budget;
use crate::id::{AttemptId, BudgetId, Name};
use crate::job::Phase;
use crate::lifecycle::want;
use crate::spec::Tier;
use crate::state::State;

pub(super) fn full(state: &State) -> Result<(), String> {
    let mut wanted: BTreeMap<(&Name, BudgetId), u64> = BTreeMap::new();
    for (id, job) in state.jobs.iter().filter(|(_, job)| !job.wants.is_empty()) {
        let is_right = job.terms.tier == Tier::Funded
            && match &job.phase {
                Phase::Waiting { .. } => true,
                Phase::Live(no) => {
                    let attempt = state.attempts.get(&AttemptId { job: *id, no: *no });
                    attempt.is_some_and(|attempt| job.wants == [attempt.pool.clone()])
                }
                Phase::Held { .. } | Phase::Ended { .. } => false,
            };
        if !is_right {
            return Err(format!("job {id} is {:?} and wants GPUs in {:?}", job.phase, job.wants));
        }
        for pool in &job.wants {
            for budget in budget::path(state, job.budget) {
                *wanted.entry((pool, budget)).or_default() += want::gpus(job);
            }
        }
    }
    for (id, array) in state.arrays.iter() {
        let (to_come, job) = (want::to_come(array), &array.job);
        if to_come == 0 && !job.wants.is_empty() {
            return Err(format!("array {id} has nothing to come and wants GPUs in {:?}", job.wants));
        }
        for pool in &job.wants {
            for budget in budget::path(state, job.budget) {
                *wanted.entry((pool, budget)).or_default() += to_come;
            }
        }
    }
    for (name, pool) in state.books.pools().iter() {
        for (budget, curve) in pool.demand_curves().iter() {
            let want = wanted.remove(&(name, *budget)).unwrap_or(0);
            if curve.rate() != want {
                return Err(format!("{name}: budget {budget} wants {want} GPUs, booked {}", curve.rate()));
            }
        }
    }
    match wanted.into_iter().find(|(_, want)| *want > 0) {
        None => Ok(()),
        Some(((pool, budget), want)) => {
            Err(format!("{pool}: budget {budget} wants {want} GPUs, booked none"))
        }
    }
}
