//! Slurm as many GPU sites run it: multifactor with Fair Tree, backfill, a time that is exempt from preemption, and a
//! lower class of service that gives way.
//!
//! - Order: "jobs that can preempt" before others, then value, then submission, then number, as the page on the multifactor
//!   plugin lists it (<https://slurm.schedmd.com/priority_multifactor.html>; where nobody preempts, a lower `PriorityTier` has
//!   the same effect). Values: [`multifactor`](super::multifactor) over [`fair_tree`](super::fair_tree); ranks are computed
//!   every `PriorityCalcPeriod`, five minutes.
//! - Start: "in a strict priority order and once any job or job array task in a partition is left pending, no other jobs in
//!   that partition will be scheduled", at each event; then `sched/backfill` every `bf_interval`, 30 seconds
//!   (<https://slurm.schedmd.com/sched_config.html>).
//! - Preemption (<https://slurm.schedmd.com/preempt.html>): `PreemptType=preempt/qos`. The free tier stands for a class of
//!   service that normal jobs preempt, with a usage factor of 0 and `PreemptMode=REQUEUE`; normal jobs do not preempt each
//!   other. Nobody is taken before `PreemptExemptTime`; of those that may be, the youngest first (`youngest_first` among
//!   `PreemptParameters`). None of this is on by default: it is how GPU sites with a free class set it.
//! - A limit, which backfill needs, is a job's own; else the next usual one above its true length: a person who guesses
//!   well. That flatters Slurm.
//!
//! Where a default is not taken: `bf_window` is a week (a day is the default; the manual advises "at least as long as the
//! highest allowed time limit"); ten that wait get a planned start (`bf_job_part_count_reserve`; by default all), and a
//! hundred are looked at (`bf_max_job_test`, the default of older versions; newer ones look at 500).
//!
//! Left out: partitions, reservations, limits of accounts, and preemption for jobs that only backfill would start.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use scheduler_core::decision::{Plan, Right};
use scheduler_core::id::{AttemptId, JobId, Name, NodeId, Slot};
use scheduler_core::job::{Attempt, Job, Phase};
use scheduler_core::spec::{Request, Tier};
use scheduler_core::unit::{Span, Timestamp};

use super::backfill::{Ask, Expected};
use super::multifactor::{Factors, Weights, age_factor, value};
use super::placing::{Decisions, Free, On, pools, waiting};
use super::taking::{Candidate, taking};
use super::usage::{Usage, User};
use crate::engine::SimJob;
use crate::policy::{Policy, Round};

/// How Slurm is set up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The weights of the order.
    pub weights: Weights,
    /// `PreemptExemptTime`.
    pub exempt: Span,
    /// Whether normal jobs preempt the lower class.
    pub preempts: bool,
    /// `PriorityCalcPeriod`.
    pub calculate_every: Span,
    /// `bf_interval`.
    pub backfill_every: Span,
    /// `bf_max_job_test`.
    pub backfill_tests: usize,
    /// `bf_job_part_count_reserve`: so many that have to wait get a planned start; the others only must not delay them.
    pub backfill_reserves: usize,
    /// `bf_window`.
    pub backfill_window: Span,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            weights: Weights::default(),
            exempt: Span::from_hours(2),
            preempts: true,
            calculate_every: Span::from_mins(5),
            backfill_every: Span::from_secs(30),
            backfill_tests: 100,
            backfill_reserves: 10,
            backfill_window: Span::from_hours(24 * 7),
        }
    }
}

/// Slurm.
#[derive(Debug, Clone)]
pub struct Slurm {
    options: Options,
    usage: Usage,
    factors: BTreeMap<User, f64>,
    calculated_at: Option<Timestamp>,
    backfilled_at: HashMap<Name, Timestamp>,
}

