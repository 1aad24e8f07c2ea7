//! The machine itself: events in, effects out.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::contact::{Contacts, Taken};
use super::facts::{Fact, From, Outbox};
use super::planning::Planning;
use super::saves::Saves;
use super::sends::Sends;
use super::ticks::Ticks;
use super::{Effect, Event, Session, Ticket};
use crate::agent::Report;
use crate::command::{Command, Saved};
use crate::decision::Plan;
use crate::id::{LogIndex, NodeId, ReplicaId, Term};
use crate::node::{Contact, Facts};
use crate::plan::Links;
use crate::principal::Actor;
use crate::state::{State, TimeJump};
use crate::unit::Timestamp;

/// One replica while it leads, in one term. Its shell drops it when it leads no more.
#[derive(Debug)]
pub struct Leader {
    replica: ReplicaId,
    term: Term,
    contacts: Contacts,
    outbox: Outbox,
    facts_ticket: Option<Ticket>,
    planning: Planning,
    sends: Sends,
    saves: Saves,
    ticks: Ticks,
    tickets: u64,
    armed: Option<Timestamp>,
    /// Up to which entry changes of state were looked at.
    seen: LogIndex,
    /// The last step of time that was taken into account.
    jump: Option<TimeJump>,
}

impl Leader {
    /// Begins to lead in `term`, with nothing but the state; `now` is cluster time.
    #[must_use]
    pub fn start(state: &State, replica: ReplicaId, term: Term, now: Timestamp) -> (Self, Vec<Effect>) {
        let mut leader = Self {
            replica,
            term,
            contacts: Contacts::new(now),
            outbox: Outbox::default(),
            facts_ticket: None,
            planning: Planning::new(term, state.meta.settings.debounce),
            sends: Sends::new(state),
            saves: Saves::default(),
            ticks: Ticks::new(state),
            tickets: 0,
            armed: None,
            seen: state.meta.index,
            jump: state.meta.time_jump,
        };
        let mut effects = Vec::new();
        leader.go_on(state, now, &mut effects);
        (leader, effects)
    }

    /// Returns since when a change that could let somebody start waits for a round that says whether anybody does: a
    /// moment ago on a leader that is well.
    #[must_use]
    pub fn undecided_since(&self) -> Option<Timestamp> {
        self.planning.undecided_since()
    }

    /// Takes one event. `state` is what this replica has applied, never older than what the event tells of; what is new in
    /// it is taken with whatever event it first comes with, so that no change waits for a word of its own.
    #[must_use]
    pub fn handle(&mut self, state: &State, event: Event, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        if state.meta.index > self.seen || matches!(event, Event::Applied { .. }) {
            self.seen = state.meta.index;
            self.applied(state, now, &mut effects);
        }
        match event {
            Event::Applied { .. } => {}
            Event::LinkUp { node, session } => {
                self.contacts.up(node, session, now);
                self.sends.forget(node);
            }
            Event::LinkDown { node, session } => {
                if self.contacts.down(node, session) {
                    self.planning.changed(now);
                }
            }
            Event::Beat { node } => self.heard(state, node, now),
            Event::Reports { node, session, seq, reports } => {
                self.heard(state, node, now);
                self.reports(node, session, seq, reports, &mut effects);
            }
            Event::Facts { node, session, facts } => {
                self.heard(state, node, now);
                self.facts(state, node, session, facts, now, &mut effects);
            }
            Event::Saves { node, session, saves } => {
                self.heard(state, node, now);
                self.saves(state, node, session, &saves, now);
            }
            Event::Planned(plan) => self.planned(plan, &mut effects),
            Event::Committed { ticket } => self.committed(state, ticket, now, &mut effects),
            Event::Refused { ticket } => self.refused(ticket, now),
            Event::Woke => self.armed = None,
        }
        self.go_on(state, now, &mut effects);
        effects
    }

    /// Returns the nodes that may get new work, and the checkpoints that are newer than the committed ones: what an
    /// explanation at the leader goes by.
    #[must_use]
    pub fn links(&self, state: &State, now: Timestamp) -> Links {
        self.contacts.live(state, now).with_saves(self.saves.newest())
    }

    fn saves(&mut self, state: &State, node: NodeId, session: Session, saves: &[Saved], now: Timestamp) {
        if self.contacts.is_current(node, session) {
            saves.iter().for_each(|said| self.saves.note(state, node, said, now));
        }
    }

    fn heard(&mut self, state: &State, node: NodeId, now: Timestamp) {
        let was_silent = self.contacts.is_silent(node, state, now);
        self.contacts.heard(node, now);
        if was_silent {
            self.contacts.look_now(now);
            self.planning.changed(now);
        }
    }

    fn applied(&mut self, state: &State, now: Timestamp, effects: &mut Vec<Effect>) {
        if let Some(jump) = state.meta.time_jump.filter(|jump| self.jump != Some(*jump)) {
            self.contacts.pass_over(jump.span());
            self.jump = Some(jump);
        }
        self.planning.changed(now);
        self.ticks.applied(state);
        for node in self.sends.touched(state) {
            if self.contacts.is_known(node) && self.sends.is_due(state, node) {
                effects.push(Effect::Send { node });
            }
        }
    }

