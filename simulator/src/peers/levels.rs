//! Strict levels with opt-out of preemption and limits of teams: what one lab ran before it gave out shares of time.
//!
//! After Ai2's account of what it replaced (October 2026): levels that cost nothing, so that in the end everything had the
//! highest one, and a flag by which a job opts out of preemption. Its public client of the time before (beaker-py 2) has the
//! rest: a workspace's `slot_limit_non_preemptible` and `slot_limit_preemptible`, `maximum_workload_priority`, and the policies of a
//! cluster, of which `STRICT_PRIORITY_BACKFILL_ALL` is meant here: strict order by level, and whoever fits starts all the same;
//! nothing is kept free for who does not. No worked example of it is published; the tests hold it to these rules.
//!
//! What stands for them here: a team is a budget below the root, its limit is its share of the pool's GPUs. Every funded
//! job opts out as long as its team is within its limit (it costs nothing), and runs without that beyond it. Who opted out
//! goes first, then funded jobs beyond the limit, then the free tier; within a level by turn and submission. A job may take
//! those of lower levels that did not opt out, those of other teams only, the youngest first.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::decision::{Plan, Right, UseOf};
use scheduler_core::id::{AttemptId, BudgetId, JobId, Name};
use scheduler_core::job::{Attempt, Job};
use scheduler_core::spec::{Request, Shape, Tier};
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, Span};

use super::placing::{Decisions, Free, pools, waiting};
use super::taking::{Candidate, taking};
use crate::engine::SimJob;
use crate::policy::{Policy, Round};

/// Strict levels with opt-out and team limits.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    /// Attempts that opted out of preemption.
    opted_out: BTreeSet<AttemptId>,
}

/// A level; the first goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    OptedOut,
    Beyond,
    Free,
}

/// GPUs that teams hold in jobs that opted out, and may hold.
struct Limits {
    held: BTreeMap<BudgetId, u64>,
    gpus: u64,
}

impl Limits {
    fn of(levels: &Levels, state: &State, pool: &Name) -> Self {
        let in_pool = state.nodes.values().filter(|node| node.pool == *pool);
        let gpus = in_pool.map(|node| u64::try_from(node.gpus.len()).unwrap_or(0)).sum();
        let mut held = BTreeMap::new();
        for (id, attempt) in state.attempts.iter() {
            if attempt.pool == *pool && attempt.ended.is_none() && levels.opted_out.contains(id) {
                *held.entry(team(state, attempt.budget)).or_insert(0) += held_by(attempt);
            }
        }
        Self { held, gpus }
    }

    /// Whether a team stays within its limit with so many GPUs more.
    fn lets(&self, state: &State, team: BudgetId, gpus: u64) -> bool {
        let share = state.budgets.get(&team).map_or(0, |budget| u64::from(budget.share.ppm()));
        let limit = self.gpus.saturating_mul(share) / 1_000_000;
        self.held.get(&team).copied().unwrap_or(0).saturating_add(gpus) <= limit
    }
}

fn held_by(attempt: &Attempt) -> u64 {
    attempt.placements.iter().map(|placement| u64::try_from(placement.slots.len()).unwrap_or(0)).sum()
}

fn wanted(job: &Job) -> u64 {
    u64::from(job.terms.shape.nodes) * u64::from(job.terms.shape.gpus_per_node.get())
}

/// Returns the budget below the root that a leaf belongs to.
fn team(state: &State, leaf: BudgetId) -> BudgetId {
    let parent = |id: BudgetId| state.budgets.get(&id).and_then(|budget| budget.parent);
    let mut at = leaf;
    while let Some(above) = parent(at) {
        if parent(above).is_none() {
            return at;
        }
        at = above;
    }
    at
}

impl Levels {
    fn level(&self, state: &State, limits: &Limits, job: &Job) -> Level {
        match job.terms.tier {
            Tier::Free => Level::Free,
            Tier::Funded if limits.lets(state, team(state, job.budget), wanted(job)) => Level::OptedOut,
            Tier::Funded => Level::Beyond,
        }
    }

    fn level_of(&self, id: AttemptId, attempt: &Attempt) -> Level {
        match attempt.tier {
            Tier::Free => Level::Free,
            Tier::Funded if self.opted_out.contains(&id) => Level::OptedOut,
            Tier::Funded => Level::Beyond,
        }
    }

