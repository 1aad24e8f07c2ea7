//! What dates reserve on a node, and which starts keep them: GPUs, and the cores and memory with them.
//!
//! A date's job is on its GPUs from the date until its protection is over at the latest. Whoever else starts there has
//! to be past its protection when the date comes, since the claim takes whatever nobody protects.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::date::Date;
use crate::id::{AttemptId, JobId, Name, NodeId, Slot};
use crate::job::{Attempt, Job};
use crate::lifecycle::need::{Need, attempts_on, need};
use crate::lifecycle::place::protection;
use crate::node::Node;
use crate::spec::Tier;
use crate::state::State;
use crate::unit::{Bytes, Span, Timestamp};

/// Returns when a live attempt is past its protection at the latest; the beginning of time in the free tier.
#[must_use]
pub fn over_by(attempt: &Attempt) -> Timestamp {
    match attempt.tier {
        Tier::Free => Timestamp::ZERO,
        Tier::Funded => {
            attempt.protected_until().unwrap_or_else(|| attempt.start_by.plus(attempt.protection))
        }
    }
}

/// Returns the time from a funded job's latest go to the certain end of its protection; none in the free tier.
#[must_use]
pub fn certain(state: &State, id: JobId, job: &Job) -> Option<Span> {
    let is_funded = job.terms.tier == Tier::Funded;
    is_funded.then(|| state.meta.settings.start_limit.plus(protection(state, id, job)))
}

/// Returns when a job that starts at a date is past its protection at the latest.
#[must_use]
pub fn claimed_until(state: &State, id: JobId, job: &Job, at: Timestamp) -> Timestamp {
    let certain = certain(state, id, job).unwrap_or(Span::ZERO);
    at.plus(state.meta.settings.longest_grace()).plus(certain)
}

/// What is reserved on one node.
#[derive(Debug, Clone, Default)]
pub struct Reserved {
    parts: Vec<Part>,
}

/// One date's part of a node.
#[derive(Debug, Clone)]
pub struct Part {
    /// Whose.
    pub job: JobId,
    /// The date.
    pub at: Timestamp,
    /// When its job is past its protection at the latest.
    pub until: Timestamp,
    /// The GPUs.
    pub slots: Vec<Slot>,
    /// The cores and memory.
    pub need: Need,
    /// Those of whoever may be protected beyond the date.
    pub lasting: Need,
}

/// Somebody's time on a node.
#[derive(Debug, Clone, Copy)]
pub struct Stay {
    /// Whose.
    pub job: JobId,
    /// Its cores and memory.
    pub need: Need,
    /// Its begin.
    pub from: Timestamp,
    /// The end of its protection at the latest.
    pub until: Timestamp,
}

impl Reserved {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns each date's part.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter()
    }

    /// Reserves a part.
    pub fn add(&mut self, part: Part) {
        self.parts.push(part);
    }

    /// Takes what is reserved for a job out.
    pub fn remove(&mut self, job: JobId) {
        self.parts.retain(|part| part.job != job);
    }

    /// Whether a stay may have a GPU, as far as dates are concerned.
    #[must_use]
    pub fn lets(&self, slot: Slot, stay: &Stay) -> bool {
        self.crossed(stay).all(|part| !part.slots.contains(&slot))
    }

    /// Whether a stay leaves each date that comes while it lasts its cores and memory, of a node that has `whole`.
    #[must_use]
    pub fn has_room(&self, whole: Need, stay: &Stay) -> bool {
        self.crossed(stay).filter(|part| stay.from <= part.at).all(|part| {
            let dates = self.need_at(part.at, stay.job);
            fits(both(both(part.lasting, dates), stay.need), whole)
        })
    }

    /// Returns the cores and memory of the dates' jobs at a moment, as if each stayed as long as it may; not those of one
    /// job.
    #[must_use]
    pub fn need_at(&self, at: Timestamp, without: JobId) -> Need {
        let there = self.parts.iter().filter(|part| part.job != without && part.at <= at && at < part.until);
        there.fold(Need::default(), |sum, part| both(sum, part.need))
    }

    /// Somebody starts on the node who may be protected until then.
    pub fn starts(&mut self, need: Need, until: Timestamp) {
        for part in self.parts.iter_mut().filter(|part| part.at < until) {
            part.lasting = both(part.lasting, need);
        }
    }

    /// Returns the parts that a stay would not leave alone. A date that was issued for the time after another one's job
    /// gives way to it, however late that one comes.
    fn crossed<'s>(&'s self, stay: &'s Stay) -> impl Iterator<Item = &'s Part> + 's {
        let own = self.parts.iter().find(|part| part.job == stay.job);
        self.parts.iter().filter(move |part| {
            part.job != stay.job
                && part.at < stay.until
                && stay.from < part.until
                && own.is_none_or(|own| part.at < own.until)
        })
    }
}

/// Returns what is reserved on a node.
#[must_use]
pub fn on_node(state: &State, id: NodeId, node: &Node) -> Reserved {
    let mut reserved = Reserved::default();
    for ((job, pool), date) in state.dates.iter() {
        if *pool == node.pool
            && let Some(slots) = date.promise.slots_on(id)
        {
            reserved.parts.extend(part(state, (*job, date), node, slots));
        }
    }
    reserved
}

/// Returns what is reserved in a pool, by node.
#[must_use]
pub fn in_pool(state: &State, pool: &Name) -> BTreeMap<NodeId, Reserved> {
    let mut reserved: BTreeMap<NodeId, Reserved> = BTreeMap::new();
    for ((job, _), date) in state.dates.iter().filter(|((_, of), _)| of == pool) {
        for (id, slots) in &date.promise.on {
            let part = state.nodes.get(id).and_then(|node| part(state, (*job, date), node, slots));
            reserved.entry(*id).or_default().parts.extend(part);
        }
    }
    reserved
}

fn part(state: &State, (id, date): (JobId, &Date), node: &Node, slots: &[Slot]) -> Option<Part> {
    let job = state.jobs.get(&id)?;
    let (at, until) = (date.promise.at, date.promise.until);
    Some(Part {
        job: id,
        at,
        until,
        slots: slots.to_vec(),
        need: need(&job.terms.shape, node),
        lasting: lasting(state, node, at),
    })
}

/// Returns the cores and memory of a node that are with attempts which may be protected beyond a moment.
#[must_use]
pub fn lasting(state: &State, node: &Node, at: Timestamp) -> Need {
    let mut sum = Need::default();
    for id in attempts_on(node) {
        let lasts = |attempt: &Attempt| !attempt.is_leaving() && at < over_by(attempt);
        if state.attempts.get(&id).is_some_and(lasts) {
            sum = both(sum, of(state, id, node));
        }
    }
    sum
}

fn of(state: &State, id: AttemptId, node: &Node) -> Need {
    state.jobs.get(&id.job).map_or_else(Need::default, |job| need(&job.terms.shape, node))
}

/// Returns the cores and memory of a node.
#[must_use]
pub fn whole(node: &Node) -> Need {
    node.facts.as_ref().map_or_else(Need::default, |facts| Need { cpus: facts.cpus, memory: facts.memory })
}

/// Returns the sum of two needs.
#[must_use]
pub fn both(one: Need, other: Need) -> Need {
    Need {
        cpus: one.cpus.saturating_add(other.cpus),
        memory: Bytes::new(one.memory.get().saturating_add(other.memory.get())),
    }
}

/// Whether a need fits in another.
#[must_use]
pub fn fits(need: Need, whole: Need) -> bool {
    need.cpus <= whole.cpus && need.memory <= whole.memory
}
