//! Writes down what happens, as entries show it.

use std::collections::{BTreeMap, HashMap};

use scheduler_core::budget::{self, Budget};
use scheduler_core::decision::{Plan, Right, Start, Step};
use scheduler_core::id::{AttemptId, BudgetId, JobId, Name, NodeId};
use scheduler_core::job::{AttemptEnd as CoreEnd, End, Phase, StopCause};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use super::Setup;
use crate::record::{
    AttemptEnd, AttemptRecord, BudgetRecord, Cause, DateRecord, GpuPlace, HeadRecord, JobEnd, JobRecord,
    NodeRecord, PreemptionRecord, Record,
};

/// The record in the making.
#[derive(Debug)]
pub(super) struct Recorder {
    pub record: Record,
    budgets: HashMap<BudgetId, usize>,
    nodes: HashMap<NodeId, u32>,
    /// Attempts in state, by id: their place in the record.
    live: BTreeMap<AttemptId, usize>,
    preempted: HashMap<usize, usize>,
    dates: HashMap<(JobId, Name), usize>,
    heads: BTreeMap<Name, HeadRecord>,
}

impl Recorder {
    pub(super) fn new(setup: &Setup, policy: &str, state: &State, nodes: &[NodeId]) -> Self {
        let settings = &state.meta.settings;
        let two_graces = Span::from_millis(settings.longest_grace().as_millis().saturating_mul(2));
        let node = |node: &super::NodeSetup| NodeRecord {
            name: node.name.to_string(),
            gpus: node.gpus,
            away: Vec::new(),
        };
        let (budgets, places) = tree(state);
        Self {
            record: Record {
                scenario: setup.scenario.clone(),
                policy: policy.into(),
                variant: setup.variant.clone(),
                seed: setup.seed,
                begin: setup.begin,
                end: setup.end,
                window: settings.window,
                cap: settings.cap,
                head_bound: settings.cap.plus(settings.start_limit).plus(two_graces),
                nodes: setup.nodes.iter().map(node).collect(),
                budgets,
                // While a list of a hundred megabytes doubles it is there twice.
                jobs: Vec::with_capacity(setup.jobs.len()),
                attempts: Vec::with_capacity(setup.jobs.len() + setup.jobs.len() / 4),
                ..Record::default()
            },
            budgets: places,
            nodes: nodes.iter().copied().zip(0..).collect(),
            live: BTreeMap::new(),
            preempted: HashMap::new(),
            dates: HashMap::new(),
            heads: BTreeMap::new(),
        }
    }

    /// A job was submitted; `id` is none if it was refused.
    pub(super) fn submitted(
        &mut self,
        setup: &Setup,
        at: usize,
        now: Timestamp,
        id: Option<JobId>,
        state: &State,
    ) {
        let job = &setup.jobs[at];
        let known = id.and_then(|id| state.jobs.get(&id));
        let budget = known.and_then(|job| self.budgets.get(&job.budget).copied());
        let named = || self.record.budgets.iter().position(|budget| *budget.path == *job.budget);
        let budget = budget.or_else(named).unwrap_or(0);
        let minimum = known.map_or(job.min_runtime, |job| job.terms.min_runtime);
        self.record.jobs.push(JobRecord {
            name: job.name.clone(),
            budget,
            user: job.user.clone(),
            submitted_at: now,
            gpus: job.nodes * job.gpus_per_node.get(),
            nodes: job.nodes,
            is_free: known.map_or(minimum.is_zero(), |job| job.terms.tier == Tier::Free),
            min_runtime: minimum,
            work: job.work.length,
            is_resumable: known.is_some_and(|job| job.terms.resumable),
            ended: id.is_none().then_some((now, JobEnd::Refused)),
        });
    }

    /// A plan was judged: what of it is in state now was adopted.
    pub(super) fn adopted(
        &mut self,
        plan: &Plan,
        numbers: &HashMap<JobId, usize>,
        state: &State,
        now: Timestamp,
    ) {
        for start in &plan.decisions {
            let id = AttemptId { job: start.job, no: start.attempt };
            if state.attempts.contains(&id) && !self.live.contains_key(&id) {
                self.placed(id, start, numbers, now);
            }
        }
        for step in &plan.dates {
            let key = (step.job, step.pool.clone());
            let date = state.dates.get(&key);
            match (&step.step, date, numbers.get(&step.job)) {
                (Step::Issue(_), Some(date), Some(job)) => {
                    self.dates.insert(key, self.record.dates.len());
                    self.record.dates.push(DateRecord {
                        job: *job,
                        issued_at: now,
                        first_at: date.promise.at,
                        at: date.promise.at,
                        moves_by_node: 0,
                        moves_otherwise: 0,
                    });
                }
                (Step::Move { .. }, Some(date), _) => {
                    if let Some(record) = self.dates.get(&key).and_then(|at| self.record.dates.get_mut(*at)) {
                        record.moves_by_node += 1;
                        record.at = date.promise.at;
                    }
                }
                _ => {}
            }
        }
    }

