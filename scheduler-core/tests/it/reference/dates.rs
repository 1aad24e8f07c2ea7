//! Dates, as DESIGN 6 has them: who gets one, for when, what keeps it, and what is taken at it.

use std::collections::BTreeSet;

use scheduler_core::date::{Date, Promise};
use scheduler_core::decision::{DateStep, Step};
use scheduler_core::id::{AttemptId, DecisionId, JobId, LogIndex, Name, NodeId, Slot};
use scheduler_core::job::{Attempt, Job, Phase};
use scheduler_core::node::{Contact, Node};
use scheduler_core::spec::Tier;
use scheduler_core::unit::{Span, Timestamp};

use super::clusters::is_enough;
use super::room::{Size, fit, of_type, size, sum, whole};
use super::{Cost, Naive, On, add};

/// For so many jobs of a pass nodes are looked for that could not be found.
const TRIES: u32 = 4;

/// Whether the first in order is known in a pass.
pub(super) struct Head {
    known: bool,
    tries: u32,
}

impl Head {
    pub(super) fn new() -> Self {
        Self { known: false, tries: TRIES }
    }
}

/// When a GPU is free for a job.
#[derive(Clone, Copy)]
pub(super) struct Seat {
    pub(super) slot: Slot,
    pub(super) at: Timestamp,
    /// Who has to be taken for it then, if anybody.
    pub(super) from: Option<AttemptId>,
}

/// A node that could hold a part of a job.
pub(super) struct Spot {
    pub(super) id: NodeId,
    pub(super) node: Node,
    /// Not before that.
    pub(super) opens: Timestamp,
    pub(super) seats: Vec<Seat>,
    /// Whose cores are in use, and when they are free for the job; none if nobody can say.
    pub(super) stays: Vec<(AttemptId, Option<Timestamp>)>,
}

impl Naive {
    /// Moves dates whose nodes failed, and starts whoever's date has come.
    pub(super) fn keep_dates(&mut self, pool: &Name) {
        let here = self.state.dates.iter().filter(|((_, of), _)| of == pool);
        let mut all: Vec<(Timestamp, JobId)> = here.map(|((job, _), date)| (date.promise.at, *job)).collect();
        all.sort();
        for (_, id) in all {
            let job = self.state.jobs.get(&id).expect("its job is known").clone();
            if !matches!(job.phase, Phase::Waiting { .. }) {
                continue;
            }
            let date = self.state.dates.get(&(id, pool.clone())).expect("it was just there").clone();
            if self.is_broken(id, &job, &date) {
                self.moves(id, &job, pool, &date);
            } else if date.promise.at <= self.now {
                self.claim(id, &job, pool, &date);
            }
        }
    }

    fn until(&self, id: JobId, job: &Job, at: Timestamp) -> Timestamp {
        let settings = &self.state.meta.settings;
        at.plus(settings.grace_max).plus(settings.start_limit).plus(self.protection(id, job))
    }

    /// Whether a node can't be counted on for a job that is there from then until then.
    fn is_no_good(node: &Node, at: Timestamp, until: Timestamp) -> bool {
        node.contact != Contact::Ready
            || node.cordon.is_some()
            || node.drain.as_ref().is_some_and(|drain| drain.is_active || drain.begins_at < until)
            || node.backoff_until.is_some_and(|backoff| at < backoff)
    }

    fn is_broken(&self, id: JobId, job: &Job, date: &Date) -> bool {
        let at = date.promise.at.max(self.now);
        let until = self.until(id, job, at);
        date.promise.on.iter().any(|(node, slots)| {
            let node = self.state.nodes.get(node).expect("a known node");
            let is_gone = |slot: &Slot| !node.gpus[usize::from(slot.get())].is_present;
            Self::is_no_good(node, at, until) || slots.iter().any(is_gone) || self.is_kept(job, node, slots)
        })
    }

