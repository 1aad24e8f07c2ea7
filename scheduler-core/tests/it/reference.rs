//! The planner against a slow and obvious one, on random laboratories.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::budget::ROOT;
use scheduler_core::decision::{Plan, UseOf};
use scheduler_core::id::{AttemptId, BudgetId, JobId, Name, NodeId, Slot, Term};
use scheduler_core::job::{Attempt, Job, Phase, Stop, StopCause};
use scheduler_core::node::{Contact, Node};
use scheduler_core::plan::{Links, plan};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, Span, Timestamp};

use crate::lab::{NOW, state};
use crate::random::{Random, lab, lab_with_gangs};

const HOUR: u128 = 3_600_000;
const MINUTE: u64 = 60_000;

/// What was decided: which job, on which nodes, which GPUs, and who gives way.
pub type Start = (JobId, On, Vec<AttemptId>);

/// Where: by node, which GPUs.
pub type On = Vec<(NodeId, Vec<Slot>)>;

/// Plans by looking at everything again before each decision; jobs on one node alone take anybody.
pub struct Naive {
    pub state: State,
    now: Timestamp,
    extra: BTreeMap<(Name, BudgetId, Tier), u128>,
    starts: Vec<Start>,
}

/// A set of victims of one node, in order of preference, and the GPUs that the job gets there.
#[derive(Clone)]
struct Found {
    cost: Cost,
    set: Vec<AttemptId>,
    open: usize,
    node: NodeId,
    slots: Vec<Slot>,
}

/// What a set costs: funded that does not resume, funded, free that does not resume, free.
type Cost = [u128; 4];

impl Naive {
    pub fn new(state: &State, now: Timestamp) -> Self {
        Self { state: state.clone(), now, extra: BTreeMap::new(), starts: Vec::new() }
    }

    pub fn plan(state: &State, now: Timestamp) -> Vec<Start> {
        let mut naive = Self::new(state, now);
        let pools: BTreeSet<Name> = state.nodes.values().map(|node| node.pool.clone()).collect();
        for pool in &pools {
            while naive.pass(pool, Tier::Funded) {}
            naive.pass(pool, Tier::Free);
        }
        naive.starts
    }

    /// Tries everybody once; returns whether anybody started.
    fn pass(&mut self, pool: &Name, tier: Tier) -> bool {
        let before = self.starts.len();
        let mut tried = BTreeSet::new();
        while let Some(job) = self.next(ROOT, pool, tier, &tried) {
            tried.insert(job);
            self.try_start(job, pool);
        }
        self.starts.len() > before
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
        let on = self.idle(&job, pool);
        let found = on.map(|on| (on, Vec::new()));
        let may_take = job.terms.tier == Tier::Funded && job.terms.shape.nodes == 1;
        let found = found.or_else(|| may_take.then(|| self.cheapest(id, &job, pool)).flatten());
        if let Some((on, takes)) = found {
            self.start(id, &job, pool, on, takes);
        }
    }

    /// The nodes on which a job may be tried that has its GPUs after `wait` at the latest.
    fn open(&self, job: &Job, pool: &Name, wait: Span) -> Vec<(NodeId, Node)> {
        let could = |(id, node): &(&NodeId, &Node)| {
            node.contact == Contact::Ready
                && node.cordon.is_none()
                && !node.is_draining()
                && job.terms.cluster.as_ref().is_none_or(|cluster| *cluster == node.pool)
                && !job.failed_on.contains(id)
                && self.could_hold(job, node)
        };
        let wanted = usize::try_from(job.terms.shape.nodes).expect("few nodes");
        let others: Vec<&Name> = self.state.nodes.iter().filter(could).map(|(_, node)| &node.pool).collect();
        let in_pool = |pool: &Name| others.iter().filter(|other| **other == pool).count();
        let is_elsewhere = others.iter().any(|pool| in_pool(pool) >= wanted);
        let settings = &self.state.meta.settings;
        let over = self.now.plus(wait).plus(settings.start_limit).plus(job.terms.min_runtime);
        let takes_work = |(id, node): &(&NodeId, &Node)| {
            let is_in_time = job.terms.tier == Tier::Free
                || node.drain.as_ref().is_none_or(|drain| over <= drain.begins_at);
            node.pool == *pool
                && node.contact == Contact::Ready
                && node.cordon.is_none()
                && !node.is_draining()
                && node.backoff_until.is_none_or(|until| until <= self.now)
                && !(is_elsewhere && job.failed_on.contains(id))
                && is_in_time
        };
        let open = self.state.nodes.iter().filter(takes_work);
        open.map(|(id, node)| (*id, node.clone())).collect()
    }

