//! The planner against a slow and obvious one, on random laboratories.

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::budget::ROOT;
use scheduler_core::decision::{Plan, UseOf};
use scheduler_core::id::{BudgetId, JobId, Name, NodeId, Slot, Term};
use scheduler_core::job::{Job, Phase};
use scheduler_core::node::{Contact, Node};
use scheduler_core::plan::{Links, plan};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, Timestamp};

use crate::lab::{NOW, state};
use crate::random::{Random, lab};

const HOUR: u128 = 3_600_000;

/// What was decided: which job, on which node, which GPUs.
pub type Start = (JobId, NodeId, Vec<Slot>);

/// Plans by looking at everything again before each decision.
pub struct Naive {
    state: State,
    now: Timestamp,
    extra: BTreeMap<(Name, BudgetId, Tier), u128>,
    starts: Vec<Start>,
}

impl Naive {
    pub fn plan(state: &State, now: Timestamp) -> Vec<Start> {
        let mut naive = Self { state: state.clone(), now, extra: BTreeMap::new(), starts: Vec::new() };
        let pools: BTreeSet<Name> = state.nodes.values().map(|node| node.pool.clone()).collect();
        for pool in &pools {
            for tier in [Tier::Funded, Tier::Free] {
                let mut tried = BTreeSet::new();
                while let Some(job) = naive.next(ROOT, pool, tier, &tried) {
                    tried.insert(job);
                    naive.try_start(job, pool);
                }
            }
        }
        naive.starts
    }

    /// The job that goes first at and below `at`.
    fn next(&self, at: BudgetId, pool: &Name, tier: Tier, tried: &BTreeSet<JobId>) -> Option<JobId> {
        let stands = |(id, job): &(&JobId, &Job)| {
            let named = job.terms.cluster.as_ref();
            let fits = |node: &Node| node.pool == *pool && self.could_hold(job, node);
            matches!(job.phase, Phase::Waiting { .. })
                && job.budget == at
                && job.terms.tier == tier
                && !tried.contains(id)
                && named.map_or_else(|| self.state.nodes.values().any(fits), |named| named == pool)
        };
        let own = self.state.jobs.iter().filter(stands);
        if let Some((id, _)) = own.min_by_key(|(id, job)| (job.terms.turn, job.submitted_at, **id)) {
            return Some(*id);
        }
        let children = self.state.budgets.get(&at)?.children.iter().copied();
        let with_jobs = children.filter(|child| self.next(*child, pool, tier, tried).is_some());
        let first = with_jobs.min_by(|a, b| self.used(*a, pool, tier).cmp_use(&self.used(*b, pool, tier)))?;
        self.next(first, pool, tier, tried)
    }

    fn used(&self, budget: BudgetId, pool: &Name, tier: Tier) -> UseOf {
        let window = self.state.meta.settings.window;
        let used = self.state.books.use_of(budget, pool, tier, &self.state.budgets, window, self.now);
        let extra = self.extra.get(&(pool.clone(), budget, tier)).copied().unwrap_or(0);
        UseOf { set_aside: ChargeMillis::new(used.set_aside.get() + extra), ..used }
    }

    fn try_start(&mut self, id: JobId, pool: &Name) {
        let job = self.state.jobs.get(&id).expect("it was just found").clone();
        let is_elsewhere = self.state.nodes.iter().any(|(node_id, node)| {
            node.contact == Contact::Ready && !job.failed_on.contains(node_id) && self.could_hold(&job, node)
        });
        let mut best: Option<(usize, NodeId, Vec<Slot>)> = None;
        for (node_id, node) in self.state.nodes.iter() {
            let is_barred = is_elsewhere && job.failed_on.contains(node_id);
            if node.pool != *pool
                || node.contact != Contact::Ready
                || node.backoff_until.is_some_and(|until| self.now < until)
                || is_barred
            {
                continue;
            }
            let idle = (0..).zip(&node.gpus).filter(|(_, gpu)| gpu.holder.is_none() && gpu.is_present);
            let idle: Vec<(u16, &scheduler_core::node::Gpu)> = idle.collect();
            let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
            let slots = idle.iter().filter(|(_, gpu)| is_of_type(&job, gpu.model.as_str()));
            let slots: Vec<Slot> = slots.map(|(slot, _)| Slot::new(*slot)).take(wanted).collect();
            let has_cores = self.taken(node) + self.cores(&job, node) <= self.all_cores(node);
            let is_better = best.as_ref().is_none_or(|(count, _, _)| idle.len() < *count);
            if slots.len() == wanted && has_cores && is_better {
                best = Some((idle.len(), *node_id, slots));
            }
        }
        let Some((_, node, slots)) = best else { return };
        self.start(id, &job, pool, node, slots);
    }