    /// Whether somebody who is on an unreachable node too, and can't be told to leave, has the GPUs or so many cores or
    /// so much memory that the job does not fit beside it.
    fn is_kept(&self, job: &Job, node: &Node, slots: &[Slot]) -> bool {
        let by = |slot: &Slot| {
            let gpu = &node.gpus[usize::from(slot.get())];
            gpu.next.or(gpu.holder)
        };
        let here = node.gpus.iter().flat_map(|gpu| gpu.holder.into_iter().chain(gpu.next));
        let unheard: BTreeSet<AttemptId> = here
            .filter(|id| {
                let stays = |of: &&Attempt| of.stop.is_none() && of.ended.is_none();
                self.attempt(*id).filter(stays).is_some_and(|attempt| !self.is_heard(attempt))
            })
            .collect();
        let sizes = unheard.iter().map(|id| self.size_of(*id, node));
        slots.iter().filter_map(by).any(|id| unheard.contains(&id))
            || !fit(sizes.chain([size(job, node)]), whole(node))
    }

    fn claim(&mut self, id: JobId, job: &Job, pool: &Name, date: &Date) {
        if let Some(on) = self.idle(id, job, pool) {
            let on = self.as_decided(id, on, &[]);
            self.start(id, job, pool, on, Vec::new());
            return;
        }
        self.claims = Some(date.promise.on.iter().map(|(node, _)| *node).collect());
        let found = match job.terms.shape.nodes {
            1 => self.cheapest(id, job, pool),
            _ => self.gang(id, job, pool),
        };
        if let Some((on, takes)) = found {
            let on = self.as_decided(id, on, &takes);
            self.start(id, job, pool, on, takes);
        }
        self.claims = None;
    }

    /// Somebody waits: the first in order gets a date, if it has none and there are nodes for it.
    pub(super) fn waits(&mut self, id: JobId, pool: &Name, head: &mut Head) {
        if !self.state.meta.settings.dates || head.known || head.tries == 0 {
            return;
        }
        let job = self.state.jobs.get(&id).expect("it was just found").clone();
        let has_one = self.state.dates.contains(&(id, pool.clone()));
        if has_one || self.issue(id, &job, pool) {
            head.known = true;
        } else {
            head.tries -= 1;
        }
    }

    fn issue(&mut self, id: JobId, job: &Job, pool: &Name) -> bool {
        let Some(at) = self.earliest(id, job, pool, self.now) else { return false };
        let theirs = self.next_step(id, pool);
        let Step::Issue(promise) = theirs.step else { panic!("{id} gets a date at {at:?}, not {theirs:?}") };
        self.agrees_on(id, job, pool, (&promise, at, self.now));
        let decision = DecisionId { index: LogIndex::new(u64::MAX), n: 0 };
        let date = Date { issued_at: self.now, decision, promise, moved: 0, moves: Vec::new() };
        self.state.dates.insert((id, pool.clone()), date);
        true
    }

    fn moves(&mut self, id: JobId, job: &Job, pool: &Name, date: &Date) {
        let key = (id, pool.clone());
        self.state.dates.remove(&key);
        let at = self.earliest(id, job, pool, date.issued_at);
        match (self.next_step(id, pool).step, at) {
            (Step::Drop { .. }, None) => {}
            (Step::Move { to, .. }, Some(at)) => {
                self.agrees_on(id, job, pool, (&to, at, date.issued_at));
                self.state.dates.insert(key, Date { promise: to, ..date.clone() });
            }
            (step, at) => panic!("the date of {id} is to move to {at:?}, not {step:?}"),
        }
    }

    /// Returns what the planner says of the date of a job now.
    fn next_step(&mut self, id: JobId, pool: &Name) -> DateStep {
        let starts = self.starts.len();
        let step = self.steps.pop().unwrap_or_else(|| panic!("{id} gets no date from the planner"));
        let place = (step.job, &step.pool, usize::from(step.after));
        assert_eq!(place, (id, pool, starts), "left the planner's next word of a date, right the slow one's");
        step
    }