    fn idle(&self, job: &Job, pool: &Name) -> Option<On> {
        let mut all = Vec::new();
        for (id, node) in self.open(job, pool, Span::ZERO) {
            let idle = slots(&node, |gpu| gpu.holder.is_none() && gpu.next.is_none());
            let matching = of_type(job, &node, &idle);
            let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
            let cores = self.cores(job, &node);
            let has_room = cores <= self.now_free(&node) && cores <= self.later_free(&node, &[]);
            if matching.len() >= wanted && has_room {
                all.push((idle.len(), id, matching[..wanted].to_vec()));
            }
        }
        all.sort();
        let nodes = usize::try_from(job.terms.shape.nodes).expect("few nodes");
        let found: On = all.into_iter().take(nodes).map(|(_, id, slots)| (id, slots)).collect();
        (found.len() == nodes).then_some(found)
    }

    /// The cheapest of all subsets on all nodes.
    fn cheapest(&self, id: JobId, job: &Job, pool: &Name) -> Option<(On, Vec<AttemptId>)> {
        let mut best: Option<Found> = None;
        for (node_id, node) in self.open(job, pool, self.state.meta.settings.grace_max) {
            for found in self.enough(id, job, pool, (node_id, &node)) {
                let is_better = |best: &Found| {
                    let by_set = || self.cmp_sets(&found.set, &best.set, pool);
                    let order = found.cost.cmp(&best.cost).then_with(by_set);
                    order.then(found.open.cmp(&best.open)).then(found.node.cmp(&best.node)).is_lt()
                };
                if best.as_ref().is_none_or(is_better) {
                    best = Some(found);
                }
            }
        }
        let Found { mut set, node, slots, .. } = best?;
        set.sort();
        Some((vec![(node, self.one_of_each(&set, node, job, slots))], set))
    }

    /// All sets of a node's victims that are enough for the job.
    fn enough(&self, id: JobId, job: &Job, pool: &Name, of: (NodeId, &Node)) -> Vec<Found> {
        let (node_id, node) = of;
        let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
        let idle = of_type(job, node, &slots(node, |gpu| gpu.holder.is_none() && gpu.next.is_none()));
        let is_coming = |gpu: &scheduler_core::node::Gpu| {
            gpu.next.is_none() && gpu.holder.is_some_and(|holder| self.comes_free(holder))
        };
        let coming = of_type(job, node, &slots(node, is_coming));
        let holders: BTreeSet<AttemptId> = node.gpus.iter().filter_map(|gpu| gpu.holder).collect();
        let may_take = |holder: &AttemptId| self.may_take(id, job, *holder, pool);
        let helps = |holder: &AttemptId| !held(job, node, *holder).is_empty();
        let candidates: Vec<AttemptId> = holders.into_iter().filter(may_take).filter(helps).collect();
        let mut all = Vec::new();
        for set in subsets(&candidates) {
            let set = self.preferred(&set, pool);
            let gained = set.iter().flat_map(|victim| held(job, node, *victim));
            let mut slots: Vec<Slot> = idle.iter().chain(&coming).copied().chain(gained).collect();
            // Each gives the job at least one GPU: else it would not wait for it.
            let is_few = set.len() <= wanted;
            if is_few && slots.len() >= wanted && self.cores(job, node) <= self.later_free(node, &set) {
                slots.truncate(wanted);
                let cost = set.iter().fold([0; 4], |sum, victim| add(sum, self.cost(*victim)));
                all.push(Found { cost, set, open: idle.len() + coming.len(), node: node_id, slots });
            }
        }
        all
    }

