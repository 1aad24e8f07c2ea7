//! One future: the state run forward until the job has its GPUs, or the time is over.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::draw::{Draw, For};
use super::lengths::{Lengths, done};
use crate::agent::{EndedBy, RankEvent, Report};
use crate::apply::{next_change, run};
use crate::command::{Command, Entry};
use crate::id::{AttemptId, JobId, LogIndex, NodeId, ReplicaId, Term};
use crate::job::{Attempt, Exit, Phase};
use crate::node::Contact;
use crate::plan::{Links, plan};
use crate::principal::Actor;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// What one thing said brings about at once: a rank starts when the one before it has left.
const ROUNDS_MAX: u32 = 8;
/// Plans in one moment: what the first set free the next may use.
const PLANS_MAX: u32 = 4;
/// Rights are judged again by time alone this often at least.
const LOOK: Span = Span::from_mins(15);

/// What a future is run with.
pub(super) struct Course<'a> {
    pub state: State,
    pub links: &'a Links,
    pub lengths: &'a Lengths,
    pub draw: Draw,
    pub job: JobId,
    pub term: Term,
    pub begins: Timestamp,
    pub until: Timestamp,
    /// When ranks end or leave, by attempt.
    ends: BTreeMap<(Timestamp, AttemptId), EndedBy>,
    known: BTreeMap<AttemptId, (Timestamp, EndedBy)>,
    /// How long each job runs in all.
    lengths_of: BTreeMap<JobId, Span>,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        state: State,
        (links, lengths): (&'a Links, &'a Lengths),
        (draw, job): (Draw, JobId),
        (begins, until): (Timestamp, Timestamp),
    ) -> Self {
        let term = state.meta.term;
        let (ends, known, lengths_of) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { state, links, lengths, draw, job, term, begins, until, ends, known, lengths_of }
    }

    /// Runs until the job has its GPUs; returns when, or none if it does not have them before the end.
    pub(super) fn run(mut self) -> Option<Timestamp> {
        let mut now = self.begins;
        self.look_at_all();
        loop {
            self.agents(now);
            for _ in 0..PLANS_MAX {
                let mut plan = plan(&self.state, self.links, now, self.term);
                if plan.decisions.is_empty() && plan.dates.is_empty() {
                    break;
                }
                plan.term = self.term;
                let touched: BTreeSet<AttemptId> = touched(&plan.decisions);
                self.apply(now, Actor::Replica(ReplicaId::new(1)), Command::Adopt(plan));
                touched.into_iter().for_each(|id| self.look_at(id, now));
                self.agents(now);
            }
            if let Some(at) = self.started() {
                return Some(at);
            }
            now = self.next(now)?;
        }
    }

    /// Returns the next moment at which anything happens: a step away at least, but for what is promised to the moment,
    /// dates and who leaves for somebody. None if the time is over.
    fn next(&self, now: Timestamp) -> Option<Timestamp> {
        let end = self.ends.keys().next().map(|(at, _)| *at);
        let events = [end, next_change(&self.state), Some(now.plus(LOOK))];
        let next = events.into_iter().flatten().min()?.max(now.plus(step(now.since(self.begins))));
        let dates = self.state.dates.values().map(|date| date.promise.at);
        let leave = self.ends.iter().filter(|(_, by)| **by == EndedBy::Notice).map(|((at, _), _)| *at);
        let exact = dates.chain(leave).filter(|at| *at > now).min();
        let next = exact.map_or(next, |exact| exact.min(next));
        (next <= self.until).then_some(next)
    }

    fn started(&self) -> Option<Timestamp> {
        let job = self.state.jobs.get(&self.job)?;
        match job.phase {
            Phase::Live(no) => self.state.attempts.get(&AttemptId { job: self.job, no })?.go_at,
            // It was over before anybody looked.
            Phase::Waiting { .. } | Phase::Held { .. } | Phase::Ended { .. } => {
                job.past.iter().filter_map(|past| past.go_at).find(|at| *at >= self.begins)
            }
        }
    }

    fn look_at_all(&mut self) {
        let ids: Vec<AttemptId> = self.state.attempts.keys().copied().collect();
        ids.into_iter().for_each(|id| self.look_at(id, self.begins));
    }

    /// Brings what is to come of an attempt up to what state says of it.
    fn look_at(&mut self, id: AttemptId, now: Timestamp) {
        if let Some((at, _)) = self.known.remove(&id) {
            self.ends.remove(&(at, id));
        }
        let Some((at, by)) = self.coming(id, now) else { return };
        self.ends.insert((at, id), by);
        self.known.insert(id, (at, by));
    }

    /// Returns when an attempt's processes end, and by what; none if nobody hears of it, or it has no process yet.
    fn coming(&mut self, id: AttemptId, now: Timestamp) -> Option<(Timestamp, EndedBy)> {
        let attempt = self.state.attempts.get(&id)?;
        let job = self.state.jobs.get(&id.job)?;
        let is_heard =
            |node: NodeId| self.state.nodes.get(&node).is_some_and(|node| node.contact == Contact::Ready);
        if !attempt.placements.iter().all(|placement| is_heard(placement.node)) {
            return None;
        }
        if attempt.ended.is_some() {
            return Some((now, EndedBy::Itself));
        }
        if let Some(stop) = &attempt.stop {
            let used = self.draw.part(id.job, For::Grace(id.no.get()), stop.grace);
            return Some((stop.at.plus(used).max(now), EndedBy::Notice));
        }
        let started = attempt.started_at?;
        let before = done(job);
        let length = match self.lengths_of.get(&id.job) {
            Some(length) => *length,
            None => {
                let so_far = before.plus(now.since(started));
                let length = self.lengths.draw(self.draw, (id.job, job), so_far);
                self.lengths_of.insert(id.job, length);
                length
            }
        };
        let left = Span::from_millis(length.as_millis().saturating_sub(before.as_millis()));
        Some((started.plus(left).max(now), EndedBy::Itself))
    }

    /// The agents do what they were told, and say what happened, until nothing more does.
    fn agents(&mut self, now: Timestamp) {
        let left: Vec<AttemptId> =
            self.state.attempts.iter().filter_map(|(id, a)| self.news(*id, a)).collect();
        left.into_iter().for_each(|id| self.look_at(id, now));
        for _ in 0..ROUNDS_MAX {
            let mut said: BTreeMap<NodeId, Vec<Report>> = BTreeMap::new();
            let mut about: BTreeSet<AttemptId> = BTreeSet::new();
            while let Some((&(at, id), &by)) = self.ends.first_key_value().filter(|((at, _), _)| *at <= now) {
                self.ends.remove(&(at, id));
                self.known.remove(&id);
                about.insert(id);
                if let Some(attempt) = self.state.attempts.get(&id) {
                    leave(&mut said, (id, attempt), at.max(self.begins), by);
                }
            }
            let nodes = &self.state.nodes;
            let hears = |node: NodeId| nodes.get(&node).is_some_and(|node| node.contact == Contact::Ready);
            for (id, attempt) in self.state.attempts.iter().filter(|(_, a)| a.started_at.is_none()) {
                let is_heard = attempt.placements.iter().all(|placement| hears(placement.node));
                if is_heard && begin(&mut said, (*id, attempt), now) {
                    about.insert(*id);
                }
            }
            if said.is_empty() {
                return;
            }
            let command = |(node, reports)| (Actor::Agent(node), Command::Reports { node, reports });
            let items: Vec<(Actor, Command)> = said.into_iter().map(command).collect();
            self.report(now, items);
            about.into_iter().for_each(|id| self.look_at(id, now));
        }
    }

    /// Returns an attempt that was told to leave, or ended, since it was looked at: by a drain, or a limit.
    fn news(&self, id: AttemptId, attempt: &Attempt) -> Option<AttemptId> {
        let is_over = attempt.stop.is_some() || attempt.ended.is_some();
        let is_known = self.known.get(&id).is_some_and(|(_, by)| *by == EndedBy::Notice);
        (is_over && !is_known).then_some(id)
    }

    fn report(&mut self, now: Timestamp, items: Vec<(Actor, Command)>) {
        for (actor, command) in items {
            self.apply(now, actor, command);
        }
    }

    fn apply(&mut self, now: Timestamp, actor: Actor, command: Command) {
        let index = LogIndex::new(self.state.meta.index.get().saturating_add(1));
        let entry = Entry { time: now, actor, via: None, request: None, command };
        // What is refused changes nothing, and a future goes on without it.
        let _ = run(&mut self.state, index, self.term, &entry);
    }
}