    /// Checks a promise: the earliest time, and of the nodes that are free by then one of the cheapest.
    fn agrees_on(
        &self,
        id: JobId,
        job: &Job,
        pool: &Name,
        (promise, at, issued_at): (&Promise, Timestamp, Timestamp),
    ) {
        let until = self.until(id, job, at);
        let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
        let spots = self.spots(id, job, pool, issued_at);
        let shown = || spots.iter().map(|spot| self.shown(job, spot, promise.at)).collect::<String>();
        let same = (promise.at, promise.until) == (at, until);
        assert!(same, "the date of {id} is {}, not {promise:?}, by\n{}", at.since(self.now), shown());
        let good: Vec<&Spot> = spots.iter().filter(|spot| self.is_free((id, job), spot, at)).collect();
        for (node, slots) in &promise.on {
            let spot = good.iter().find(|spot| spot.id == *node).expect("a node that is free by then");
            let is_free = |slot: &Slot| spot.seats.iter().any(|seat| seat.slot == *slot && seat.at <= at);
            assert!(slots.len() == wanted && slots.iter().all(is_free), "{slots:?} of {node} for {id}");
        }
        let clusters: BTreeSet<&Name> = good
            .iter()
            .filter(|spot| promise.slots_on(spot.id).is_some())
            .map(|spot| &spot.node.cluster)
            .collect();
        assert_eq!(clusters.len(), 1, "a gang never leaves its cluster: {promise:?}");
        if job.terms.shape.nodes == 1 {
            let least = good.iter().filter_map(|spot| self.least(job, spot, at)).min();
            let (node, slots) = &promise.on[0];
            let spot = good.iter().find(|spot| spot.id == *node).expect("it was just found");
            let taken = spot.seats.iter().filter(|seat| slots.contains(&seat.slot));
            let taken: BTreeSet<AttemptId> = taken.filter_map(|seat| seat.from).collect();
            // Others may leave for their cores alone; all of them are named.
            let named = |by: &AttemptId| promise.awaits.iter().any(|awaited| awaited.attempt == *by);
            let sets = self.enough_by(job, spot, at).into_iter();
            let is_least = |set: &BTreeSet<AttemptId>| {
                Some(self.price(set)) == least && taken.is_subset(set) && set.iter().all(named)
            };
            assert!(
                sets.collect::<Vec<_>>().iter().any(is_least),
                "{promise:?} of {id} costs more\n{}",
                shown()
            );
        }
    }

    /// The least that enough of a node costs at a time.
    pub(super) fn least(&self, job: &Job, spot: &Spot, at: Timestamp) -> Option<Cost> {
        self.enough_by(job, spot, at).iter().map(|set| self.price(set)).min()
    }

    /// All sets of those who could be taken at a time that are enough of a node.
    fn enough_by(&self, job: &Job, spot: &Spot, at: Timestamp) -> Vec<BTreeSet<AttemptId>> {
        let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
        let there: Vec<&Seat> = spot.seats.iter().filter(|seat| seat.at <= at).collect();
        let open = there.iter().filter(|seat| seat.from.is_none()).count();
        // Also who has nothing that the job could have but cores and memory.
        let is_out = |free: &Option<Timestamp>| free.is_some_and(|free| free <= at);
        let held = spot.stays.iter().filter(|(_, free)| is_out(free)).map(|(by, _)| *by);
        let held: Vec<AttemptId> = held.collect();
        let gains = |set: &[AttemptId]| {
            there.iter().filter(|seat| seat.from.is_some_and(|from| set.contains(&from))).count()
        };
        let has_room = |set: &[AttemptId]| {
            let stays = spot.stays.iter().filter(|(by, free)| {
                free.is_none_or(|free| free > at) || held.contains(by) && !set.contains(by)
            });
            let stays = stays.map(|(by, _)| self.size_of(*by, &spot.node));
            let all = stays.chain([self.dated(spot, at, None), size(job, &spot.node)]);
            fit(all, whole(&spot.node))
        };
        let sets = super::subsets(&held).into_iter();
        let enough = sets.filter(|set| open + gains(set) >= wanted && has_room(set));
        enough.map(|set| set.into_iter().collect()).collect()
    }

