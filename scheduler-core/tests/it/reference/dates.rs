//! Dates, as DESIGN 6 has them: who gets one, for when, what keeps it, and what is taken at it. Cores and memory come with
//! the GPUs here: whoever asks for more of them than that has no date that this could judge.

use std::collections::BTreeSet;

use scheduler_core::date::{Date, Promise};
use scheduler_core::decision::{DateStep, Step};
use scheduler_core::id::{AttemptId, DecisionId, JobId, LogIndex, Name, NodeId, Slot};
use scheduler_core::job::{Attempt, Job, Phase};
use scheduler_core::node::{Contact, Node};
use scheduler_core::spec::Tier;
use scheduler_core::unit::{Span, Timestamp};

use super::room::of_type;
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
struct Seat {
    slot: Slot,
    at: Timestamp,
    /// Who has to be taken for it then, if anybody.
    from: Option<AttemptId>,
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
            Self::is_no_good(node, at, until) || slots.iter().any(is_gone)
        })
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
        assert_eq!((promise.at, promise.until), (at, until), "the date of {id}");
        let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
        let free = self.free_nodes(id, job, pool, issued_at);
        let good: Vec<_> = free
            .iter()
            .filter(|(node, from, _)| {
                let record = self.state.nodes.get(node).expect("a known node");
                *from <= at && !Self::is_no_good(record, at, until)
            })
            .collect();
        for (node, slots) in &promise.on {
            let (.., seats) = good.iter().find(|(id, ..)| id == node).expect("a node that is free by then");
            let is_free = |slot: &Slot| seats.iter().any(|seat| seat.slot == *slot && seat.at <= at);
            assert!(slots.len() == wanted && slots.iter().all(is_free), "{slots:?} of {node} for {id}");
        }
        if job.terms.shape.nodes == 1 {
            let least = good.iter().filter_map(|(_, _, seats)| self.least(seats, wanted, at)).min();
            let (node, slots) = &promise.on[0];
            let (.., seats) = good.iter().find(|(id, ..)| id == node).expect("it was just found");
            let taken = seats.iter().filter(|seat| slots.contains(&seat.slot)).filter_map(|seat| seat.from);
            let cost = self.price(&taken.collect());
            assert_eq!(Some(cost), least, "the date of {id} costs more than another");
        }
    }

    /// The least that enough GPUs of a node cost at a time.
    fn least(&self, seats: &[Seat], wanted: usize, at: Timestamp) -> Option<Cost> {
        let there: Vec<&Seat> = seats.iter().filter(|seat| seat.at <= at).collect();
        let open = there.iter().filter(|seat| seat.from.is_none()).count();
        let held: BTreeSet<AttemptId> = there.iter().filter_map(|seat| seat.from).collect();
        let held: Vec<AttemptId> = held.into_iter().collect();
        let gains = |set: &[AttemptId]| {
            there.iter().filter(|seat| seat.from.is_some_and(|from| set.contains(&from))).count()
        };
        let sets = super::subsets(&held).into_iter().filter(|set| open + gains(set) >= wanted);
        sets.map(|set| self.price(&set.into_iter().collect())).min()
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

    /// The earliest time at which enough nodes are free.
    fn earliest(&self, id: JobId, job: &Job, pool: &Name, issued_at: Timestamp) -> Option<Timestamp> {
        let wanted = usize::try_from(job.terms.shape.nodes).expect("few nodes");
        let free = self.free_nodes(id, job, pool, issued_at);
        let mut times: Vec<Timestamp> = free.iter().map(|(_, at, _)| *at).collect();
        times.sort();
        times.into_iter().find(|at| {
            let until = self.until(id, job, *at);
            let good = free.iter().filter(|(node, from, _)| {
                let node = self.state.nodes.get(node).expect("a known node");
                from <= at && !Self::is_no_good(node, *at, until)
            });
            good.count() >= wanted
        })
    }

    /// The nodes that could hold a part of the job, each with when it is free, and when each of its GPUs is.
    fn free_nodes(
        &self,
        id: JobId,
        job: &Job,
        pool: &Name,
        issued_at: Timestamp,
    ) -> Vec<(NodeId, Timestamp, Vec<Seat>)> {
        let wanted = usize::try_from(job.terms.shape.gpus_per_node.get()).expect("few GPUs");
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
            let seats: Vec<Seat> = seats.collect();
            let mut times: Vec<Timestamp> = seats.iter().map(|seat| seat.at).collect();
            times.sort();
            if let Some(at) = times.get(wanted - 1) {
                let at = (*at).max(node.backoff_until.unwrap_or(self.now));
                all.push((*node_id, at, seats));
            }
        }
        all
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
        let settings = &self.state.meta.settings;
        let theirs = self.state.jobs.get(&by.job)?;
        if self.starts.iter().any(|(_, _, takes)| takes.contains(&by)) {
            return Some((self.now.plus(theirs.terms.grace), true));
        }
        let over = match self.attempt(by) {
            Some(attempt) => {
                attempt.placement_of(node, slot)?;
                if let Some(at) = attempt.leaves_by() {
                    return Some((at.max(self.now), true));
                }
                if !self.is_heard(attempt) {
                    return None;
                }
                let latest = attempt.start_by.plus(attempt.protection);
                attempt.started_at.map_or(latest, |at| at.plus(attempt.protection))
            }
            None => {
                let start = self.starts.iter().find(|(job, ..)| *job == by.job)?;
                let wait = self.latest_go(start).plus(settings.start_limit);
                wait.plus(self.protection(by.job, theirs))
            }
        };
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
    fn latest_go(&self, (_, on, takes): &(JobId, On, Vec<AttemptId>)) -> Timestamp {
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
        }
        latest
    }

    /// Whether a GPU is another's by its date while the job would be protected there, if it has its GPUs after `wait`.
    pub(super) fn is_reserved(&self, id: JobId, job: &Job, at: (NodeId, Slot), wait: Span) -> bool {
        let settings = &self.state.meta.settings;
        if job.terms.tier == Tier::Free || self.state.dates.is_empty() {
            return false;
        }
        let over = self.now.plus(wait).plus(settings.start_limit).plus(self.protection(id, job));
        let pool = &self.state.nodes.get(&at.0).expect("a known node").pool;
        let own = self.state.dates.get(&(id, pool.clone())).map(|date| date.promise.until);
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