impl Slurm {
    /// Sets it up.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            usage: Usage::default(),
            factors: BTreeMap::new(),
            calculated_at: None,
            backfilled_at: HashMap::new(),
        }
    }

    fn calculate(&mut self, round: &Round<'_>) {
        let is_due = self.calculated_at.is_none_or(|at| round.now.since(at) >= self.options.calculate_every);
        self.usage.advance(round, &self.options.weights);
        if is_due {
            self.factors = self.usage.factors(round.state);
            self.calculated_at = Some(round.now);
        }
    }

    /// Returns the waiting jobs by value, then submission, then number; the lower class after all others.
    fn in_line<'a>(&self, round: &Round<'a>, pool: &Name) -> Vec<(JobId, &'a Job)> {
        let supply =
            round.state.nodes.values().filter(|node| node.pool == *pool).map(|node| node.gpus.len()).sum();
        let mut valued: Vec<(f64, (JobId, &Job))> = waiting(round, pool)
            .into_iter()
            .map(|(id, job)| (self.value(round, (id, job), supply), (id, job)))
            .collect();
        valued.sort_by(before);
        valued.into_iter().map(|(_, job)| job).collect()
    }

    fn value(&self, round: &Round<'_>, (id, job): (JobId, &Job), supply: usize) -> f64 {
        let since = match job.phase {
            Phase::Waiting { since } => since,
            Phase::Held { .. } | Phase::Live(_) | Phase::Ended { .. } => round.now,
        };
        let user = round.numbers.get(&id).and_then(|at| round.jobs.get(*at)).map(|job| job.user.clone());
        let known = user.and_then(|user| self.factors.get(&(job.budget, user)).copied());
        let gpus = u64::from(job.terms.shape.nodes) * u64::from(job.terms.shape.gpus_per_node.get());
        let part = |gpus: u64| f64::from(u32::try_from(gpus).unwrap_or(u32::MAX));
        let supply = u64::try_from(supply).unwrap_or(u64::MAX);
        let factors = Factors {
            age: age_factor(round.now.since(since), &self.options.weights),
            // Whoever is new has used nothing.
            fair_share: known.unwrap_or(1.0),
            size: (part(gpus) / part(supply.max(1))).min(1.0),
            ..Factors::default()
        };
        value(&factors, &self.options.weights)
    }

    fn pool(&mut self, round: &Round<'_>, pool: &Name, decisions: &mut Decisions) {
        let mut free = Free::of(round, pool);
        let victims = if self.options.preempts { self.victims(round, pool) } else { Vec::new() };
        if free.total() == 0 && victims.is_empty() {
            return;
        }
        let line = self.in_line(round, pool);
        let mut taken: Vec<AttemptId> = Vec::new();
        let mut rest = line.as_slice();
        while let Some((&(id, job), after)) = rest.split_first() {
            if !decisions.has_place() {
                return;
            }
            if decisions.starts(id) {
                rest = after;
                continue;
            }
            let Some((on, takes)) = place(round, &free, job, &victims, &taken) else { break };
            free.take(&on);
            taken.extend(takes.iter().map(|take| take.attempt));
            decisions.start((id, job), on, takes);
            rest = after;
        }
        let is_due =
            self.backfilled_at.get(pool).is_none_or(|at| round.now.since(*at) >= self.options.backfill_every);
        if is_due && !rest.is_empty() && free.total() > 0 {
            self.backfilled_at.insert(pool.clone(), round.now);
            self.backfill(round, rest, &mut free, decisions);
        }
    }

    /// Returns whom normal jobs may take now, the youngest first.
    fn victims<'a>(&self, round: &Round<'a>, pool: &Name) -> Vec<(AttemptId, &'a Attempt)> {
        let exempt_until = |attempt: &Attempt| attempt.started_at.map(|at| at.plus(self.options.exempt));
        let may_go = |attempt: &Attempt| {
            attempt.tier == Tier::Free
                && attempt.pool == *pool
                && !attempt.is_leaving()
                && exempt_until(attempt).is_some_and(|until| until <= round.now)
        };
        let mut victims: Vec<(AttemptId, &Attempt)> = round
            .state
            .attempts
            .iter()
            .filter(|(_, attempt)| may_go(attempt))
            .map(|(id, attempt)| (*id, attempt))
            .collect();
        victims.sort_by_key(|(id, attempt)| (std::cmp::Reverse(attempt.started_at), *id));
        victims
    }

    fn backfill(
        &self,
        round: &Round<'_>,
        line: &[(JobId, &Job)],
        free: &mut Free<'_>,
        decisions: &mut Decisions,
    ) {
        let nodes: Vec<NodeId> = free.nodes.keys().copied().collect();
        let mut expected = expected(round, free);
        let window = self.options.backfill_window;
        let mut reserves = self.options.backfill_reserves;
        for (id, job) in line.iter().take(self.options.backfill_tests) {
            if !decisions.has_place() || free.total() == 0 {
                return;
            }
            let shape = &job.terms.shape;
            let size = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
            let limit = limit(round, *id);
            let ask = Ask { nodes: size(shape.nodes), gpus: size(shape.gpus_per_node.get()), limit };
            let planned = if reserves > 0 {
                expected.plan(&ask, round.now, window)
            } else {
                expected.plan_now(&ask, round.now)
            };
            let Some(planned) = planned.filter(|planned| planned.at == round.now) else {
                reserves = reserves.saturating_sub(1);
                continue;
            };
            let on: On = planned
                .on
                .iter()
                .filter_map(|(place, gpus)| {
                    let slot = |gpu: &usize| u16::try_from(*gpu).ok().map(Slot::new);
                    Some((*nodes.get(*place)?, gpus.iter().filter_map(slot).collect()))
                })
                .collect();
            if free.allows(job, &on) && !decisions.starts(*id) {
                free.take(&on);
                decisions.start((*id, job), on, Vec::new());
            }
        }
    }
}