    /// Cores and memory of a node that are dates' at a moment, as if each job stayed as long as it may; not those of one job.
    pub(super) fn dated(&self, spot: &Spot, at: Timestamp, without: Option<JobId>) -> Size {
        let here = self.dates_on(spot.id, without).into_iter();
        let there = here.filter(|(_, promise)| promise.at <= at && at < promise.until);
        sum(there.map(|(job, _)| size(&job, &spot.node)))
    }

    /// The dates of a node, but for those of one job.
    fn dates_on(&self, node: NodeId, without: Option<JobId>) -> Vec<(Job, Promise)> {
        let pool = &self.state.nodes.get(&node).expect("a known node").pool;
        let all = self.state.dates.iter().filter(|((of, in_pool), date)| {
            in_pool == pool && Some(*of) != without && date.promise.slots_on(node).is_some()
        });
        let job = |of| self.state.jobs.get(of).expect("a known job").clone();
        all.map(|((of, _), date)| (job(of), date.promise.clone())).collect()
    }

    /// Cores and memory of a node that are with whoever may be protected beyond a moment.
    fn lasting(&self, node: &Node, at: Timestamp) -> Size {
        let here: BTreeSet<AttemptId> =
            node.gpus.iter().flat_map(|gpu| gpu.holder.into_iter().chain(gpu.next)).collect();
        let lasts = |id: &&AttemptId| match self.attempt(**id) {
            Some(attempt) if attempt.stop.is_some() || attempt.ended.is_some() => false,
            Some(_) | None => self.over(**id).is_some_and(|over| at < over),
        };
        sum(here.iter().filter(lasts).map(|id| self.size_of(*id, node)))
    }

    /// Whether a stay of a job on a node until then leaves each date its cores and memory.
    pub(super) fn leaves_room(
        &self,
        id: JobId,
        job: &Job,
        (node_id, node): (NodeId, &Node),
        wait: Span,
    ) -> bool {
        let over =
            self.now.plus(wait).plus(self.state.meta.settings.start_limit).plus(self.protection(id, job));
        let own = self.own_until(id, &node.pool, node_id);
        let (opens, seats, stays) = (self.now, Vec::new(), Vec::new());
        let spot = Spot { id: node_id, node: node.clone(), opens, seats, stays };
        let crossed = self
            .dates_on(node_id, Some(id))
            .into_iter()
            .filter(|(_, promise)| promise.at < over && own.is_none_or(|own| promise.at < own));
        job.terms.tier == Tier::Free
            || self.leave_room((id, job), &spot, crossed.map(|(_, promise)| promise.at))
    }

    fn leave_room(&self, (id, job): (JobId, &Job), spot: &Spot, at: impl Iterator<Item = Timestamp>) -> bool {
        let own = size(job, &spot.node);
        let taken = |at| [self.lasting(&spot.node, at), self.dated(spot, at, Some(id)), own];
        at.into_iter().all(|at| fit(taken(at).into_iter(), whole(&spot.node)))
    }

    /// Whether a part of a job could be on a node at a time, and stay.
    fn is_free(&self, (id, job): (JobId, &Job), spot: &Spot, at: Timestamp) -> bool {
        let until = self.until(id, job, at);
        let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
        let free = spot.seats.iter().filter(|seat| seat.at <= at).count();
        if at < spot.opens || free < wanted || Self::is_no_good(&spot.node, at, until) {
            return false;
        }
        let stays = spot.stays.iter().filter(|(_, free)| free.is_none_or(|free| free > at));
        let stays = stays.map(|(by, _)| self.size_of(*by, &spot.node));
        let now = stays.chain([self.dated(spot, at, Some(id)), size(job, &spot.node)]);
        let crossed = self.dates_on(spot.id, Some(id)).into_iter().map(|(_, promise)| promise.at);
        let crossed = crossed.filter(|date| at <= *date && *date < until);
        fit(now, whole(&spot.node)) && self.leave_room((id, job), spot, crossed)
    }

    fn price(&self, set: &BTreeSet<AttemptId>) -> Cost {
        set.iter().fold([0; 4], |sum, id| {
            let cost = match self.attempt(*id) {
                Some(_) => self.cost(*id),
                None => self.cost_of_new(*id),
            };
            add(sum, cost)
        })
    }

