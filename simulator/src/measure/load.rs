//! How much was wanted, in both meanings: the load that was offered, and demand at a moment.

use serde::{Deserialize, Serialize};

use super::books::Books;
use super::number::{ratio, real};
use crate::record::JobEnd;

/// How much was wanted of what there was.
///
/// The two are not the same: an offered load of 2 piles up, so that demand at a moment grows without end.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Load {
    /// Offered load: work of all jobs submitted in the run / GPU time in service in it. Lost work is not counted again.
    pub offered_ratio: Option<f64>,
    /// Demand at a moment / GPUs in service, mean over time: GPUs that jobs of both tiers had or waited for.
    pub demand_mean_ratio: Option<f64>,
    /// The same at half of all moments at most.
    pub demand_p50_ratio: Option<f64>,
    /// The same at the worst moment.
    pub demand_max_ratio: Option<f64>,
}

/// Returns how much was wanted.
pub(crate) fn load(books: &Books<'_>) -> Load {
    let (begin, end) = books.run();
    let record = books.record;
    let offered = record.jobs.iter().filter(|job| !matches!(job.ended, Some((_, JobEnd::Refused))));
    let offered = offered
        .fold(0_u64, |sum, job| sum.saturating_add(u64::from(job.gpus).saturating_mul(job.work.as_millis())));
    let moments = moments(books);
    let weight: u64 = moments.iter().map(|(_, ms)| ms).sum();
    let mean = moments.iter().map(|(ratio, ms)| ratio * real(*ms)).sum::<f64>() / real(weight.max(1));
    let mut passed = 0;
    let p50 = moments.iter().find(|(_, ms)| {
        passed += ms;
        passed * 2 >= weight
    });
    Load {
        offered_ratio: ratio(offered, books.in_service.between(begin, end)),
        demand_mean_ratio: (weight > 0).then_some(mean),
        demand_p50_ratio: p50.map(|(ratio, _)| *ratio),
        demand_max_ratio: moments.last().map(|(ratio, _)| *ratio),
    }
}

/// Returns demand / supply with how long it was so, the smallest first; without the times in which nothing was in
/// service.
fn moments(books: &Books<'_>) -> Vec<(f64, u64)> {
    let (begin, end) = books.run();
    let wanted = books.wanted();
    let mut cuts: Vec<u64> = wanted.moments().chain(books.in_service.moments()).collect();
    cuts.extend([begin, end]);
    cuts.retain(|at| (begin..=end).contains(at));
    cuts.sort_unstable();
    cuts.dedup();
    let pieces = cuts
        .windows(2)
        .filter_map(|cut| Some((ratio(wanted.at(cut[0]), books.in_service.at(cut[0]))?, cut[1] - cut[0])));
    let mut pieces: Vec<(f64, u64)> = pieces.collect();
    pieces.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    pieces
}