/// Ranks whose GPUs are with them get ready or start; says whether any did.
fn begin(
    said: &mut BTreeMap<NodeId, Vec<Report>>,
    (id, attempt): (AttemptId, &Attempt),
    now: Timestamp,
) -> bool {
    if attempt.ended.is_some() || attempt.stop.is_some() && attempt.go_at.is_none() {
        return false;
    }
    let mut any = false;
    for placement in &attempt.placements {
        let event = match attempt.go_at {
            Some(_) if placement.started_at.is_none() && placement.exited.is_none() => RankEvent::Started,
            None if placement.ready_at.is_none() && attempt.placements.len() > 1 => RankEvent::Ready,
            Some(_) | None => continue,
        };
        let report = Report { attempt: id, rank: placement.rank, at: now, event };
        said.entry(placement.node).or_default().push(report);
        any = true;
    }
    any
}

/// All ranks end at a moment, and nothing is left of them.
fn leave(
    said: &mut BTreeMap<NodeId, Vec<Report>>,
    (id, attempt): (AttemptId, &Attempt),
    at: Timestamp,
    by: EndedBy,
) {
    for placement in &attempt.placements {
        let exited = RankEvent::Exited { exit: Exit::Code(0), by, saved_at: Some(at) };
        let reports = said.entry(placement.node).or_default();
        for event in [exited, RankEvent::Freed] {
            reports.push(Report { attempt: id, rank: placement.rank, at, event });
        }
    }
}

fn touched(decisions: &[crate::decision::Start]) -> BTreeSet<AttemptId> {
    let started = decisions.iter().map(|start| AttemptId { job: start.job, no: start.attempt });
    let taken = decisions.iter().flat_map(|start| &start.takes).map(|take| take.attempt);
    started.chain(taken).collect()
}

/// How far moments are apart at least: the farther away, the coarser.
fn step(ahead: Span) -> Span {
    match ahead {
        ahead if ahead < Span::from_mins(30) => Span::from_secs(30),
        ahead if ahead < Span::from_hours(2) => Span::from_mins(2),
        ahead if ahead < Span::from_hours(12) => Span::from_mins(5),
        _ => Span::from_mins(15),
    }
}