    /// What taking would cost that was only decided: nothing but to start again.
    fn cost_of_new(&self, id: AttemptId) -> Cost {
        let (_, on, _) = self.starts.iter().find(|(job, ..)| *job == id.job).expect("it was decided");
        let job = self.state.jobs.get(&id.job).expect("a known job");
        let rate: u64 = on.iter().map(|(node, _)| self.rate(job, *node)).sum();
        let restart = job.progress.usual_restart(self.state.meta.settings.restart_guess).as_millis();
        let amount = u128::from(rate) * u128::from(restart) * (2 + u128::from(job.progress.preemptions)) / 2;
        let mut cost = [0; 4];
        cost[if job.terms.tier == Tier::Free { 2 } else { 0 } + usize::from(job.terms.resumable)] = amount;
        cost
    }

    /// The earliest time at which enough nodes of one cluster are free.
    fn earliest(&self, id: JobId, job: &Job, pool: &Name, issued_at: Timestamp) -> Option<Timestamp> {
        let spots = self.spots(id, job, pool, issued_at);
        let mut times: BTreeSet<Timestamp> = BTreeSet::new();
        for spot in &spots {
            times.extend(spot.seats.iter().map(|seat| seat.at));
            times.extend(spot.stays.iter().filter_map(|(_, free)| *free));
            times.extend(self.dates_on(spot.id, Some(id)).iter().map(|(_, promise)| promise.until));
            times.insert(spot.opens);
        }
        times.into_iter().filter(|at| self.now <= *at).find(|at| {
            let free = spots.iter().filter(|spot| self.is_free((id, job), spot, *at));
            is_enough(job, free.map(|spot| &spot.node))
        })
    }

    /// The nodes that could hold a part of the job, each with when its GPUs and cores are free.
    fn spots(&self, id: JobId, job: &Job, pool: &Name, issued_at: Timestamp) -> Vec<Spot> {
        let mut all = Vec::new();
        for (node_id, node) in self.state.nodes.iter() {
            let is_open = node.contact == Contact::Ready && node.cordon.is_none() && !node.is_draining();
            if node.pool != *pool || !is_open || self.is_barred(job, *node_id) || !self.could_hold(job, node)
            {
                continue;
            }
            let present = (0_u16..).map(Slot::new).zip(&node.gpus).filter(|(_, gpu)| gpu.is_present);
            let present: Vec<Slot> = present.map(|(slot, _)| slot).collect();
            let seats = of_type(job, node, &present).into_iter();
            let seats = seats.filter_map(|slot| self.seat(id, job, pool, (*node_id, slot), issued_at));
            let opens = node.backoff_until.unwrap_or(self.now);
            let stays = self.stays(id, job, pool, node, issued_at);
            all.push(Spot { id: *node_id, node: node.clone(), opens, seats: seats.collect(), stays });
        }
        all
    }

    /// Who is on a node or comes to it, and does not leave already; and when each is out of the job's way.
    fn stays(
        &self,
        id: JobId,
        job: &Job,
        pool: &Name,
        node: &Node,
        issued_at: Timestamp,
    ) -> Vec<(AttemptId, Option<Timestamp>)> {
        let here = node.gpus.iter().flat_map(|gpu| gpu.holder.into_iter().chain(gpu.next));
        let here: BTreeSet<AttemptId> = here.collect();
        let stays = here.into_iter().filter(|by| {
            let is_taken = self.starts.iter().any(|(_, _, takes)| takes.contains(by));
            let attempt = self.attempt(*by);
            !is_taken && attempt.is_none_or(|attempt| attempt.stop.is_none() && attempt.ended.is_none())
        });
        stays.map(|by| (by, self.judged(id, job, pool, by, issued_at).map(|(at, _)| at))).collect()
    }

