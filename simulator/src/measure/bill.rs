//! Preemptions and what they cost, by cause and tier.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::classes::Classes;
use super::number::{gpu_hours, ratio, real};
use crate::record::{Cause, PreemptionRecord, Record};

/// The bill of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Bill {
    /// All of it.
    pub total: Cost,
    /// Each tier.
    pub tiers: Vec<TierCost>,
    /// Each cause and tier that there was.
    pub causes: Vec<CauseCost>,
    /// Preemptions whose job never started on what it took: the goal is none.
    pub wasted: u64,
    /// The funded job that was preempted most often.
    pub most_funded: Option<MostPreempted>,
    /// The one of the free tier.
    pub most_free: Option<MostPreempted>,
    /// How often a budget took back from another within four hours what that had taken from it; funded work only.
    pub flips: u64,
}

/// What some preemptions cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    /// How many.
    pub preemptions: u64,
    /// For each 1,000 GPU-hours that attempts of both tiers occupied.
    pub per_1000_gpu_h: Option<f64>,
    /// GPU time that they lost: since the last checkpoint, plus restart.
    pub lost_gpu_ms: u64,
    /// What attempts occupied: of the tier where the row is one tier's, else of both.
    pub delivered_gpu_ms: u64,
    /// lost / delivered.
    pub lost_ratio: Option<f64>,
}

/// One tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierCost {
    /// `funded` or `free tier`: whose attempt gave way.
    pub tier: String,
    /// What it cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// One cause in one tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CauseCost {
    /// What it was for.
    pub cause: String,
    /// Whose attempt gave way.
    pub tier: String,
    /// What it cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// A job that was preempted more often than all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MostPreempted {
    /// Its id in the trace.
    pub job: String,
    /// Its leaf.
    pub budget: String,
    /// How often.
    pub times: u64,
    /// What it lost in all.
    pub lost_gpu_ms: u64,
}

/// Returns a cause in words.
pub(crate) const fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::Share => "share",
        Cause::Turn => "turn",
        Cause::FreeTier => "free tier made way",
        Cause::Claim => "date",
        Cause::Lane => "short lane",
        Cause::Operator => "drain or operator",
    }
}

/// Returns a tier in words.
pub(crate) const fn tier(is_free: bool) -> &'static str {
    if is_free { "free tier" } else { "funded" }
}

/// Returns the bill.
pub(crate) fn bill(record: &Record, classes: &Classes) -> Bill {
    let is_free = |preemption: &PreemptionRecord| victim(record, preemption).is_free;
    let delivered = |is_free: bool| if is_free { classes.free_gpu_ms } else { classes.funded_gpu_ms };
    let cost = |is_meant: &dyn Fn(&PreemptionRecord) -> bool, delivered_gpu_ms: u64| {
        let meant: Vec<_> = record.preemptions.iter().filter(|preemption| is_meant(preemption)).collect();
        let preemptions = super::number::count(&meant);
        let lost_gpu_ms = meant.iter().map(|preemption| preemption.lost_gpu_ms).sum();
        let hours = gpu_hours(classes.occupied_gpu_ms());
        Cost {
            preemptions,
            per_1000_gpu_h: (hours > 0.0).then(|| real(preemptions) * 1000.0 / hours),
            lost_gpu_ms,
            delivered_gpu_ms,
            lost_ratio: ratio(lost_gpu_ms, delivered_gpu_ms),
        }
    };
    let mut kinds: Vec<(Cause, bool)> =
        record.preemptions.iter().map(|one| (one.cause, is_free(one))).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let causes = kinds.into_iter().map(|(cause, free)| CauseCost {
        cause: word(cause).to_owned(),
        tier: tier(free).to_owned(),
        cost: cost(&|one| one.cause == cause && is_free(one) == free, delivered(free)),
    });
    let tiers = [false, true].map(|free| TierCost {
        tier: tier(free).to_owned(),
        cost: cost(&|one| is_free(one) == free, delivered(free)),
    });
    Bill {
        total: cost(&|_| true, classes.occupied_gpu_ms()),
        tiers: tiers.into(),
        causes: causes.collect(),
        wasted: record.preemptions.iter().map(|one| u64::from(one.is_wasted)).sum(),
        most_funded: most(record, false),
        most_free: most(record, true),
        flips: super::flips::flips(record),
    }
}

/// Returns the job that gave way.
pub(crate) fn victim<'r>(record: &'r Record, preemption: &PreemptionRecord) -> &'r crate::record::JobRecord {
    &record.jobs[record.attempts[preemption.victim].job]
}

/// Returns the job of a tier that gave way most often; of several, the one that lost most, then the earliest.
fn most(record: &Record, is_free: bool) -> Option<MostPreempted> {
    let mut jobs: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for preemption in &record.preemptions {
        let sums = jobs.entry(record.attempts[preemption.victim].job).or_default();
        *sums = (sums.0 + 1, sums.1 + preemption.lost_gpu_ms);
    }
    let of_tier = jobs.into_iter().filter(|(job, _)| record.jobs[*job].is_free == is_free);
    // The earliest of equals: the last maximum of the reversed list.
    let (job, (times, lost_gpu_ms)) = of_tier.rev().max_by_key(|(_, sums)| *sums)?;
    let job = &record.jobs[job];
    Some(MostPreempted {
        job: job.name.to_string(),
        budget: record.budgets[job.budget].path.clone(),
        times,
        lost_gpu_ms,
    })
}