impl Policy for Slurm {
    fn name(&self) -> &'static str {
        if self.options.preempts { "slurm" } else { "slurm-without-preemption" }
    }

    /// Nobody is protected by what it declares: the class of service decides. A funded job keeps a protection of a
    /// millisecond, since none at all is the free tier.
    fn submission(&self, job: &SimJob) -> Request {
        let mut request = job.request();
        request.min_runtime =
            request.min_runtime.map(|span| if span.is_zero() { span } else { Span::from_millis(1) });
        request
    }

    fn plan(&mut self, round: &Round<'_>) -> Plan {
        self.calculate(round);
        let mut decisions = Decisions::new(round);
        for pool in pools(round.state) {
            self.pool(round, &pool, &mut decisions);
        }
        decisions.end()
    }

    fn first(&mut self, round: &Round<'_>, pool: &Name) -> Option<JobId> {
        self.calculate(round);
        self.in_line(round, pool).first().map(|(id, _)| *id)
    }
}

/// Compares two waiting jobs with their values: the lower class comes last, then the lower value, the later one.
fn before((a, (a_id, a_job)): &(f64, (JobId, &Job)), (b, (b_id, b_job)): &(f64, (JobId, &Job))) -> Ordering {
    let by_class = a_job.terms.tier.cmp(&b_job.terms.tier);
    let by_time = || (a_job.submitted_at, a_id).cmp(&(b_job.submitted_at, b_id));
    by_class.then_with(|| b.total_cmp(a)).then_with(by_time)
}

/// Returns where a job starts now: on idle GPUs, or with those of the lower class.
fn place(
    round: &Round<'_>,
    free: &Free<'_>,
    job: &Job,
    victims: &[(AttemptId, &Attempt)],
    taken: &[AttemptId],
) -> Option<(On, Vec<scheduler_core::decision::Take>)> {
    if let Some(on) = free.fit(round.state, job) {
        return Some((on, Vec::new()));
    }
    if job.terms.tier == Tier::Free {
        return None;
    }
    let candidates: Vec<Candidate<'_>> = victims
        .iter()
        .filter(|(id, _)| !taken.contains(id))
        .map(|(id, attempt)| Candidate { id: *id, attempt, right: Right::FreeTier })
        .collect();
    taking(round, free, job, &candidates)
}

/// Limits that people ask for.
const USUAL: [Span; 8] = [
    Span::from_mins(15),
    Span::from_hours(1),
    Span::from_hours(4),
    Span::from_hours(12),
    Span::from_hours(24),
    Span::from_hours(3 * 24),
    Span::from_hours(7 * 24),
    Span::from_hours(30 * 24),
];

/// Returns how long a job may run: its limit, or the next usual one above its true length.
fn limit(round: &Round<'_>, id: JobId) -> Span {
    let job = round.numbers.get(&id).and_then(|at| round.jobs.get(*at));
    let Some(job) = job else { return Span::from_hours(24) };
    let usual = || USUAL.into_iter().find(|usual| *usual >= job.work.length).unwrap_or(Span::MAX);
    job.time_limit.unwrap_or_else(usual)
}

/// Returns what is expected of the GPUs of a pool: until when each is taken.
fn expected(round: &Round<'_>, free: &Free<'_>) -> Expected {
    let mut expected = Expected::default();
    for (node, idle) in free.nodes.values() {
        let until = |slot: Slot| {
            let gpu = node.gpus.get(usize::from(slot.get()))?;
            if idle.contains(&slot) {
                return None;
            }
            let holder = gpu.next.or(gpu.holder);
            let attempt = holder.and_then(|id| Some((id, round.state.attempts.get(&id)?)));
            Some(attempt.map_or_else(
                || round.now.plus(Span::from_mins(1)),
                |(id, attempt)| {
                    let from = attempt.started_at.unwrap_or(round.now);
                    let limit = if attempt.is_leaving() { Span::from_mins(2) } else { limit(round, id.job) };
                    from.plus(limit).max(round.now.plus(Span::from_mins(1)))
                },
            ))
        };
        let slots = (0..node.gpus.len()).filter_map(|slot| u16::try_from(slot).ok());
        let until: Vec<Option<Timestamp>> = slots.map(|slot| until(Slot::new(slot))).collect();
        expected.node(round.now, &until);
    }
    expected
}