    /// Whoever leaves for its cores alone gives a GPU too.
    fn one_of_each(&self, takes: &[AttemptId], node: NodeId, job: &Job, mut slots: Vec<Slot>) -> Vec<Slot> {
        let of = |slot: &Slot| self.holder(node, *slot).filter(|holder| takes.contains(holder));
        for victim in takes {
            if slots.iter().any(|slot| of(slot) == Some(*victim)) {
                continue;
            }
            let record = self.state.nodes.get(&node).expect("a known node");
            let first = *held(job, record, *victim).first().expect("it has one");
            let is_only = |slot: &Slot| {
                of(slot).is_some_and(|victim| slots.iter().filter(|s| of(s) == Some(victim)).count() == 1)
            };
            let spare = slots.iter().rposition(|slot| !is_only(slot));
            slots[spare.expect("there are at least as many GPUs as victims")] = first;
        }
        slots.sort();
        slots
    }

    fn holder(&self, node: NodeId, slot: Slot) -> Option<AttemptId> {
        self.state.nodes.get(&node)?.gpus.get(usize::from(slot.get()))?.holder
    }

    fn attempt(&self, id: AttemptId) -> Option<&Attempt> {
        self.state.attempts.get(&id)
    }

    fn is_heard(&self, attempt: &Attempt) -> bool {
        let heard = |id: &NodeId| self.state.nodes.get(id).is_some_and(|node| node.contact == Contact::Ready);
        attempt.placements.iter().all(|placement| heard(&placement.node))
    }

    fn comes_free(&self, id: AttemptId) -> bool {
        let leaves = |a: &Attempt| a.ended.is_some() || a.stop.is_some() && self.is_heard(a);
        self.attempt(id).is_some_and(leaves)
    }

    pub fn may_take(&self, id: JobId, job: &Job, victim: AttemptId, pool: &Name) -> bool {
        let Some(attempt) = self.attempt(victim) else { return false };
        let until = attempt.started_at.map(|at| at.plus(attempt.protection));
        let is_protected = attempt.tier == Tier::Funded && until.is_none_or(|until| self.now < until);
        if attempt.ended.is_some() || attempt.stop.is_some() || is_protected || !self.is_heard(attempt) {
            return false;
        }
        let theirs = self.state.jobs.get(&victim.job).expect("it has a job");
        assert_ne!(victim.job, id, "a job that waits does not run");
        match attempt.tier {
            Tier::Free => true,
            Tier::Funded if attempt.budget == job.budget => theirs.terms.turn > job.terms.turn,
            Tier::Funded => self.is_below(job.budget, attempt.budget, pool),
        }
    }

    /// Whether the use of one side and the margin are at most the use of the other, where the paths part.
    fn is_below(&self, mine: BudgetId, theirs: BudgetId, pool: &Name) -> bool {
        let (mine, theirs) = (self.path(mine), self.path(theirs));
        let Some((mine, theirs)) = mine.iter().zip(&theirs).find(|(a, b)| a != b) else { return false };
        let (mine, theirs) = (self.used(*mine, pool, Tier::Funded), self.used(*theirs, pool, Tier::Funded));
        let (my_worth, their_worth) = (mine.allocation.get(), theirs.allocation.get());
        let million = 1_000_000;
        let margin = u128::from(self.state.meta.settings.margin_ppm);
        match (my_worth, their_worth) {
            (0, _) => false,
            (_, 0) => true,
            _ => {
                let my_part = (mine.booked() * million + margin * my_worth) * their_worth;
                my_part <= theirs.booked() * million * my_worth
            }
        }
    }

