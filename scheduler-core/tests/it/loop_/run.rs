//! The loop itself: one queue of what is to come, in virtual time.

use std::collections::BTreeMap;

use scheduler_core::agent::{self, full_set};
use scheduler_core::command::{Command, Outcome};
use scheduler_core::id::{NodeId, ReplicaId, Term};
use scheduler_core::leader::{Effect, Event, Leader, Session, Ticket};
use scheduler_core::plan::Links;
use scheduler_core::principal::Actor;
use scheduler_core::settings::Settings;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use super::machines::{Came, Local, Machine, Wire};
use crate::random::Random;
use crate::world::{BEGIN, REPLICA, World, planned};

const SIZES: [u32; 4] = [4, 4, 2, 2];

/// What is to come.
#[derive(Debug, Clone)]
pub enum Due {
    /// The log's answer to a proposal.
    Commit {
        ticket: Ticket,
        actor: Actor,
        command: Box<Command>,
    },
    Planned(Term, scheduler_core::decision::Plan),
    LeaderWakes(Term, Timestamp),
    Send(Term, NodeId),
    /// Something arrives at the leader, if the link is still there.
    Up(NodeId, u64, Event),
    /// Something arrives at an agent, if the link is still there.
    Down(NodeId, u64, agent::Event),
    Local {
        node: NodeId,
        boot: u32,
        life: u32,
        what: Local,
    },
    Connect(NodeId),
    StartAgent(NodeId),
    Beat(NodeId),
    /// All GPUs of a node answer again.
    Answers(NodeId),
    Person,
    Fault,
    Look,
}

pub struct Run {
    pub world: World,
    pub machines: BTreeMap<NodeId, Machine>,
    pub random: Random,
    pub seed: u64,
    /// Until then something goes wrong now and then.
    pub faults_until: Timestamp,
    pub people_until: Timestamp,
    pub adopted: u32,
    pub dropped: u32,
    /// Since when a plan would start somebody.
    pub could_since: Option<Timestamp>,
    pub leader: Leader,
    queue: BTreeMap<(Timestamp, u64), Due>,
    count: u64,
    sessions: u64,
    leader_wake: Option<Timestamp>,
    last_commit: Timestamp,
}

fn settings() -> Settings {
    let secs = Span::from_secs;
    Settings {
        allow_simulated: true,
        start_limit: secs(60),
        grace: secs(20),
        free_grace: secs(5),
        cancel_grace: secs(5),
        free_backoff: secs(10),
        free_backoff_max: secs(60),
        launch_backoff: secs(5),
        launch_backoff_max: secs(30),
        restart_guess: secs(20),
        ..Settings::default()
    }
}

impl Run {
    pub fn new(seed: u64, faults: Span) -> Self {
        let mut world = World::with(settings());
        let mut machines = BTreeMap::new();
        for (at, gpus) in SIZES.into_iter().enumerate() {
            let name = format!("n{at}");
            let node = world.node(&name, gpus);
            machines.insert(node, Machine::new(&name, gpus));
        }
        let (leader, effects) = Leader::start(&world.state, ReplicaId::new(1), world.term, world.now);
        let nodes: Vec<NodeId> = machines.keys().copied().collect();
        let mut run = Self {
            world,
            machines,
            random: Random::new(seed),
            seed,
            faults_until: BEGIN.plus(faults),
            people_until: BEGIN.plus(Span::from_mins(15)),
            adopted: 0,
            dropped: 0,
            could_since: None,
            leader,
            queue: BTreeMap::new(),
            count: 0,
            sessions: 0,
            leader_wake: None,
            last_commit: Timestamp::ZERO,
        };
        run.effects(effects);
        for node in nodes {
            run.at(Span::from_millis(1), Due::Connect(node));
            run.at(Span::from_secs(5), Due::Beat(node));
        }
        run.at(Span::from_secs(1), Due::Person);
        run.at(Span::from_secs(3), Due::Fault);
        run.at(Span::from_secs(1), Due::Look);
        run
    }

    pub fn now(&self) -> Timestamp {
        self.world.now
    }