    fn start(&mut self, id: JobId, job: &Job, pool: &Name, node: NodeId, slots: Vec<Slot>) {
        let rate = u128::from(self.rate(job, node));
        let added = match job.terms.tier {
            Tier::Funded => rate * u128::from(job.terms.min_runtime.as_millis()),
            Tier::Free => rate * HOUR,
        };
        let mut at = Some(job.budget);
        while let Some(budget) = at {
            *self.extra.entry((pool.clone(), budget, job.terms.tier)).or_default() += added;
            at = self.state.budgets.get(&budget).and_then(|budget| budget.parent);
        }
        let attempt = scheduler_core::id::AttemptId { job: id, no: job.next_attempt };
        let record = self.state.nodes.get_mut(&node).expect("a known node");
        for slot in &slots {
            record.gpus[usize::from(slot.get())].holder = Some(attempt);
        }
        self.state.jobs.get_mut(&id).expect("a known job").phase = Phase::Live(job.next_attempt);
        self.starts.push((id, node, slots));
    }

    fn all_cores(&self, node: &Node) -> u64 {
        node.facts.as_ref().map_or(0, |facts| facts.cpus.into())
    }

    fn cores(&self, job: &Job, node: &Node) -> u64 {
        let gpus = u64::from(job.terms.shape.gpus_per_node.get());
        let part = self.all_cores(node) * gpus / node.gpus.len() as u64;
        job.terms.shape.cpus.map_or(part, u64::from)
    }

    fn taken(&self, node: &Node) -> u64 {
        let holders: BTreeSet<JobId> =
            node.gpus.iter().filter_map(|gpu| gpu.holder).map(|holder| holder.job).collect();
        holders.iter().filter_map(|id| self.state.jobs.get(id)).map(|job| self.cores(job, node)).sum()
    }

    fn rate(&self, job: &Job, node: NodeId) -> u64 {
        let node = self.state.nodes.get(&node).expect("a known node");
        let gpus = u64::from(job.terms.shape.gpus_per_node.get()) * 1000;
        let cores = job.terms.shape.cpus.map_or(0, u64::from);
        gpus.max(cores * node.gpus.len() as u64 * 1000 / self.all_cores(node))
    }

    fn could_hold(&self, job: &Job, node: &Node) -> bool {
        let matching = node.gpus.iter().filter(|gpu| is_of_type(job, gpu.model.as_str())).count();
        matching as u64 >= u64::from(job.terms.shape.gpus_per_node.get())
            && self.cores(job, node) <= self.all_cores(node)
    }
}

/// Shows a plan as the slow planner does.
pub fn decided(plan: &Plan) -> Vec<Start> {
    let one = |start: &scheduler_core::decision::Start| {
        let (node, slots) = start.on[0].clone();
        (start.job, node, slots)
    };
    plan.decisions.iter().map(one).collect()
}

fn is_of_type(job: &Job, model: &str) -> bool {
    let wanted = job.terms.shape.gpu_type.as_ref().map(|kind| kind.as_str().to_lowercase());
    wanted.is_none_or(|wanted| model.to_lowercase().contains(&wanted))
}

#[test]
fn the_planner_agrees_with_a_slow_and_obvious_one() {
    let mut starts = 0;
    for seed in 0..400 {
        let lines = lab(&mut Random::new(seed));
        let lab = state(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        assert_eq!(decided(&plan), Naive::plan(&lab, NOW), "\nseed {seed}\n{lines}");
        starts += Naive::plan(&lab, NOW).len();
    }
    assert!(starts > 400, "the laboratories start something: {starts}");
}

#[test]
fn no_idle_gpu_is_left_that_a_waiting_job_could_use() {
    for seed in 1000..1200 {
        let lines = lab(&mut Random::new(seed));
        let lab = state(&lines);
        let mut after = Naive { state: lab.clone(), now: NOW, extra: BTreeMap::new(), starts: Vec::new() };
        for start in plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1)).decisions {
            let (node, slots) = start.on[0].clone();
            let job = after.state.jobs.get(&start.job).expect("a known job").clone();
            let pool = after.state.nodes.get(&node).expect("a known node").pool.clone();
            after.start(start.job, &job, &pool, node, slots);
        }
        let more = Naive::plan(&after.state, NOW);
        assert!(more.is_empty(), "\nseed {seed}: {more:?} could start too\n{lines}");
    }
}