    fn path(&self, leaf: BudgetId) -> Vec<BudgetId> {
        let up = |id: &BudgetId| self.state.budgets.get(id).and_then(|budget| budget.parent);
        let mut path: Vec<BudgetId> = std::iter::successors(Some(leaf), up).collect();
        path.reverse();
        path
    }

    fn cost(&self, id: AttemptId) -> Cost {
        let attempt = self.attempt(id).expect("it runs");
        let job = self.state.jobs.get(&id.job).expect("it has a job");
        let saved = attempt.saved_at;
        let every = job.terms.checkpoint_every.map_or(0, Span::as_millis);
        let intervals = &job.progress.intervals;
        assert!(intervals.is_empty() && job.progress.restarts.is_empty(), "nothing here was measured");
        let since = saved.or(attempt.go_at).unwrap_or(self.now);
        let has_reported = saved.is_some() || job.progress.saved.is_some();
        let lost = if has_reported { self.now.since(since).as_millis().min(2 * every) } else { 0 };
        let time = u128::from(lost + 5 * MINUTE);
        let rate = u128::from(attempt.rate.get());
        let amount = rate * time * (2 + u128::from(job.progress.preemptions)) / 2;
        let mut cost = [0; 4];
        let part = if attempt.tier == Tier::Free { 2 } else { 0 } + usize::from(job.terms.resumable);
        cost[part] = amount;
        cost
    }

    /// A set in order of preference: highest use first, then the lowest id.
    fn preferred(&self, set: &[AttemptId], pool: &Name) -> Vec<AttemptId> {
        let mut set = set.to_vec();
        set.sort_by(|a, b| self.cmp_victims(*a, *b, pool));
        set
    }

    fn cmp_victims(&self, a: AttemptId, b: AttemptId, pool: &Name) -> Ordering {
        let used = |id: AttemptId| {
            let attempt = self.attempt(id).expect("it runs");
            self.used(attempt.budget, pool, attempt.tier)
        };
        used(b).cmp_use(&used(a)).then(a.cmp(&b))
    }

    fn cmp_sets(&self, a: &[AttemptId], b: &[AttemptId], pool: &Name) -> Ordering {
        let differs =
            a.iter().zip(b).map(|(a, b)| self.cmp_victims(*a, *b, pool)).find(|order| order.is_ne());
        differs.unwrap_or(a.len().cmp(&b.len()))
    }

    pub fn start(&mut self, id: JobId, job: &Job, pool: &Name, on: On, takes: Vec<AttemptId>) {
        let rate: u128 = on.iter().map(|(node, _)| u128::from(self.rate(job, *node))).sum();
        let added = match job.terms.tier {
            Tier::Funded => rate * u128::from(job.terms.min_runtime.as_millis()),
            Tier::Free => rate * HOUR,
        };
        for budget in self.path(job.budget) {
            *self.extra.entry((pool.clone(), budget, job.terms.tier)).or_default() += added;
        }
        for victim in &takes {
            let stop = Stop { at: self.now, cause: StopCause::Unwanted, grace: Span::ZERO };
            self.state.attempts.get_mut(victim).expect("it runs").stop = Some(stop);
        }
        let attempt = AttemptId { job: id, no: job.next_attempt };
        for (node, slot) in on.iter().flat_map(|(node, slots)| slots.iter().map(move |slot| (node, slot))) {
            let record = self.state.nodes.get_mut(node).expect("a known node");
            let gpu = &mut record.gpus[usize::from(slot.get())];
            match gpu.holder {
                None => gpu.holder = Some(attempt),
                Some(_) => gpu.next = Some(attempt),
            }
        }
        self.state.jobs.get_mut(&id).expect("a known job").phase = Phase::Live(job.next_attempt);
        self.starts.push((id, on, takes));
    }

