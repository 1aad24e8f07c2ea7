//! How long jobs waited for their first start, by size, budget or tier.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Size;
use crate::id::{BudgetId, JobId};
use crate::job::{Job, Phase};
use crate::lifecycle::{phase, want};
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// What rows are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitBy {
    /// By GPUs.
    Size,
    /// The leaf.
    Budget,
    /// Funded or free.
    Tier,
}

/// The name of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitKey {
    /// See [`WaitBy::Size`].
    Size(Size),
    /// See [`WaitBy::Budget`].
    Budget(BudgetId),
    /// See [`WaitBy::Tier`].
    Tier(Tier),
}

/// The waits of some jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waits {
    /// Jobs that started for the first time.
    pub started: u32,
    /// Half of them waited no longer.
    pub p50: Span,
    /// Nine of ten of them waited no longer.
    pub p90: Span,
    /// None of them waited longer.
    pub longest: Span,
    /// Jobs that wait for their first start now.
    pub waiting: u32,
    /// How long the one has waited that waits longest.
    pub waiting_longest: Span,
}

/// How long one job waited: from its first submission to the start of its first attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Its leaf.
    pub budget: BudgetId,
    /// Its tier.
    pub tier: Tier,
    /// Its GPUs.
    pub gpus: u32,
    /// When it first started; none if it waits.
    pub started_at: Option<Timestamp>,
    /// How long it waited, or has waited.
    pub wait: Span,
}

/// Returns how long a job waited or has waited for its first start; none if it is held or ended without one, or its
/// first attempts are not known any more.
#[must_use]
pub fn wait(state: &State, id: JobId, job: &Job, now: Timestamp) -> Option<Wait> {
    let past = job.past.iter().filter_map(|past| past.started_at);
    let live = phase::attempts_of(state, id).filter_map(|id| state.attempts.get(id)?.started_at);
    let known = job.past.len() + phase::attempts_of(state, id).count();
    let started_at = past.chain(live).min();
    if known + 1 < usize::from(job.next_attempt.get()) {
        return None;
    }
    let waits = matches!(job.phase, Phase::Waiting { .. } | Phase::Live(_));
    if started_at.is_none() && !waits {
        return None;
    }
    Some(Wait {
        budget: job.budget,
        tier: job.terms.tier,
        gpus: u32::try_from(want::gpus(job)).unwrap_or(u32::MAX),
        started_at,
        wait: started_at.unwrap_or(now).since(job.submitted_at),
    })
}

/// Groups the waits of jobs that started for the first time at `since` or later, and of those that wait now. The last
/// row is the sum of all.
#[must_use]
pub fn waits(of: &[Wait], since: Timestamp, by: WaitBy) -> (Vec<(WaitKey, Waits)>, Waits) {
    let is_meant = |wait: &&Wait| wait.started_at.is_none_or(|at| at >= since);
    let mut groups: BTreeMap<WaitKey, Vec<Wait>> = BTreeMap::new();
    for wait in of.iter().filter(is_meant) {
        let key = match by {
            WaitBy::Size => WaitKey::Size(Size::of(wait.gpus)),
            WaitBy::Budget => WaitKey::Budget(wait.budget),
            WaitBy::Tier => WaitKey::Tier(wait.tier),
        };
        groups.entry(key).or_default().push(*wait);
    }
    let all: Vec<Wait> = of.iter().filter(is_meant).copied().collect();
    (groups.into_iter().map(|(key, waits)| (key, sum(&waits))).collect(), sum(&all))
}

fn sum(of: &[Wait]) -> Waits {
    let (started, waiting): (Vec<&Wait>, Vec<&Wait>) = of.iter().partition(|wait| wait.started_at.is_some());
    let mut spans: Vec<Span> = started.iter().map(|wait| wait.wait).collect();
    spans.sort_unstable();
    // Nearest rank: the smallest wait that so many of a hundred do not exceed.
    let rank = |percent: usize| {
        let at = (spans.len() * percent).div_ceil(100).saturating_sub(1);
        spans.get(at).copied().unwrap_or(Span::ZERO)
    };
    Waits {
        started: u32::try_from(started.len()).unwrap_or(u32::MAX),
        p50: rank(50),
        p90: rank(90),
        longest: rank(100),
        waiting: u32::try_from(waiting.len()).unwrap_or(u32::MAX),
        waiting_longest: waiting.iter().map(|wait| wait.wait).max().unwrap_or(Span::ZERO),
    }
}