    /// Compares the dates in state with the ones that were written down: one that is another now moved without a word.
    pub(super) fn check_dates(&mut self, state: &State) {
        for (key, date) in state.dates.iter() {
            let Some(record) = self.dates.get(key).and_then(|at| self.record.dates.get_mut(*at)) else {
                continue;
            };
            if record.at != date.promise.at {
                record.moves_otherwise += 1;
                record.at = date.promise.at;
            }
        }
    }

    fn placed(&mut self, id: AttemptId, start: &Start, numbers: &HashMap<JobId, usize>, now: Timestamp) {
        let Some(job) = numbers.get(&id.job).copied() else { return };
        let mut gpus = Vec::new();
        for (node, slots) in &start.on {
            let node = self.nodes.get(node).copied().unwrap_or(0);
            gpus.extend(slots.iter().map(|slot| GpuPlace::new(node, slot.get())));
        }
        let at = self.record.attempts.len();
        self.record.attempts.push(AttemptRecord {
            job,
            number: u32::from(id.no.get()),
            gpus: gpus.into(),
            placed_at: now,
            go_at: None,
            started_at: None,
            protected_until: None,
            noticed_at: None,
            ended_at: None,
            freed_at: None,
            end: None,
        });
        self.live.insert(id, at);
        for take in &start.takes {
            let Some(victim) = self.live.get(&take.attempt).copied() else { continue };
            self.record.attempts[victim].noticed_at.get_or_insert(now);
            self.preempted.insert(victim, self.record.preemptions.len());
            self.record.preemptions.push(PreemptionRecord {
                at: now,
                victim,
                taken_for: Some(job),
                cause: cause(take.right),
                lost_gpu_ms: 0,
                is_wasted: false,
            });
        }
        for head in self.heads.values_mut().filter(|head| head.job == job) {
            head.until = now;
        }
    }

    /// An attempt's processes are to end, or were lost: what that costs, as the model knows it.
    pub(super) fn lost(&mut self, id: AttemptId, gpu_ms: u64) {
        let Some(at) = self.live.get(&id) else { return };
        if let Some(preemption) = self.preempted.get(at).and_then(|at| self.record.preemptions.get_mut(*at)) {
            preemption.lost_gpu_ms = gpu_ms;
        }
    }

    /// Looks whether attempts have left state, and whether that was their job's end.
    pub(super) fn left(
        &mut self,
        ids: &[AttemptId],
        numbers: &HashMap<JobId, usize>,
        ends: &dyn Fn(usize) -> JobEnd,
        state: &State,
        now: Timestamp,
    ) {
        for id in ids {
            let Some(at) = self.live.get(id).copied() else { continue };
            match state.attempts.get(id) {
                Some(attempt) => {
                    let record = &mut self.record.attempts[at];
                    (record.go_at, record.started_at) = (attempt.go_at, attempt.started_at);
                    record.protected_until = attempt.protected_until();
                    if let Some(stop) = &attempt.stop {
                        record.noticed_at.get_or_insert(stop.at);
                    }
                }
                None => {
                    self.live.remove(id);
                    self.over(*id, at, state, now);
                }
            }
            self.job_ended(id.job, numbers, ends, state);
        }
    }

    fn over(&mut self, id: AttemptId, at: usize, state: &State, now: Timestamp) {
        let past =
            state.jobs.get(&id.job).and_then(|job| job.past.iter().rev().find(|past| past.no == id.no));
        let record = &mut self.record.attempts[at];
        record.freed_at = Some(now);
        let Some(past) = past else { return };
        (record.go_at, record.started_at) = (past.go_at, past.started_at);
        record.ended_at = Some(past.ended.at);
        let stop = past.stop.as_ref();
        if let Some(stop) = stop {
            record.noticed_at.get_or_insert(stop.at);
        }
        record.end = Some(match (&past.ended.cause, stop.map(|stop| &stop.cause)) {
            (CoreEnd::Preempted | CoreEnd::Stopped, Some(StopCause::Preempt(_))) => AttemptEnd::Preempted,
            (CoreEnd::Preempted | CoreEnd::Stopped | CoreEnd::TimeLimit, _) => AttemptEnd::Stopped,
            (CoreEnd::Exited, _) => AttemptEnd::ByItself,
            (CoreEnd::LaunchFailedNode(_) | CoreEnd::LaunchFailedJob(_), _) => AttemptEnd::NotLaunched,
            (CoreEnd::NodeLost, _) => AttemptEnd::Lost,
        });
    }