    fn all_cores(&self, node: &Node) -> u64 {
        node.facts.as_ref().map_or(0, |facts| facts.cpus.into())
    }

    fn cores(&self, job: &Job, node: &Node) -> u64 {
        let gpus = u64::from(job.terms.shape.gpus_per_node.get());
        let part = self.all_cores(node) * gpus / node.gpus.len() as u64;
        job.terms.shape.cpus.map_or(part, u64::from)
    }

    fn sum(&self, node: &Node, of: impl Iterator<Item = AttemptId>) -> u64 {
        let jobs = of.collect::<BTreeSet<_>>().into_iter().filter_map(|id| self.state.jobs.get(&id.job));
        jobs.map(|job| self.cores(job, node)).sum()
    }

    /// Cores that nobody has now: those who wait here for others have none yet.
    fn now_free(&self, node: &Node) -> u64 {
        let waits = |id: &AttemptId| node.gpus.iter().any(|gpu| gpu.next == Some(*id));
        let there = node.gpus.iter().filter_map(|gpu| gpu.holder).filter(|id| !waits(id));
        self.all_cores(node).saturating_sub(self.sum(node, there))
    }

    /// Cores that nobody has once all who leave have left, `also` too.
    fn later_free(&self, node: &Node, also: &[AttemptId]) -> u64 {
        let leaves = |id: &AttemptId| {
            let stops = |attempt: &Attempt| attempt.ended.is_some() || attempt.stop.is_some();
            also.contains(id) || self.attempt(*id).is_some_and(stops)
        };
        let all = node.gpus.iter().flat_map(|gpu| gpu.holder.into_iter().chain(gpu.next));
        self.all_cores(node).saturating_sub(self.sum(node, all.filter(|id| !leaves(id))))
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
        let takes = start.takes.iter().map(|take| take.attempt).collect();
        (start.job, start.on.clone(), takes)
    };
    plan.decisions.iter().map(one).collect()
}

pub fn slots(node: &Node, wanted: impl Fn(&scheduler_core::node::Gpu) -> bool) -> Vec<Slot> {
    let gpus = (0..).zip(&node.gpus).filter(|(_, gpu)| gpu.is_present && wanted(gpu));
    gpus.map(|(slot, _)| Slot::new(slot)).collect()
}

/// The GPUs of an attempt that help a job.
fn held(job: &Job, node: &Node, of: AttemptId) -> Vec<Slot> {
    of_type(job, node, &slots(node, |gpu| gpu.holder == Some(of) && gpu.next.is_none()))
}

fn of_type(job: &Job, node: &Node, slots: &[Slot]) -> Vec<Slot> {
    let model = |slot: &Slot| node.gpus[usize::from(slot.get())].model.as_str().to_owned();
    slots.iter().copied().filter(|slot| is_of_type(job, &model(slot))).collect()
}

pub fn subsets(of: &[AttemptId]) -> Vec<Vec<AttemptId>> {
    let chosen = |bits: u32| (0..).zip(of).filter(move |(at, _)| bits & (1 << at) != 0).map(|(_, id)| *id);
    (0..1_u32 << of.len()).map(|bits| chosen(bits).collect()).collect()
}

fn add(a: Cost, b: Cost) -> Cost {
    std::array::from_fn(|at| a[at] + b[at])
}

fn is_of_type(job: &Job, model: &str) -> bool {
    let wanted = job.terms.shape.gpu_type.as_ref().map(|kind| kind.as_str().to_lowercase());
    wanted.is_none_or(|wanted| model.to_lowercase().contains(&wanted))
}