    pub fn state(&self) -> &State {
        &self.world.state
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Lets time pass until then.
    pub fn until(&mut self, end: Timestamp) {
        while let Some((key, due)) = self.queue.pop_first() {
            if key.0 > end {
                self.queue.insert(key, due);
                break;
            }
            self.world.now = key.0;
            self.happen(due);
        }
        self.world.now = end;
    }

    pub fn at(&mut self, later: Span, due: Due) {
        self.at_time(self.now().plus(later), due);
    }

    fn at_time(&mut self, at: Timestamp, due: Due) {
        self.count += 1;
        self.queue.insert((at.max(self.world.now), self.count), due);
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Commit { ticket, actor, command } => self.commit(ticket, actor, *command),
            Due::Planned(term, plan) if term == self.world.term => self.lead(Event::Planned(plan)),
            Due::LeaderWakes(term, at) if term == self.world.term && self.leader_wake == Some(at) => {
                self.leader_wake = None;
                self.lead(Event::Woke);
            }
            Due::Send(term, node) if term == self.world.term => self.send(node),
            Due::Planned(..) | Due::LeaderWakes(..) | Due::Send(..) => {}
            Due::Up(node, session, event) => {
                if self.machines[&node].session == Some(session) {
                    self.lead(event);
                }
            }
            Due::Down(node, session, event) => {
                if self.machines[&node].session == Some(session) {
                    self.tell(node, event);
                }
            }
            Due::Local { node, boot, life, what } => self.local(node, (boot, life), what),
            Due::Connect(node) => self.connect(node),
            Due::StartAgent(node) => self.start_agent(node),
            Due::Beat(node) => {
                self.up(node, Event::Beat { node });
                self.at(Span::from_secs(5), Due::Beat(node));
            }
            Due::Answers(node) => self.hide(node, None),
            Due::Person => self.person(),
            Due::Fault => self.fault(),
            Due::Look => self.look(),
        }
    }

    // The leader and its log.

    /// Hands an event to the leader and does what it asks for.
    pub fn lead(&mut self, event: Event) {
        let effects = self.leader.handle(&self.world.state, event, self.world.now);
        self.effects(effects);
    }