    fn in_line<'a>(&self, round: &Round<'a>, limits: &Limits, pool: &Name) -> Vec<(JobId, &'a Job)> {
        let mut jobs = waiting(round, pool);
        jobs.sort_by_cached_key(|(id, job)| self.place(round.state, limits, (*id, job)));
        jobs
    }

    /// Returns a waiting job's place in line.
    fn place(&self, state: &State, limits: &Limits, (id, job): (JobId, &Job)) -> impl Ord + use<> {
        (self.level(state, limits, job), job.terms.turn, job.submitted_at, id)
    }

    /// Returns whom a job of a level may take, the lowest level first, then the youngest.
    fn candidates<'a>(&self, round: &Round<'a>, pool: &Name, level: Level, job: &Job) -> Vec<Candidate<'a>> {
        let mine = team(round.state, job.budget);
        let mut found: Vec<(Level, AttemptId, &Attempt)> = round
            .state
            .attempts
            .iter()
            .map(|(id, attempt)| (self.level_of(*id, attempt), *id, attempt))
            .filter(|(other, _, attempt)| {
                attempt.pool == *pool
                    && *other > level
                    && attempt.started_at.is_some()
                    && (*other == Level::Free || team(round.state, attempt.budget) != mine)
            })
            .collect();
        found.sort_by_key(|(level, id, attempt)| {
            (std::cmp::Reverse(*level), std::cmp::Reverse(attempt.started_at), *id)
        });
        let right = |attempt: &Attempt| match attempt.tier {
            Tier::Free => Right::FreeTier,
            Tier::Funded => Right::Share { mine: nothing(job.budget), theirs: nothing(attempt.budget) },
        };
        let candidates =
            found.into_iter().map(|(_, id, attempt)| Candidate { id, attempt, right: right(attempt) });
        candidates.collect()
    }

    fn pool(&mut self, round: &Round<'_>, pool: &Name, decisions: &mut Decisions) {
        let mut free = Free::of(round, pool);
        let mut limits = Limits::of(self, round.state, pool);
        let mut taken: BTreeSet<AttemptId> = BTreeSet::new();
        // Of jobs that are alike, one that finds nothing speaks for all that come after it.
        let mut in_vain: BTreeSet<(Level, BudgetId, &Shape)> = BTreeSet::new();
        for (id, job) in self.in_line(round, &limits, pool) {
            if !decisions.has_place() {
                return;
            }
            // Those before it may have used up the limit.
            let level = self.level(round.state, &limits, job);
            let team = team(round.state, job.budget);
            let kind = (level, team, &job.terms.shape);
            if decisions.starts(id) || in_vain.contains(&kind) {
                continue;
            }
            let found = free.fit(round.state, job).map(|on| (on, Vec::new())).or_else(|| {
                if level != Level::OptedOut {
                    return None;
                }
                let mut candidates = self.candidates(round, pool, level, job);
                candidates.retain(|candidate| !taken.contains(&candidate.id));
                taking(round, &free, job, &candidates)
            });
            let Some((on, takes)) = found else {
                if job.failed_on.is_empty() && job.terms.exclude.is_empty() {
                    in_vain.insert(kind);
                }
                continue;
            };
            free.take(&on);
            taken.extend(takes.iter().map(|take| take.attempt));
            let attempt = AttemptId { job: id, no: job.next_attempt };
            if level == Level::OptedOut {
                *limits.held.entry(team).or_insert(0) += wanted(job);
                self.opted_out.insert(attempt);
            } else {
                // A decision of an earlier round may not have been adopted.
                self.opted_out.remove(&attempt);
            }
            decisions.start((id, job), on, takes);
        }
    }
}

/// The numbers of a right that was judged by levels, not by use.
fn nothing(budget: BudgetId) -> UseOf {
    let none = ChargeMillis::ZERO;
    UseOf { budget, charged: none, set_aside: none, allocation: none }
}

impl Policy for Levels {
    fn name(&self) -> &'static str {
        "levels"
    }

    /// Nobody is protected by what it declares: opting out decides. A funded job keeps a protection of a millisecond,
    /// since none at all is the free tier.
    fn submission(&self, job: &SimJob) -> Request {
        let mut request = job.request();
        request.min_runtime =
            request.min_runtime.map(|span| if span.is_zero() { span } else { Span::from_millis(1) });
        // Without one it would depend on the minimum runtime.
        request.turn = Some(request.turn.unwrap_or_default());
        request
    }

    fn plan(&mut self, round: &Round<'_>) -> Plan {
        self.opted_out.retain(|id| round.state.jobs.get(&id.job).is_some_and(|job| !job.phase.is_ended()));
        let mut decisions = Decisions::new(round);
        for pool in pools(round.state) {
            self.pool(round, &pool, &mut decisions);
        }
        decisions.end()
    }

    fn first(&mut self, round: &Round<'_>, pool: &Name) -> Option<JobId> {
        let limits = Limits::of(self, round.state, pool);
        waiting(round, pool)
            .iter()
            .min_by_key(|(id, job)| self.place(round.state, &limits, (*id, job)))
            .map(|(id, _)| *id)
    }
}