    fn reports(
        &mut self,
        node: NodeId,
        session: Session,
        seq: u64,
        reports: Vec<Report>,
        effects: &mut Vec<Effect>,
    ) {
        match self.contacts.reports(node, session, seq) {
            Taken::Ignored => {}
            Taken::TooMany => effects.push(Effect::Close { node, session }),
            Taken::New => self.outbox.push(Fact {
                actor: Actor::Agent(node),
                command: Command::Reports { node, reports },
                from: From::Reports { node, session, seq },
            }),
        }
    }

    fn facts(
        &mut self,
        state: &State,
        node: NodeId,
        session: Session,
        facts: Facts,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if !self.contacts.is_current(node, session) {
            return;
        }
        let is_same = state
            .nodes
            .get(&node)
            .is_some_and(|record| record.facts.as_ref() == Some(&facts) && record.contact != Contact::Joined);
        if is_same && !self.outbox.has_facts_of(node) {
            self.known(state, node, session, now, effects);
            return;
        }
        self.outbox.push(Fact {
            actor: Actor::Agent(node),
            command: Command::NodeFacts { node, facts },
            from: From::Facts { node, session },
        });
    }

    /// The facts of a connection's hello are committed: the node gets its set, and may get new work.
    fn known(
        &mut self,
        state: &State,
        node: NodeId,
        session: Session,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if !self.contacts.known(node, session) {
            return;
        }
        self.contacts.look_now(now);
        self.planning.changed(now);
        self.sends.forget(node);
        if self.sends.is_due(state, node) {
            effects.push(Effect::Send { node });
        }
    }

    fn planned(&mut self, plan: Plan, effects: &mut Vec<Effect>) {
        let ticket = Ticket { term: self.term, number: self.tickets + 1 };
        if let Some(plan) = self.planning.planned(plan, ticket) {
            self.tickets += 1;
            effects.push(Effect::Propose { ticket, command: Box::new(Command::Adopt(plan)) });
        }
    }

    fn committed(&mut self, state: &State, ticket: Ticket, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.planning.committed(ticket, now) || self.facts_ticket != Some(ticket) {
            return;
        }
        self.facts_ticket = None;
        for fact in self.outbox.committed() {
            match fact.from {
                From::Reports { node, session, seq } => {
                    if self.contacts.acked(node, session) {
                        effects.push(Effect::Ack { node, session, seq });
                    }
                }
                From::Facts { node, session } => self.known(state, node, session, now, effects),
                From::Leader => {}
            }
        }
    }

    fn refused(&mut self, ticket: Ticket, now: Timestamp) {
        if self.planning.refused(ticket, now) {
            return;
        }
        if self.facts_ticket == Some(ticket) {
            self.facts_ticket = None;
            self.outbox.refused(now);
        }
    }

    fn propose_about(&mut self, command: Command) {
        self.outbox.push(Fact { actor: Actor::Replica(self.replica), command, from: From::Leader });
    }

    /// Does whatever is due, and arms the timer for what is due next.
    fn go_on(&mut self, state: &State, now: Timestamp, effects: &mut Vec<Effect>) {
        if self.contacts.look_at().is_some_and(|at| at <= now) {
            let verdict = self.contacts.look(state, now);
            let unreachable = verdict.unreachable.into_iter().map(|node| Command::NodeUnreachable { node });
            let back = verdict.back.into_iter().map(|node| Command::NodeBack { node });
            unreachable.chain(back).for_each(|command| self.propose_about(command));
        }
        for (node, command) in self.saves.take(state, now) {
            self.outbox.push(Fact { actor: Actor::Agent(node), command, from: From::Leader });
        }
        if self.ticks.take(state, now) {
            let ticket = self.next_ticket();
            effects.push(Effect::Propose { ticket, command: Box::new(Command::Batch(Vec::new())) });
        }
        if let Some(command) = self.outbox.take(now) {
            let ticket = self.next_ticket();
            self.facts_ticket = Some(ticket);
            effects.push(Effect::Propose { ticket, command: Box::new(command) });
        }
        let (contacts, saves) = (&self.contacts, &self.saves);
        let live = || contacts.live(state, now).with_saves(saves.newest());
        if let Some(links) = self.planning.begin(state, now, live) {
            self.saves.tidy(state);
            effects.push(Effect::Plan { view: Box::new(state.clone()), links, term: self.term });
        }
        let (silence, progress) = (self.contacts.look_at(), self.saves.due());
        let next = [silence, self.outbox.due(), self.planning.due(), progress, self.ticks.due()];
        let next = next.into_iter().flatten().min();
        if next != self.armed {
            effects.extend(next.map(Effect::WakeAt));
            self.armed = next;
        }
    }

    fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket { term: self.term, number: self.tickets }
    }
}