    /// Looks whether a job has ended for good; `ends` says how its work ends by itself.
    pub(super) fn job_ended(
        &mut self,
        id: JobId,
        numbers: &HashMap<JobId, usize>,
        ends: &dyn Fn(usize) -> JobEnd,
        state: &State,
    ) {
        let Some(job) = numbers.get(&id).copied() else { return };
        let Some(Phase::Ended { at, end, .. }) = state.jobs.get(&id).map(|job| &job.phase) else { return };
        let end = match end {
            End::Completed | End::Failed => ends(job),
            End::Preempted => JobEnd::Preempted,
            End::TimedOut => JobEnd::TimedOut,
            End::Cancelled => JobEnd::Withdrawn,
            End::Lost | End::Superseded => JobEnd::Lost,
        };
        self.record.jobs[job].ended.get_or_insert((*at, end));
    }

    /// Who is first in order in a pool and could not start, after a round.
    pub(super) fn head(&mut self, pool: &Name, job: Option<usize>, now: Timestamp) {
        if let Some(head) = self.heads.get_mut(pool) {
            if Some(head.job) == job && head.until == Timestamp::ZERO {
                return;
            }
            let mut done = *head;
            if done.until == Timestamp::ZERO {
                done.until = now;
            }
            self.heads.remove(pool);
            self.record.heads.push(done);
        }
        if let Some(job) = job {
            self.heads.insert(pool.clone(), HeadRecord { job, since: now, until: Timestamp::ZERO });
        }
    }

    /// A machine goes away, or comes back.
    pub(super) fn away(&mut self, node: usize, from: Timestamp, until: Timestamp) {
        self.record.nodes[node].away.push((from, until));
    }

    /// Ends the record: what still runs or waits stays open.
    pub(super) fn end(mut self, state: &State, rounds: u64, entries: u64) -> Record {
        let end = self.record.end;
        let live: Vec<AttemptId> = self.live.keys().copied().collect();
        self.left(&live, &HashMap::new(), &|_| JobEnd::Completed, state, end);
        for (_, mut head) in std::mem::take(&mut self.heads) {
            if head.until == Timestamp::ZERO {
                head.until = end;
            }
            self.record.heads.push(head);
        }
        self.record.heads.sort_by_key(|head| (head.since, head.job));
        (self.record.rounds, self.record.entries) = (rounds, entries);
        self.judge_waste();
        self.record
    }

    /// A preemption is wasted if the job it was for never started after it, though the run went on long enough.
    fn judge_waste(&mut self) {
        let takers = self.record.preemptions.iter().filter_map(|preemption| preemption.taken_for);
        let mut starts: HashMap<usize, Vec<Timestamp>> = takers.map(|job| (job, Vec::new())).collect();
        for attempt in &self.record.attempts {
            if let Some(starts) = starts.get_mut(&attempt.job) {
                starts.extend(attempt.started_at);
            }
        }
        let patience = self.record.head_bound.as_millis().saturating_sub(self.record.cap.as_millis());
        let end = self.record.end;
        for preemption in &mut self.record.preemptions {
            let by = preemption.at.plus(Span::from_millis(patience));
            let Some(job) = preemption.taken_for.filter(|_| by < end) else { continue };
            let has_started = |at: &Timestamp| (preemption.at..=by).contains(at);
            preemption.is_wasted = !starts.get(&job).is_some_and(|starts| starts.iter().any(has_started));
        }
    }
}

const fn cause(right: Right) -> Cause {
    match right {
        Right::FreeTier => Cause::FreeTier,
        Right::Turn => Cause::Turn,
        Right::Share { .. } => Cause::Share,
        Right::Claim { .. } => Cause::Claim,
        Right::Lane { .. } => Cause::Lane,
    }
}

/// Returns the tree, parents first, and the place of each budget.
fn tree(state: &State) -> (Vec<BudgetRecord>, HashMap<BudgetId, usize>) {
    let mut places = HashMap::new();
    let mut records = Vec::new();
    let mut todo = vec![(budget::ROOT, None::<usize>)];
    while let Some((id, parent)) = todo.pop() {
        let Some(budget) = state.budgets.get(&id) else { continue };
        let above = parent.map(|at: usize| &records[at]);
        let share = ratio(budget) * above.map_or(1.0, |above: &BudgetRecord| above.share);
        let path = match above.map(|above| above.path.as_str()) {
            None => String::new(),
            Some("") => budget.name.to_string(),
            Some(above) => format!("{above}/{}", budget.name),
        };
        let children = state.budgets.iter().filter(|(_, below)| below.parent == Some(id));
        let children: Vec<_> = children.map(|(child, _)| *child).collect();
        let at = records.len();
        places.insert(id, at);
        let share = if parent.is_none() { 1.0 } else { share };
        records.push(BudgetRecord { path, parent, share, is_leaf: children.is_empty() });
        todo.extend(children.into_iter().rev().map(|child| (child, Some(at))));
    }
    (records, places)
}

fn ratio(budget: &Budget) -> f64 {
    f64::from(budget.share.ppm()) / 1e6
}