    fn effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Plan { view, links, term } => self.think(&view, &links, term),
                Effect::Propose { ticket, command } => {
                    let actor = REPLICA;
                    let at = self.soon(20).max(self.last_commit);
                    self.last_commit = at;
                    self.at_time(at, Due::Commit { ticket, actor, command });
                }
                Effect::Send { node } => self.at(Span::from_millis(0), Due::Send(self.world.term, node)),
                Effect::Ack { node, session, seq } => {
                    if self.machines[&node].session == Some(session.get()) {
                        self.down(node, agent::Event::Acked { seq });
                    }
                }
                Effect::Close { node, .. } => self.cut(node),
                Effect::WakeAt(at) => {
                    self.leader_wake = Some(at);
                    self.at_time(at, Due::LeaderWakes(self.world.term, at));
                }
            }
        }
    }

    fn think(&mut self, view: &State, links: &Links, term: Term) {
        let made = planned(&mut self.world.known, view, links, self.world.now, term);
        let at = self.soon(40);
        self.at_time(at, Due::Planned(term, made));
    }

    fn soon(&mut self, most: u64) -> Timestamp {
        let later = 1 + self.random.below(most);
        self.now().plus(Span::from_millis(later))
    }

    fn commit(&mut self, ticket: Ticket, actor: Actor, command: Command) {
        if ticket.term != self.world.term {
            return;
        }
        let is_faulty = self.now() < self.faults_until && self.random.one_in(25);
        if is_faulty && self.random.one_in(2) {
            return self.lead(Event::Refused { ticket });
        }
        self.entry(actor, command);
        // Nobody knows that it was taken.
        let event = if is_faulty { Event::Refused { ticket } } else { Event::Committed { ticket } };
        self.lead(event);
    }

    /// Applies an entry, and tells the leader.
    pub fn entry(&mut self, actor: Actor, command: Command) {
        let answer = self.world.apply(actor, command);
        if let Ok(Outcome::Adopted { adopted, dropped }) = answer {
            self.adopted += adopted;
            self.dropped += u32::try_from(dropped.len()).expect("few");
        }
        self.lead(Event::Applied { index: self.world.state.meta.index });
    }

    /// Another replica leads; what the last one had proposed is in the log, or lost.
    pub fn change_leader(&mut self) {
        let is_pending = |due: &Due| matches!(due, Due::Commit { .. });
        let pending: Vec<_> =
            self.queue.iter().filter(|(_, due)| is_pending(due)).map(|(key, _)| *key).collect();
        let mut taken = self.random.below(3);
        for key in pending {
            let Some(Due::Commit { ticket, actor, command }) = self.queue.remove(&key) else { continue };
            if taken > 0 && ticket.term == self.world.term {
                taken -= 1;
                let _ = self.world.apply(actor, *command);
            }
        }
        let nodes: Vec<NodeId> = self.machines.keys().copied().collect();
        for node in nodes {
            self.lose_link(node);
        }
        self.world.term = Term::new(self.world.term.get() + 1);
        let _ = self.world.apply(REPLICA, Command::Batch(Vec::new()));
        let (leader, effects) =
            Leader::start(&self.world.state, ReplicaId::new(1), self.world.term, self.world.now);
        (self.leader, self.leader_wake, self.could_since) = (leader, None, None);
        self.effects(effects);
    }

    // Links.

    fn send(&mut self, node: NodeId) {
        if let Some(set) = full_set(&self.world.state, node) {
            self.down(node, agent::Event::Set(set));
        }
    }

    fn up(&mut self, node: NodeId, event: Event) {
        let at = self.soon(30).max(self.machines[&node].up);
        let machine = self.machines.get_mut(&node).expect("a known node");
        if let Some(session) = machine.session {
            machine.up = at;
            self.at_time(at, Due::Up(node, session, event));
        }
    }

    fn down(&mut self, node: NodeId, event: agent::Event) {
        let at = self.soon(30).max(self.machines[&node].down);
        let machine = self.machines.get_mut(&node).expect("a known node");
        if let Some(session) = machine.session {
            machine.down = at;
            self.at_time(at, Due::Down(node, session, event));
        }
    }

    fn connect(&mut self, node: NodeId) {
        let now = self.now();
        let machine = self.machines.get_mut(&node).expect("a known node");
        if machine.session.is_some() || machine.agent.is_none() {
            return;
        }
        if now < machine.away_until {
            let at = machine.away_until;
            return self.at_time(at, Due::Connect(node));
        }
        self.sessions += 1;
        machine.session = Some(self.sessions);
        let session = Session::new(self.sessions);
        self.lead(Event::LinkUp { node, session });
        self.tell_facts(node);
        self.tell(node, agent::Event::LinkUp);
    }

    fn tell_facts(&mut self, node: NodeId) {
        let machine = &self.machines[&node];
        if let Some(session) = machine.session.map(Session::new) {
            let facts = machine.facts();
            self.up(node, Event::Facts { node, session, facts });
        }
    }

    /// A GPU does not answer, or all do again.
    pub fn hide(&mut self, node: NodeId, hidden: Option<u32>) {
        if let Some(machine) = self.machines.get_mut(&node) {
            machine.hidden = hidden;
        }
        self.tell_facts(node);
    }

    fn lose_link(&mut self, node: NodeId) -> Option<u64> {
        let session = self.machines.get_mut(&node)?.session.take()?;
        self.tell(node, agent::Event::LinkDown);
        let later = Span::from_millis(50 + self.below(2_000));
        self.at(later, Due::Connect(node));
        Some(session)
    }

    /// A link breaks; both sides see it.
    pub fn cut(&mut self, node: NodeId) {
        if let Some(session) = self.lose_link(node) {
            self.lead(Event::LinkDown { node, session: Session::new(session) });
        }
    }

    // Machines.

    fn tell(&mut self, node: NodeId, event: agent::Event) {
        let now = self.now();
        let machine = self.machines.get_mut(&node).expect("a known node");
        let came = machine.tell(event, now, &mut self.random);
        self.came(node, came);
    }

    pub fn start_agent(&mut self, node: NodeId) {
        let now = self.now();
        let machine = self.machines.get_mut(&node).expect("a known node");
        if machine.agent.is_some() {
            return;
        }
        let came = machine.start_agent(now, &mut self.random);
        self.came(node, came);
        self.connect(node);
    }

    fn local(&mut self, node: NodeId, (boot, life): (u32, u32), what: Local) {
        let now = self.now();
        let fails = now < self.faults_until && self.random.one_in(15);
        let machine = self.machines.get_mut(&node).expect("a known node");
        let is_of_agent = matches!(what, Local::Looked(_) | Local::Wake(_));
        if machine.boot != boot || is_of_agent && machine.life != life {
            return;
        }
        let came = machine.happen(what, now, fails, &mut self.random);
        self.came(node, came);
    }

    fn came(&mut self, node: NodeId, came: Came) {
        let machine = &self.machines[&node];
        let (boot, life, session) = (machine.boot, machine.life, machine.session);
        for (at, what) in came.local {
            self.at_time(at, Due::Local { node, boot, life, what });
        }
        for wire in came.wire {
            let Some(session) = session.map(Session::new) else { continue };
            self.up(
                node,
                match wire {
                    Wire::Reports { seq, reports } => Event::Reports { node, session, seq, reports },
                    Wire::Saves(saves) => Event::Saves { node, session, saves },
                },
            );
        }
    }
}