    /// When a GPU is free for a job; none if nobody can say.
    fn seat(
        &self,
        id: JobId,
        job: &Job,
        pool: &Name,
        (node, slot): (NodeId, Slot),
        issued_at: Timestamp,
    ) -> Option<Seat> {
        let gpu = &self.state.nodes.get(&node)?.gpus[usize::from(slot.get())];
        let (at, from) = match gpu.next.or(gpu.holder) {
            None => (self.now, None),
            Some(by) => {
                let (at, leaves) = self.free_of(id, job, pool, (by, node, slot), issued_at)?;
                (at, (!leaves).then_some(by))
            }
        };
        // An earlier date has it until the protection of its job is over.
        let dates = self.state.dates.iter().filter(|((of, in_pool), _)| *of != id && in_pool == pool);
        let dates =
            dates.filter(|(_, date)| date.promise.slots_on(node).is_some_and(|slots| slots.contains(&slot)));
        match dates.map(|(_, date)| date.promise.until).max() {
            Some(until) if until > at => Some(Seat { slot, at: until, from: None }),
            Some(_) | None => Some(Seat { slot, at, from }),
        }
    }

    /// When an attempt's GPU is free for a job, and whether that is because it leaves.
    fn free_of(
        &self,
        id: JobId,
        job: &Job,
        pool: &Name,
        (by, node, slot): (AttemptId, NodeId, Slot),
        issued_at: Timestamp,
    ) -> Option<(Timestamp, bool)> {
        if let Some(attempt) = self.attempt(by) {
            attempt.placement_of(node, slot)?;
        }
        self.judged(id, job, pool, by, issued_at)
    }

    /// When an attempt is out of a job's way, and whether that is because it leaves.
    fn judged(
        &self,
        id: JobId,
        job: &Job,
        pool: &Name,
        by: AttemptId,
        issued_at: Timestamp,
    ) -> Option<(Timestamp, bool)> {
        let settings = &self.state.meta.settings;
        let theirs = self.state.jobs.get(&by.job)?;
        if self.starts.iter().any(|(_, _, takes)| takes.contains(&by)) {
            return Some((self.now.plus(theirs.terms.grace), true));
        }
        if let Some(attempt) = self.attempt(by) {
            if let Some(at) = attempt.leaves_by() {
                return Some((at.max(self.now), true));
            }
            if !self.is_heard(attempt) {
                return None;
            }
        }
        let over = self.over(by)?;
        if theirs.terms.tier == Tier::Free {
            return Some((self.now, false));
        }
        let end = over.max(self.now);
        let within = issued_at.plus(settings.date_margin.min(settings.cap)).max(end);
        let cap = issued_at.plus(settings.cap).max(end);
        let place = |id, job: &Job| (job.terms.turn, job.submitted_at, id);
        let at = match job.budget == theirs.budget {
            true if theirs.terms.turn > job.terms.turn => end,
            true if place(by.job, theirs) > place(id, job) => within,
            true => cap,
            false if self.is_behind(job.budget, pool) && !self.is_behind(theirs.budget, pool) => cap,
            false if self.is_below(job.budget, theirs.budget, pool) => end,
            false if self.is_less(job.budget, theirs.budget, pool) => within,
            false => cap,
        };
        Some((at, false))
    }

    /// When an attempt is past its protection at the latest; the beginning of time in the free tier.
    fn over(&self, by: AttemptId) -> Option<Timestamp> {
        let theirs = self.state.jobs.get(&by.job)?;
        if theirs.terms.tier == Tier::Free {
            return Some(Timestamp::ZERO);
        }
        if let Some(attempt) = self.attempt(by) {
            let latest = attempt.start_by.plus(attempt.protection);
            return Some(attempt.started_at.map_or(latest, |at| at.plus(attempt.protection)));
        }
        let start = self.starts.iter().find(|(job, ..)| *job == by.job)?;
        let wait = self.latest_go(start).plus(self.state.meta.settings.start_limit);
        Some(wait.plus(self.protection(by.job, theirs)))
    }

