//! The planner against a slow and obvious one, on random laboratories. The slow one is written from DESIGN 6 and looks at
//! everything again before each decision: no index, nothing kept.

mod gangs;
pub mod lane;
pub mod laws;
mod room;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::budget::ROOT;
use scheduler_core::decision::{Plan, UseOf};
use scheduler_core::id::{AttemptId, BudgetId, JobId, Name, NodeId, Slot};
use scheduler_core::job::{Attempt, Job, Phase, Stop, StopCause};
use scheduler_core::node::{Contact, Node};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, Span, Timestamp};

use room::{held, of_type, slots};

const HOUR: u128 = 3_600_000;

/// What was decided: which job, on which nodes, which GPUs, and who gives way.
pub type Start = (JobId, On, Vec<AttemptId>);

/// Where: by node, which GPUs.
pub type On = Vec<(NodeId, Vec<Slot>)>;

/// Plans by looking at everything again before each decision.
pub struct Naive {
    pub state: State,
    now: Timestamp,
    extra: BTreeMap<(Name, BudgetId, Tier), u128>,
    starts: Vec<Start>,
    /// GPUs of funded work that stays, by budget: as the plan found it, and with what was decided.
    has: BTreeMap<(Name, BudgetId), u64>,
    /// What the planner decided, the last first: of equal GPUs of a node it is the planner who chooses.
    follows: Option<Vec<Start>>,
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
        let (extra, has, starts) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let mut naive = Self { state: state.clone(), now, extra, has, starts, follows: None };
        for attempt in state.attempts.values() {
            let gpus = attempt.placements.iter().map(|placement| placement.slots.len() as u64).sum();
            if attempt.tier == Tier::Funded && attempt.stop.is_none() && attempt.ended.is_none() {
                naive.has_more(&attempt.pool, attempt.budget, gpus);
            }
        }
        naive
    }

    pub fn plan(state: &State, now: Timestamp) -> Vec<Start> {
        let mut naive = Self::new(state, now);
        naive.all_pools();
        naive.starts
    }

    /// Checks each decision of a plan: the same job on the same nodes, and the same who give way.
    pub fn agrees(state: &State, now: Timestamp, plan: &Plan, what: &str) -> Vec<Start> {
        let told = Told(what);
        let mut naive = Self::new(state, now);
        naive.follows = Some(decided(plan).into_iter().rev().collect());
        naive.all_pools();
        assert_eq!(naive.follows, Some(Vec::new()), "the slow planner starts nobody else");
        drop(told);
        naive.starts
    }

    fn all_pools(&mut self) {
        let pools: BTreeSet<Name> = self.state.nodes.values().map(|node| node.pool.clone()).collect();
        for pool in &pools {
            while self.pass(pool, Tier::Funded) {}
            self.pass(pool, Tier::Free);
        }
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

    fn has_more(&mut self, pool: &Name, leaf: BudgetId, gpus: u64) {
        for budget in self.path(leaf) {
            *self.has.entry((pool.clone(), budget)).or_default() += gpus;
        }
    }

    /// Whether a budget on the path has more than its burst limit.
    pub fn is_behind(&self, leaf: BudgetId, pool: &Name) -> bool {
        let percent = u128::from(self.state.meta.settings.burst_limit_pct);
        let nodes = self.state.nodes.values().filter(|node| node.pool == *pool);
        let mut share: u128 = nodes.map(|node| node.gpus.len() as u128 * 1_000_000).sum();
        self.path(leaf).into_iter().skip(1).any(|id| {
            let own = self.state.budgets.get(&id).expect("a known budget").share_in(pool, self.now);
            share = share * u128::from(own.ppm()) / 1_000_000;
            let has = u128::from(self.has.get(&(pool.clone(), id)).copied().unwrap_or(0));
            percent > 0 && has > 0 && has * 1_000_000 > share * percent / 100
        })
    }

    /// The job that goes first: of those whose budgets are within the burst limit, else of the others.
    fn next(&self, at: BudgetId, pool: &Name, tier: Tier, tried: &BTreeSet<JobId>) -> Option<JobId> {
        let of = |behind| self.next_of(at, (pool, tier, behind), tried);
        of(false).or_else(|| of(true))
    }

    /// The job that goes first at and below `at`.
    fn next_of(
        &self,
        at: BudgetId,
        (pool, tier, behind): (&Name, Tier, bool),
        tried: &BTreeSet<JobId>,
    ) -> Option<JobId> {
        let stands = |(id, job): &(&JobId, &Job)| {
            let named = job.terms.cluster.as_ref();
            let fits = |node: &Node| node.pool == *pool && self.could_hold(job, node);
            matches!(job.phase, Phase::Waiting { .. })
                && job.budget == at
                && job.terms.tier == tier
                && !tried.contains(id)
                && behind == (tier == Tier::Funded && self.is_behind(at, pool))
                && named.map_or_else(|| self.state.nodes.values().any(fits), |named| named == pool)
        };
        let own = self.state.jobs.iter().filter(stands);
        if let Some((id, _)) = own.min_by_key(|(id, job)| (job.terms.turn, job.submitted_at, **id)) {
            return Some(*id);
        }
        let children = self.state.budgets.get(&at)?.children.iter().copied();
        let next = |child: BudgetId| self.next_of(child, (pool, tier, behind), tried);
        let with_jobs = children.filter(|child| next(*child).is_some());
        let first = with_jobs.min_by(|a, b| self.used(*a, pool, tier).cmp_use(&self.used(*b, pool, tier)))?;
        next(first)
    }

    fn used(&self, budget: BudgetId, pool: &Name, tier: Tier) -> UseOf {
        let window = self.state.meta.settings.window;
        let used = self.state.books.use_of(budget, pool, tier, &self.state.budgets, window, self.now);
        let extra = self.extra.get(&(pool.clone(), budget, tier)).copied().unwrap_or(0);
        UseOf { set_aside: ChargeMillis::new(used.set_aside.get() + extra), ..used }
    }

    fn try_start(&mut self, id: JobId, pool: &Name) {
        let job = self.state.jobs.get(&id).expect("it was just found").clone();
        if !self.leaves_lane(id, &job, pool) {
            return;
        }
        let found = self.idle(id, &job, pool).map(|on| (on, Vec::new())).or_else(|| match job.terms.tier {
            Tier::Free => None,
            Tier::Funded if job.terms.shape.nodes == 1 => self.cheapest(id, &job, pool),
            Tier::Funded => self.gang(id, &job, pool),
        });
        if let Some((on, takes)) = found {
            let on = self.as_decided(id, on, &takes);
            self.start(id, &job, pool, on, takes);
        }
    }

    /// Returns the GPUs that the planner chose, on the same nodes and for the same price.
    fn as_decided(&mut self, id: JobId, on: On, takes: &[AttemptId]) -> On {
        let Some(follows) = &mut self.follows else { return on };
        let nodes = |on: &On| on.iter().map(|(node, slots)| (*node, slots.len())).collect::<BTreeSet<_>>();
        let next = follows.pop();
        let found = next.as_ref().map(|(job, on, takes)| (*job, nodes(on), takes.clone()));
        assert_eq!(found, Some((id, nodes(&on), takes.to_vec())), "left the planner, right the slow one");
        let (_, theirs, _) = next.expect("it was just compared");
        assert!(on.len() > 1 || theirs == on, "{theirs:?} instead of {on:?} for {id}");
        theirs
    }

    /// The first run is protected for the minimum, a later one for a restart and a checkpoint at least.
    fn protection(&self, id: JobId, job: &Job) -> Span {
        let settings = &self.state.meta.settings;
        let ran = |past: Option<Timestamp>| past.is_some();
        let live = self.state.attempts.iter().filter(|(attempt, _)| attempt.job == id);
        let has_run = job.past.iter().any(|past| ran(past.started_at))
            || live.into_iter().any(|(_, a)| ran(a.started_at));
        if job.terms.tier == Tier::Free || !has_run {
            return job.terms.min_runtime;
        }
        let restart = job.progress.usual_restart(settings.restart_guess);
        let once_more = restart.plus(job.usual_interval().unwrap_or(Span::ZERO)).plus(job.terms.grace);
        job.terms.min_runtime.max(once_more.min(settings.cap))
    }

    /// The nodes on which a job may be tried that has its GPUs after `wait` at the latest.
    fn open(&self, id: JobId, job: &Job, pool: &Name, wait: Span) -> Vec<(NodeId, Node)> {
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
        let over = self.now.plus(wait).plus(settings.start_limit).plus(self.protection(id, job));
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

    fn idle(&self, id: JobId, job: &Job, pool: &Name) -> Option<On> {
        let mut all = Vec::new();
        for (id, node) in self.open(id, job, pool, Span::ZERO) {
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
        for (node_id, node) in self.open(id, job, pool, self.state.meta.settings.grace_max) {
            for found in self.enough(id, job, pool, (node_id, &node), &BTreeSet::new()) {
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

    /// All sets of a node's victims that are enough for the job if `gone` leave anyway.
    fn enough(
        &self,
        id: JobId,
        job: &Job,
        pool: &Name,
        of: (NodeId, &Node),
        gone: &BTreeSet<AttemptId>,
    ) -> Vec<Found> {
        let (node_id, node) = of;
        let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
        let idle = of_type(job, node, &slots(node, |gpu| gpu.holder.is_none() && gpu.next.is_none()));
        let is_coming = |gpu: &scheduler_core::node::Gpu| {
            let comes = |holder| gone.contains(&holder) || self.comes_free(holder);
            gpu.next.is_none() && gpu.holder.is_some_and(comes)
        };
        let coming = of_type(job, node, &slots(node, is_coming));
        let holders: BTreeSet<AttemptId> = node.gpus.iter().filter_map(|gpu| gpu.holder).collect();
        let may_take = |holder: &AttemptId| self.may_take(id, job, *holder, pool);
        let helps = |holder: &AttemptId| !held(job, node, *holder).is_empty();
        let stays = |holder: &AttemptId| !gone.contains(holder);
        let candidates = holders.into_iter().filter(stays).filter(may_take).filter(helps);
        let candidates: Vec<AttemptId> = candidates.collect();
        let mut all = Vec::new();
        for set in subsets(&candidates) {
            let set = self.preferred(&set, pool);
            let gained = set.iter().flat_map(|victim| held(job, node, *victim));
            let mut slots: Vec<Slot> = idle.iter().chain(&coming).copied().chain(gained).collect();
            // Each gives the job at least one GPU: else it would not wait for it.
            let is_few = set.len() <= wanted;
            let left: Vec<AttemptId> = set.iter().chain(gone).copied().collect();
            if is_few && slots.len() >= wanted && self.cores(job, node) <= self.later_free(node, &left) {
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
            Tier::Funded if self.has_lane(job, pool) && !lane::is_lane(theirs) => true,
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
        // Median of its own reports, at most its declared one.
        let usual = job.usual_interval().map_or(0, Span::as_millis);
        let restart = job.progress.usual_restart(self.state.meta.settings.restart_guess).as_millis();
        let since = saved.or(attempt.go_at).unwrap_or(self.now);
        let has_reported = saved.is_some() || job.progress.saved.is_some();
        let lost = if has_reported { self.now.since(since).as_millis().min(2 * usual) } else { 0 };
        let time = u128::from(lost + restart);
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
            Tier::Funded => rate * u128::from(self.protection(id, job).as_millis()),
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
        if job.terms.tier == Tier::Funded {
            self.has_more(pool, job.budget, lane::gpus(job));
        }
        self.starts.push((id, on, takes));
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

pub fn subsets(of: &[AttemptId]) -> Vec<Vec<AttemptId>> {
    let chosen = |bits: u32| (0..).zip(of).filter(move |(at, _)| bits & (1 << at) != 0).map(|(_, id)| *id);
    (0..1_u32 << of.len()).map(|bits| chosen(bits).collect()).collect()
}

fn add(a: Cost, b: Cost) -> Cost {
    std::array::from_fn(|at| a[at] + b[at])
}

/// Says what it was about if it breaks.
struct Told<'a>(&'a str);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