#[test]
fn the_planner_agrees_with_a_slow_and_obvious_one() {
    let (mut starts, mut takes, mut several) = (0, 0, 0);
    for seed in 0..600 {
        let lines = lab(&mut Random::new(seed));
        let lab = state(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let slow = Naive::plan(&lab, NOW);
        assert_eq!(decided(&plan), slow, "\nseed {seed}\n{lines}");
        starts += slow.len();
        takes += slow.iter().filter(|(_, _, takes)| !takes.is_empty()).count();
        several += slow.iter().filter(|(_, _, takes)| takes.len() > 1).count();
    }
    assert!(starts > 1000, "the laboratories start something: {starts}");
    assert!(takes > 100 && several > 20, "and take somebody: {takes}, and several: {several}");
}

#[test]
fn no_idle_gpu_is_left_that_a_waiting_job_could_use() {
    for seed in 1000..1200 {
        let lines = lab(&mut Random::new(seed));
        let lab = state(&lines);
        let mut after = Naive::new(&lab, NOW);
        for start in plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1)).decisions {
            let job = after.state.jobs.get(&start.job).expect("a known job").clone();
            let pool = after.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
            let takes = start.takes.iter().map(|take| take.attempt).collect();
            after.start(start.job, &job, &pool, start.on, takes);
        }
        let starts = after.starts.len();
        for pool in ["main", "west"].map(crate::lab::name) {
            while after.pass(&pool, Tier::Funded) {}
            after.pass(&pool, Tier::Free);
        }
        let more = &after.starts[starts..];
        assert!(more.is_empty(), "\nseed {seed}: {more:?} could start too\n{lines}");
    }
}

/// Checks what holds of every decision, whatever the order: the laws of a start that takes.
fn check_laws(lab: &State, plan: &Plan, what: &str) {
    let mut naive = Naive::new(lab, NOW);
    for start in &plan.decisions {
        let job = naive.state.jobs.get(&start.job).expect("a known job").clone();
        let pool = naive.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
        check_shape(&naive, &job, &pool, start, what);
        let takes: Vec<AttemptId> = start.takes.iter().map(|take| take.attempt).collect();
        for victim in &takes {
            assert!(naive.may_take(start.job, &job, *victim, &pool), "{victim} for {}\n{what}", start.job);
            let held = |(node, slots): &(NodeId, Vec<Slot>)| {
                slots.iter().any(|slot| naive.holder(*node, *slot) == Some(*victim))
            };
            assert!(start.on.iter().any(held), "{victim} gives {} nothing\n{what}", start.job);
            let without: Vec<AttemptId> = takes.iter().copied().filter(|other| other != victim).collect();
            assert!(
                !naive.could_start(&job, &pool, &without),
                "{victim} may stay, for {}\n{what}",
                start.job
            );
        }
        let choice = start.why.choice.as_ref();
        assert_eq!(choice.is_some(), !takes.is_empty(), "{what}");
        if let Some(choice) = choice {
            let freed: usize = takes.iter().filter_map(|id| naive.attempt(*id)).map(gpus).sum();
            assert_eq!(usize::try_from(choice.freed), Ok(freed), "{what}");
            assert!(choice.lacked > 0 || !takes.is_empty(), "{what}");
            assert!(usize::try_from(choice.considered).expect("few") >= takes.len(), "{what}");
        }
        naive.start(start.job, &job, &pool, start.on.clone(), takes);
    }
}

fn gpus(attempt: &Attempt) -> usize {
    attempt.placements.iter().map(|placement| placement.slots.len()).sum()
}

fn check_shape(naive: &Naive, job: &Job, pool: &Name, start: &scheduler_core::decision::Start, what: &str) {
    let open: BTreeSet<NodeId> = naive.open(job, pool, Span::ZERO).into_iter().map(|(id, _)| id).collect();
    let nodes: BTreeSet<NodeId> = start.on.iter().map(|(node, _)| *node).collect();
    assert_eq!(nodes.len(), start.on.len(), "a gang is on different nodes\n{what}");
    assert_eq!(u32::try_from(nodes.len()), Ok(job.terms.shape.nodes), "a gang is whole\n{what}");
    assert!(nodes.is_subset(&open), "nodes take work\n{what}");
    for (node, on) in &start.on {
        assert_eq!(u32::try_from(on.len()), Ok(job.terms.shape.gpus_per_node.get()), "{what}");
        for slot in on {
            let gpu = &naive.state.nodes.get(node).expect("a known node").gpus[usize::from(slot.get())];
            assert_eq!(gpu.next, None, "nobody else was promised it\n{what}");
            let is_taken = |holder: AttemptId| start.takes.iter().any(|take| take.attempt == holder);
            let comes = |holder: AttemptId| job.terms.tier == Tier::Funded && naive.comes_free(holder);
            assert!(gpu.holder.is_none_or(|holder| is_taken(holder) || comes(holder)), "{what}");
        }
    }
}