    fn is_less(
        &self,
        mine: scheduler_core::id::BudgetId,
        theirs: scheduler_core::id::BudgetId,
        pool: &Name,
    ) -> bool {
        let (mine, theirs) = (self.path(mine), self.path(theirs));
        let parted = mine.iter().zip(&theirs).find(|(a, b)| a != b);
        parted.is_some_and(|(mine, theirs)| {
            let used = |id| self.used(id, pool, Tier::Funded);
            used(*mine).cmp_use(&used(*theirs)).is_lt()
        })
    }

    /// When a job that was decided to start has its GPUs at the latest.
    fn latest_go(&self, (id, on, takes): &(JobId, On, Vec<AttemptId>)) -> Timestamp {
        let job = self.state.jobs.get(id).expect("a known job");
        let mut latest = self.now;
        for victim in takes {
            let has_go = self.attempt(*victim).is_some_and(|attempt| attempt.go_at.is_some());
            let job = self.state.jobs.get(&victim.job).expect("it has a job");
            latest = if has_go { latest.max(self.now.plus(job.terms.grace)) } else { latest };
        }
        for (node, slots) in on {
            for slot in slots {
                let holder = self.holder(*node, *slot).and_then(|holder| self.attempt(holder));
                let leaves = holder.filter(|attempt| attempt.placement_of(*node, *slot).is_some());
                latest = leaves.and_then(Attempt::leaves_by).map_or(latest, |at| latest.max(at));
            }
            // Its cores may be with others than its GPUs.
            let record = self.state.nodes.get(node).expect("a known node");
            let here: BTreeSet<AttemptId> = record.gpus.iter().filter_map(|gpu| gpu.holder).collect();
            let has_go = |id: &&AttemptId| self.attempt(**id).is_some_and(|attempt| attempt.go_at.is_some());
            let there = here.iter().filter(has_go).map(|id| self.size_of(*id, record));
            if !fit(there.chain([size(job, record)]), whole(record)) {
                let leave = here.iter().filter_map(|id| self.attempt(*id)?.leaves_by());
                latest = leave.fold(latest, Timestamp::max);
            }
        }
        latest
    }

    /// Until when a job may stay on a node of its own date: whoever has one for the time after gives way to it.
    fn own_until(&self, id: JobId, pool: &Name, node: NodeId) -> Option<Timestamp> {
        let own = self.state.dates.get(&(id, pool.clone()))?;
        own.promise.slots_on(node).map(|_| own.promise.until)
    }

    /// Whether a GPU is another's by its date while the job would be protected there, if it has its GPUs after `wait`.
    pub(super) fn is_reserved(&self, id: JobId, job: &Job, at: (NodeId, Slot), wait: Span) -> bool {
        let settings = &self.state.meta.settings;
        if job.terms.tier == Tier::Free || self.state.dates.is_empty() {
            return false;
        }
        let over = self.now.plus(wait).plus(settings.start_limit).plus(self.protection(id, job));
        let pool = &self.state.nodes.get(&at.0).expect("a known node").pool;
        let own = self.own_until(id, pool, at.0);
        self.state.dates.iter().any(|((of, in_pool), date)| {
            *of != id
                && in_pool == pool
                && date.promise.slots_on(at.0).is_some_and(|slots| slots.contains(&at.1))
                && date.promise.at < over
                && own.is_none_or(|own| date.promise.at < own)
        })
    }

    /// Takes what the planner says of dates before its decision of that number, unjudged.
    pub(super) fn take_steps(&mut self, plan: &scheduler_core::decision::Plan, number: usize) {
        let before = plan.dates.iter().filter(|step| usize::from(step.after) == number);
        for DateStep { job, pool, step, .. } in before {
            let key = (*job, pool.clone());
            let was = self.state.dates.get(&key).cloned();
            match step {
                Step::Issue(promise) | Step::Move { to: promise, .. } => {
                    let decision = DecisionId { index: LogIndex::new(u64::MAX), n: 0 };
                    let issued_at = was.map_or(self.now, |date| date.issued_at);
                    let promise = promise.clone();
                    let date = Date { issued_at, decision, promise, moved: 0, moves: Vec::new() };
                    self.state.dates.insert(key, date);
                }
                Step::Drop { .. } => drop(self.state.dates.remove(&key)),
            }
        }
    }
}
