//! The planner against a slow and obvious one, on random laboratories. The slow one is written from DESIGN 6 and looks at
//! everything again before each decision: no index, nothing kept.

mod clusters;
mod dates;
mod gangs;
pub mod lane;
pub mod laws;
mod prefer;
mod room;
mod told;

use std::collections::{BTreeMap, BTreeSet};

use scheduler_core::budget::ROOT;
use scheduler_core::decision::{DateStep, Plan, UseOf};
use scheduler_core::id::{AttemptId, BudgetId, JobId, Name, NodeId, Slot};
use scheduler_core::job::{Attempt, Job, Phase, Stop, StopCause};
use scheduler_core::node::{Contact, Node};
use scheduler_core::spec::Tier;
use scheduler_core::state::State;
use scheduler_core::unit::{ChargeMillis, Span, Timestamp};

use clusters::{clusters, is_enough, may_be_in};
use dates::Head;
use room::{held, of_type, slots};
use told::Told;
pub use told::decided;

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
    /// What was decided.
    pub starts: Vec<Start>,
    /// GPUs of funded work that stays, by budget: as the plan found it, and with what was decided.
    has: BTreeMap<(Name, BudgetId), u64>,
    /// Whether of equally full nodes the one with the closest end of protection is taken.
    pub aligns: bool,
    /// What the planner decided, the last first: of equal GPUs of a node it is the planner who chooses.
    follows: Option<Vec<Start>>,
    /// What it says of dates, the last first.
    steps: Vec<DateStep>,
    /// The nodes of a date that has come, while its job takes what it has.
    claims: Option<BTreeSet<NodeId>>,
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
        let (follows, steps, claims, aligns) = (None, Vec::new(), None, true);
        let state = state.clone();
        let mut naive = Self { state, now, extra, has, starts, aligns, follows, steps, claims };
        for attempt in naive.state.attempts.values().cloned().collect::<Vec<_>>() {
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

    /// Checks each decision of a plan: the same job on the same nodes, and the same who give way; and each date.
    pub fn agrees(state: &State, now: Timestamp, plan: &Plan, what: &str) -> Vec<Start> {
        let told = Told(what);
        let mut naive = Self::new(state, now);
        naive.follows = Some(decided(plan).into_iter().rev().collect());
        naive.steps = plan.dates.iter().rev().cloned().collect();
        naive.all_pools();
        assert!(naive.steps.is_empty(), "the slow planner gives nobody else a date: {:?}", naive.steps);
        assert_eq!(naive.follows, Some(Vec::new()), "the slow planner starts nobody else");
        drop(told);
        naive.starts
    }

    pub fn all_pools(&mut self) {
        let pools: BTreeSet<Name> = self.state.nodes.values().map(|node| node.pool.clone()).collect();
        let has_funded = |naive: &Self| {
            let waits = |job: &Job| matches!(job.phase, Phase::Waiting { .. });
            naive.state.jobs.values().any(|job| job.terms.tier == Tier::Funded && waits(job))
        };
        let has_funded = has_funded(self);
        for pool in &pools {
            if has_funded {
                self.keep_dates(pool);
            }
            while self.pass(pool, Tier::Funded) {}
            self.pass(pool, Tier::Free);
        }
    }

    /// Tries everybody once; returns whether anybody started.
    fn pass(&mut self, pool: &Name, tier: Tier) -> bool {
        let before = self.starts.len();
        let (mut tried, mut head) = (BTreeSet::new(), Head::new());
        while let Some(job) = self.next(ROOT, pool, tier, &tried) {
            tried.insert(job);
            let starts = self.starts.len();
            self.try_start(job, pool);
            if self.starts.len() == starts && tier == Tier::Funded {
                self.waits(job, pool, &mut head);
            }
        }
        self.starts.len() > before
    }

    fn has_more(&mut self, pool: &Name, leaf: BudgetId, gpus: u64) {
        for budget in self.path(leaf) {
            *self.has.entry((pool.clone(), budget)).or_default() += gpus;
        }
    }

    /// Whether a budget has more than its burst limit.
    fn is_over(&self, id: BudgetId, pool: &Name) -> bool {
        let percent = u128::from(self.state.meta.settings.burst_limit_pct);
        let nodes = self.state.nodes.values().filter(|node| node.pool == *pool);
        let whole: u128 = nodes.map(|node| node.gpus.len() as u128 * 1_000_000).sum();
        let share = self.path(id).into_iter().fold(whole, |share, id| {
            let own = self.state.budgets.get(&id).expect("a known budget").share_in(pool, self.now);
            share * u128::from(own.ppm()) / 1_000_000
        });
        let has = u128::from(self.has.get(&(pool.clone(), id)).copied().unwrap_or(0));
        percent > 0 && id != ROOT && has * 1_000_000 > share * percent / 100
    }

    /// Whether a budget on the path has.
    pub fn is_behind(&self, leaf: BudgetId, pool: &Name) -> bool {
        self.path(leaf).into_iter().any(|id| self.is_over(id, pool))
    }

    /// Whether all jobs of a budget that were not tried go after everybody else's.
    fn goes_behind(&self, at: BudgetId, pool: &Name, tier: Tier, tried: &BTreeSet<JobId>) -> bool {
        let children =
            self.state.budgets.get(&at).into_iter().flat_map(|budget| budget.children.iter().copied());
        let mut with_jobs =
            children.filter(|child| self.next(*child, pool, tier, tried).is_some()).peekable();
        let all =
            with_jobs.peek().is_some() && with_jobs.all(|child| self.goes_behind(child, pool, tier, tried));
        tier == Tier::Funded && (all || self.is_over(at, pool))
    }

    /// The job that goes first at and below `at`.
    fn next(&self, at: BudgetId, pool: &Name, tier: Tier, tried: &BTreeSet<JobId>) -> Option<JobId> {
        let stands = |(id, job): &(&JobId, &Job)| {
            let fits = |(id, node): &(&NodeId, &Node)| {
                node.pool == *pool && self.could_hold(job, node) && !self.is_barred(job, **id)
            };
            let fits = || is_enough(job, self.state.nodes.iter().filter(fits).map(|(_, node)| node));
            matches!(job.phase, Phase::Waiting { .. })
                && job.budget == at
                && job.terms.tier == tier
                && !tried.contains(id)
                && self.named_pool(job).map_or_else(fits, |named| named == *pool)
        };
        let own = self.state.jobs.iter().filter(stands);
        if let Some((id, _)) = own.min_by_key(|(id, job)| (job.terms.turn, job.submitted_at, **id)) {
            return Some(*id);
        }
        let children = self.state.budgets.get(&at)?.children.iter().copied();
        let next = |child: BudgetId| self.next(child, pool, tier, tried);
        let with_jobs = children.filter(|child| next(*child).is_some());
        let behind = |child: &BudgetId| self.goes_behind(*child, pool, tier, tried);
        let first = with_jobs.min_by(|a, b| {
            let by_use = || self.used(*a, pool, tier).cmp_use(&self.used(*b, pool, tier));
            behind(a).cmp(&behind(b)).then_with(by_use)
        })?;
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
        let slow = Some((id, nodes(&on), takes.to_vec()));
        let dates = || {
            self.state
                .dates
                .iter()
                .map(|(of, date)| format!("{of:?} {:?}\n", date.promise))
                .collect::<String>()
        };
        let job = self.state.jobs.get(&id).map(|job| (&job.terms.shape, job.terms.min_runtime));
        assert_eq!(
            found,
            slow,
            "left the planner, right the slow one, {job:?}, {:?}\n{}",
            self.starts,
            dates()
        );
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

    /// Whether a job is not tried on a node: its launch failed there, and there are others.
    fn is_barred(&self, job: &Job, node: NodeId) -> bool {
        let could = |(id, node): &(&NodeId, &Node)| {
            node.contact == Contact::Ready
                && node.cordon.is_none()
                && !node.is_draining()
                && may_be_in(job, node)
                && !job.failed_on.contains(id)
                && self.could_hold(job, node)
        };
        let others = self.state.nodes.iter().filter(could).map(|(_, node)| node);
        is_enough(job, others) && job.failed_on.contains(&node)
    }

    /// The nodes on which a job may be tried that has its GPUs after `wait` at the latest.
    fn open(&self, id: JobId, job: &Job, pool: &Name, wait: Span) -> Vec<(NodeId, Node)> {
        let settings = &self.state.meta.settings;
        let over = self.now.plus(wait).plus(settings.start_limit).plus(self.protection(id, job));
        let takes_work = |(id, node): &(&NodeId, &Node)| {
            let is_in_time = job.terms.tier == Tier::Free
                || node.drain.as_ref().is_none_or(|drain| over <= drain.begins_at);
            node.pool == *pool
                && may_be_in(job, node)
                && node.contact == Contact::Ready
                && node.cordon.is_none()
                && node.drain.as_ref().is_none_or(|drain| !drain.is_active && self.now < drain.begins_at)
                && node.backoff_until.is_none_or(|until| until <= self.now)
                && self.claims.as_ref().map_or(!self.is_barred(job, **id), |nodes| nodes.contains(id))
                && is_in_time
        };
        let open = self.state.nodes.iter().filter(takes_work);
        let open = open.filter(|(node_id, node)| self.leaves_room(id, job, (**node_id, node), wait));
        open.map(|(id, node)| (*id, node.clone())).collect()
    }

    fn idle(&self, id: JobId, job: &Job, pool: &Name) -> Option<On> {
        self.idle_if(id, job, pool, self.aligns)
    }

    /// When the last protection on a node ends; the beginning of time if nobody is protected there.
    fn protected_until(&self, node: &Node) -> Timestamp {
        let end = |id: AttemptId| match self.attempt(id) {
            Some(a) if a.tier == Tier::Free || a.stop.is_some() || a.ended.is_some() => Timestamp::ZERO,
            Some(a) => a.started_at.unwrap_or(a.start_by).plus(a.protection),
            None => {
                let job = self.state.jobs.get(&id.job).filter(|job| job.terms.tier == Tier::Funded);
                let is_decided = self.starts.iter().any(|(job, ..)| *job == id.job);
                let ends = job.filter(|_| is_decided);
                ends.map_or(Timestamp::ZERO, |job| self.go(id.job).plus(self.protection(id.job, job)))
            }
        };
        let here = node.gpus.iter().flat_map(|gpu| gpu.holder.into_iter().chain(gpu.next));
        here.map(end).filter(|until| self.now < *until).max().unwrap_or(Timestamp::ZERO)
    }

    /// When a job that was decided to start has its GPUs: at once, or after the longest grace.
    fn go(&self, id: JobId) -> Timestamp {
        let waits = |gpu: &scheduler_core::node::Gpu| gpu.next.is_some_and(|next| next.job == id);
        let waits = self.state.nodes.values().flat_map(|node| &node.gpus).any(waits);
        if waits { self.now.plus(self.state.meta.settings.grace_max) } else { self.now }
    }

    /// The idle GPUs that a job takes: on the fullest nodes; of equally full ones, if it `aligns`, on those whose
    /// protection ends closest to its own.
    pub fn idle_if(&self, of: JobId, job: &Job, pool: &Name, aligns: bool) -> Option<On> {
        let own = match job.terms.tier {
            Tier::Funded => self.now.plus(self.protection(of, job)),
            Tier::Free => Timestamp::ZERO,
        };
        let open = self.open(of, job, pool, Span::ZERO);
        clusters(job, &open).iter().find_map(|here| self.idle_in(of, job, here, (own, aligns)))
    }

    /// The same on nodes of one cluster, for who is past its protection at `own`.
    fn idle_in(
        &self,
        of: JobId,
        job: &Job,
        open: &[(NodeId, Node)],
        (own, aligns): (Timestamp, bool),
    ) -> Option<On> {
        let mut all = Vec::new();
        for (id, node) in open {
            let id = *id;
            let idle = slots(node, |gpu| gpu.holder.is_none() && gpu.next.is_none());
            let mut matching = of_type(job, node, &idle);
            matching.retain(|slot| !self.is_reserved(of, job, (id, *slot), Span::ZERO));
            let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
            let has_room = self.has_room_now(job, node) && self.has_room_later(job, node, &[]);
            if matching.len() >= wanted && has_room {
                let until = if aligns { self.protected_until(node) } else { own };
                let apart = own.since(until).max(until.since(own));
                all.push((idle.len(), apart, until, id, matching[..wanted].to_vec()));
            }
        }
        all.sort();
        let nodes = usize::try_from(job.terms.shape.nodes).expect("few nodes");
        let found: On = all.into_iter().take(nodes).map(|(.., id, slots)| (id, slots)).collect();
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
        Some((vec![(node, slots)], set))
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
        let wait = self.state.meta.settings.grace_max;
        let unreserved = |mut slots: Vec<Slot>| {
            slots.retain(|slot| !self.is_reserved(id, job, (node_id, *slot), wait));
            slots
        };
        let idle = slots(node, |gpu| gpu.holder.is_none() && gpu.next.is_none());
        let idle = unreserved(of_type(job, node, &idle));
        let is_coming = |gpu: &scheduler_core::node::Gpu| {
            let comes = |holder| gone.contains(&holder) || self.comes_free(holder);
            gpu.next.is_none() && gpu.holder.is_some_and(comes)
        };
        let coming = unreserved(of_type(job, node, &slots(node, is_coming)));
        let holders: BTreeSet<AttemptId> = node.gpus.iter().filter_map(|gpu| gpu.holder).collect();
        let may_take = |holder: &AttemptId| self.may_take(id, job, *holder, pool);
        let stays = |holder: &AttemptId| !gone.contains(holder);
        let candidates: Vec<AttemptId> = holders.into_iter().filter(stays).filter(may_take).collect();
        let left: Vec<AttemptId> = gone.iter().copied().collect();
        let mut all = Vec::new();
        for set in subsets(&candidates) {
            let set = self.preferred(&set, pool);
            let gives = |victim: AttemptId| unreserved(held(job, node, victim));
            let gained = set.iter().flat_map(|victim| gives(*victim));
            let there: Vec<Slot> = idle.iter().chain(&coming).copied().chain(gained).collect();
            let without = [set.clone(), left.clone()].concat();
            if there.len() >= wanted && self.has_room_later(job, node, &without) {
                let mut slots = self.given(job, node, (&set, &left), gives);
                slots.truncate(wanted);
                let others = there.into_iter().filter(|slot| !slots.contains(slot)).collect::<Vec<_>>();
                slots.extend(others.into_iter().take(wanted - slots.len()));
                slots.sort();
                let cost = set.iter().fold([0; 4], |sum, victim| add(sum, self.cost(*victim)));
                all.push(Found { cost, set, open: idle.len() + coming.len(), node: node_id, slots });
            }
        }
        all
    }

    /// A GPU of each whose cores or memory the job waits for, if those of `left` leave anyway.
    fn given(
        &self,
        job: &Job,
        node: &Node,
        (set, left): (&[AttemptId], &[AttemptId]),
        gives: impl Fn(AttemptId) -> Vec<Slot>,
    ) -> Vec<Slot> {
        let mut left = left.to_vec();
        let mut slots = Vec::new();
        for victim in set {
            if self.has_room_later(job, node, &left) {
                break;
            }
            slots.extend(gives(*victim).into_iter().next());
            left.push(*victim);
        }
        slots
    }

    fn holder(&self, node: NodeId, slot: Slot) -> Option<AttemptId> {
        self.state.nodes.get(&node)?.gpus.get(usize::from(slot.get()))?.holder
    }

    /// The nodes that hold a part of a job if everybody leaves whom it may take.
    pub fn able(&self, id: JobId, job: &Job, pool: &Name) -> Vec<NodeId> {
        let open = self.open(id, job, pool, self.state.meta.settings.grace_max);
        let able = open.iter().filter(|(node_id, node)| {
            !self.enough(id, job, pool, (*node_id, node), &BTreeSet::new()).is_empty()
        });
        able.map(|(id, _)| *id).collect()
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
            Tier::Funded if self.claims.is_some() => true,
            Tier::Funded if self.has_lane(job, pool) && !lane::is_lane(theirs) => true,
            Tier::Funded if attempt.budget == job.budget => theirs.terms.turn > job.terms.turn,
            Tier::Funded if self.is_behind(job.budget, pool) && !self.is_behind(attempt.budget, pool) => {
                false
            }
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
            let grace = self.state.jobs.get(&victim.job).expect("it has a job").terms.grace;
            let stop = Stop { at: self.now, cause: StopCause::Unwanted, grace };
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
        self.state.dates.remove(&(id, pool.clone()));
        self.starts.push((id, on, takes));
    }
}

/// All subsets of these.
pub fn subsets(of: &[AttemptId]) -> Vec<Vec<AttemptId>> {
    let chosen = |bits: u32| (0..).zip(of).filter(move |(at, _)| bits & (1 << at) != 0).map(|(_, id)| *id);
    (0..1_u32 << of.len()).map(|bits| chosen(bits).collect()).collect()
}

fn add(a: Cost, b: Cost) -> Cost {
    std::array::from_fn(|at| a[at] + b[at])
}