impl Naive {
    /// Whether a job would find its nodes if `takes` left.
    fn could_start(&self, job: &Job, pool: &Name, takes: &[AttemptId]) -> bool {
        let could = |(_, node): &(NodeId, Node)| {
            let gives = |holder: AttemptId| takes.contains(&holder) || self.comes_free(holder);
            let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
            let there = slots(node, |gpu| gpu.next.is_none() && gpu.holder.is_none_or(gives));
            of_type(job, node, &there).len() >= wanted
                && self.cores(job, node) <= self.later_free(node, takes)
                && job.terms.tier == Tier::Funded
        };
        let nodes = self.open(job, pool, self.state.meta.settings.grace_max);
        let able = nodes.iter().filter(|node| could(node)).count();
        u32::try_from(able).expect("few nodes") >= job.terms.shape.nodes
    }
}

#[test]
fn gangs_are_whole_and_whoever_gives_way_to_them_is_needed() {
    let (mut gangs, mut takes) = (0, 0);
    for seed in 2000..2600 {
        let lines = lab_with_gangs(&mut Random::new(seed));
        let lab = state(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        check_laws(&lab, &plan, &format!("seed {seed}\n{lines}"));
        let of_gangs = plan.decisions.iter().filter(|start| start.on.len() > 1);
        gangs += of_gangs.clone().count();
        takes += of_gangs.filter(|start| !start.takes.is_empty()).count();
    }
    assert!(gangs > 150 && takes > 60, "{gangs} gangs start, {takes} take somebody");
}

#[test]
fn a_gang_with_an_idle_or_coming_or_takeable_place_never_waits() {
    for seed in 3000..3300 {
        let lines = lab_with_gangs(&mut Random::new(seed));
        let lab = state(&lines);
        let plan = plan(&lab, &Links::all_ready(&lab), NOW, Term::new(1));
        let mut naive = Naive::new(&lab, NOW);
        for start in &plan.decisions {
            let job = naive.state.jobs.get(&start.job).expect("a known job").clone();
            let pool = naive.state.nodes.get(&start.on[0].0).expect("a known node").pool.clone();
            let takes = start.takes.iter().map(|take| take.attempt).collect();
            naive.start(start.job, &job, &pool, start.on.clone(), takes);
        }
        let waiting: Vec<JobId> =
            naive.state.jobs.iter().filter(|(_, job)| job.phase.is_waiting()).map(|(id, _)| *id).collect();
        for id in waiting {
            let job = naive.state.jobs.get(&id).expect("a known job").clone();
            for pool in ["main", "west"].map(crate::lab::name) {
                if job.terms.tier == Tier::Free
                    || job.terms.cluster.as_ref().is_some_and(|named| *named != pool)
                {
                    continue;
                }
                let all: Vec<AttemptId> = naive.state.attempts.keys().copied().collect();
                let all: Vec<AttemptId> =
                    all.into_iter().filter(|v| naive.may_take(id, &job, *v, &pool)).collect();
                // With few GPUs a node, cores alone may need more victims than the job has GPUs there.
                let is_large = job.terms.shape.gpus_per_node.get() >= 4;
                let waits = is_large && naive.could_start(&job, &pool, &all);
                assert!(!waits, "{id} waits\nseed {seed}\n{lines}");
            }
        }
    }
}
