//! Leaders, agents and a log with everything that can go wrong between them, in random order.
//!
//! Whatever happens: no plan of another term is proposed, never two plans are under way, a batch of reports is answered
//! only after its entry is committed. And once nothing goes wrong any more, whoever can start runs, every batch is
//! answered, and every linked node was sent its set as it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use scheduler_core::agent::{Assignment, EndedBy, Order, RankEvent, Report, assignments};
use scheduler_core::apply::apply;
use scheduler_core::command::{Command, Entry};
use scheduler_core::decision::Plan;
use scheduler_core::id::{AttemptId, LogIndex, NodeId, Rank, Term};
use scheduler_core::job::Exit;
use scheduler_core::leader::{Effect, Event, Leader, Session, Ticket};
use scheduler_core::node::Contact;
use scheduler_core::plan::{Links, plan};
use scheduler_core::principal::Actor;
use scheduler_core::spec::Request;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use crate::random::Random;
use crate::world::{REPLICA, World, facts, person, request, submission};

/// An agent that does what its newest set says, and reports it until it is answered.
#[derive(Default)]
struct Agent {
    gpus: u32,
    session: Option<Session>,
    seq: u64,
    /// Batches without an answer, on this session.
    unanswered: BTreeMap<u64, Vec<Report>>,
    /// Reports without an answer, whatever the session.
    journal: Vec<Report>,
    set: Vec<Assignment>,
    running: BTreeSet<AttemptId>,
    done: BTreeSet<AttemptId>,
}

struct Cluster {
    state: State,
    index: u64,
    term: Term,
    now: Timestamp,
    leader: Leader,
    agents: BTreeMap<NodeId, Agent>,
    proposals: VecDeque<(Ticket, Command)>,
    /// The plan on its thread.
    thinking: Option<(State, Links, Term)>,
    /// Plans of leaders that are no more, which may still arrive.
    late: Vec<Plan>,
    adopting: Option<Ticket>,
    committed: BTreeSet<(NodeId, Timestamp)>,
    woke: Option<Timestamp>,
    sessions: u64,
    starts: usize,
}

impl Cluster {
    fn new(random: &mut Random) -> Self {
        let mut world = World::new();
        let mut agents = BTreeMap::new();
        for at in 0..1 + random.below(4) {
            let gpus = if at == 0 { 4 } else { *random.pick(&[1, 2, 4]) };
            let node = world.node(&format!("n{at}"), gpus);
            agents.insert(node, Agent { gpus, ..Agent::default() });
        }
        let term = Term::new(1);
        let (leader, _) = Leader::start(&world.state, replica(), term, world.now);
        Self {
            index: u64::try_from(world.log.len()).expect("a short log"),
            state: world.state,
            term,
            now: world.now,
            leader,
            agents,
            proposals: VecDeque::new(),
            thinking: None,
            late: Vec::new(),
            adopting: None,
            committed: BTreeSet::new(),
            woke: Some(world.now),
            sessions: 0,
            starts: 0,
        }
    }

    fn entry(&mut self, actor: Actor, command: Command) {
        self.index += 1;
        note_reports(&command, &mut self.committed);
        let entry = Entry { time: self.now, actor, via: None, request: None, command };
        // What is refused is refused on every replica; nothing here depends on the answer.
        let _ = apply(&mut self.state, LogIndex::new(self.index), self.term, &entry);
    }

    fn event(&mut self, event: Event) {
        for effect in self.leader.handle(&self.state, event, self.now) {
            self.effect(effect);
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Plan { view, links, term } => {
                assert_eq!(term, self.term, "a plan is made in the leader's own term");
                assert!(self.thinking.is_none() && self.adopting.is_none(), "one plan at a time");
                self.thinking = Some((*view, links, term));
            }
            Effect::Propose { ticket, command } => {
                if let Command::Adopt(plan) = &*command {
                    assert_eq!(plan.term, self.term, "no plan of another term is proposed");
                    assert_eq!(self.adopting.replace(ticket), None, "one plan at a time");
                    self.starts += plan.decisions.len();
                }
                self.proposals.push_back((ticket, *command));
            }
            Effect::Send { node } => {
                let set = assignments(&self.state, node);
                let agent = self.agents.get_mut(&node).expect("a known node");
                assert!(agent.session.is_some(), "a set is sent to a linked node");
                agent.set = set;
            }
            Effect::Ack { node, session, seq } => self.ack(node, session, seq),
            Effect::Close { node, .. } => panic!("nobody here floods: {node}"),
            Effect::WakeAt(at) => self.woke = Some(at),
        }
    }

    fn ack(&mut self, node: NodeId, session: Session, seq: u64) {
        let agent = self.agents.get_mut(&node).expect("a known node");
        assert_eq!(agent.session, Some(session), "an answer goes to the connection that asked");
        let reports = agent.unanswered.remove(&seq).expect("each batch is answered once");
        let is_first = agent.unanswered.keys().all(|later| *later > seq);
        assert!(is_first, "batches are answered in order");
        for report in &reports {
            assert!(self.committed.contains(&(node, report.at)), "an answer only after the commit");
        }
        agent.journal.retain(|report| !reports.contains(report));
    }

    /// The oldest proposal is answered.
    fn answer(&mut self, is_taken: bool) {
        let Some((ticket, command)) = self.proposals.pop_front() else { return };
        if self.adopting == Some(ticket) {
            self.adopting = None;
        }
        if is_taken {
            self.entry(REPLICA, command);
            self.event(Event::Committed { ticket });
        } else {
            self.event(Event::Refused { ticket });
        }
    }

    fn planned(&mut self) {
        if let Some((view, links, term)) = self.thinking.take() {
            self.event(Event::Planned(plan(&view, &links, self.now, term)));
        }
    }

    fn link(&mut self, node: NodeId) {
        self.unlink(node);
        self.sessions += 1;
        let session = Session::new(self.sessions);
        let agent = self.agents.get_mut(&node).expect("a known node");
        agent.session = Some(session);
        agent.seq = 0;
        let (gpus, journal) = (agent.gpus, agent.journal.clone());
        self.event(Event::LinkUp { node, session });
        let record = self.state.nodes.get(&node).expect("a known node");
        let facts = facts(record.name.as_str(), "boot-1", gpus);
        self.event(Event::Facts { node, session, facts });
        if !journal.is_empty() {
            self.batch(node, journal);
        }
    }

    fn unlink(&mut self, node: NodeId) {
        let agent = self.agents.get_mut(&node).expect("a known node");
        agent.unanswered.clear();
        if let Some(session) = agent.session.take() {
            self.event(Event::LinkDown { node, session });
        }
    }

    fn batch(&mut self, node: NodeId, reports: Vec<Report>) {
        let agent = self.agents.get_mut(&node).expect("a known node");
        let Some(session) = agent.session else { return };
        agent.seq += 1;
        let seq = agent.seq;
        agent.unanswered.insert(seq, reports.clone());
        self.event(Event::Reports { node, session, seq, reports });
    }

    fn report(&mut self, node: NodeId, attempt: AttemptId, event: RankEvent) {
        // Each report has its own moment, by which the test knows it again.
        self.now = self.now.plus(Span::from_millis(1));
        let report = Report { attempt, rank: Rank::new(0), at: self.now, event };
        self.agents.get_mut(&node).expect("a known node").journal.push(report.clone());
        self.batch(node, vec![report]);
    }

    /// An agent does one thing that its set asks for.
    fn work(&mut self, node: NodeId, may_exit: bool) {
        let agent = self.agents.get_mut(&node).expect("a known node");
        let set = agent.set.clone();
        for item in set {
            let agent = self.agents.get_mut(&node).expect("a known node");
            let (id, is_done) = (item.attempt, agent.done.contains(&item.attempt));
            if is_done {
                continue;
            }
            let is_running = agent.running.contains(&id);
            match item.order {
                Order::Run if !is_running => {
                    agent.running.insert(id);
                    return self.report(node, id, RankEvent::Started);
                }
                Order::Run if may_exit => {
                    agent.done.insert(id);
                    self.report(node, id, exited());
                    return self.report(node, id, RankEvent::Freed);
                }
                Order::Prepare | Order::Run => {}
                Order::Stop { .. } | Order::Clear => {
                    agent.done.insert(id);
                    if is_running {
                        self.report(node, id, exited());
                    }
                    return self.report(node, id, RankEvent::Freed);
                }
            }
        }
    }

    /// Another replica leads, with nothing but the state.
    fn change_leader(&mut self) {
        if let Some((view, links, term)) = self.thinking.take() {
            self.late.push(plan(&view, &links, self.now, term));
        }
        // Whatever was proposed is lost, or taken without anybody here being told.
        for (_, command) in std::mem::take(&mut self.proposals) {
            if self.index.is_multiple_of(2) {
                self.entry(REPLICA, command);
            }
        }
        self.adopting = None;
        self.term = Term::new(self.term.get() + 1);
        let (leader, effects) = Leader::start(&self.state, replica(), self.term, self.now);
        self.leader = leader;
        self.woke = Some(self.now);
        effects.into_iter().for_each(|effect| self.effect(effect));
        for agent in self.agents.values_mut() {
            agent.session = None;
            agent.unanswered.clear();
        }
    }

    fn submit(&mut self, random: &mut Random) {
        let asked = Request {
            budget: String::from(*random.pick(&["lang/post", "lang/pre"])),
            min_runtime: Some(Span::from_mins(random.below(120))),
            ..request(*random.pick(&[1, 1, 2, 4]))
        };
        self.entry(person("bob"), submission(asked));
        self.event(Event::Applied { index: self.state.meta.index });
    }

    fn step(&mut self, random: &mut Random) {
        let nodes: Vec<NodeId> = self.agents.keys().copied().collect();
        let node = *random.pick(&nodes);
        match random.below(40) {
            0..5 => self.submit(random),
            5..9 => self.link(node),
            9 => self.unlink(node),
            10..18 => self.work(node, random.one_in(2)),
            18..24 => self.answer(!random.one_in(4)),
            24..29 => self.planned(),
            29..31 => self.event(Event::Beat { node }),
            31 if random.one_in(3) => self.change_leader(),
            32 => {
                if let Some(plan) = self.late.pop() {
                    self.event(Event::Planned(plan));
                }
            }
            33 => self.now = self.now.plus(Span::from_secs(random.below(60))),
            _ => self.wake(),
        }
    }

    /// Time goes on to the moment the leader waits for.
    fn wake(&mut self) {
        if let Some(at) = self.woke.take() {
            self.now = self.now.max(at);
            self.event(Event::Woke);
        }
    }

    /// Nothing goes wrong any more.
    fn settle(&mut self) {
        for node in self.agents.keys().copied().collect::<Vec<_>>() {
            self.link(node);
        }
        for _ in 0..400 {
            for node in self.agents.keys().copied().collect::<Vec<_>>() {
                self.work(node, false);
                self.event(Event::Beat { node });
            }
            self.answer(true);
            self.planned();
            self.wake();
        }
    }

    fn check_settled(&self, seed: u64) {
        for (node, agent) in &self.agents {
            let record = self.state.nodes.get(node).expect("a known node");
            assert_eq!(record.contact, Contact::Ready, "seed {seed}: {} reports", record.name);
            assert!(agent.unanswered.is_empty(), "seed {seed}: every batch is answered");
            assert!(agent.journal.is_empty(), "seed {seed}: {:?}", agent.journal);
            assert_eq!(agent.set, assignments(&self.state, *node), "seed {seed}: the newest set was sent");
            let runs = agent
                .set
                .iter()
                .all(|item| item.order == Order::Run && agent.running.contains(&item.attempt));
            assert!(runs, "seed {seed}: {:?}", agent.set);
        }
        let more = plan(&self.state, &Links::all_ready(&self.state), self.now, self.term);
        assert!(more.decisions.is_empty(), "seed {seed}: nobody waits who could start: {more:?}");
    }
}

fn replica() -> scheduler_core::id::ReplicaId {
    scheduler_core::id::ReplicaId::new(1)
}

fn exited() -> RankEvent {
    RankEvent::Exited { exit: Exit::Code(0), by: EndedBy::Itself, saved_at: None }
}

/// Remembers the reports that a committed command holds.
fn note_reports(command: &Command, committed: &mut BTreeSet<(NodeId, Timestamp)>) {
    match command {
        Command::Reports { node, reports } => {
            committed.extend(reports.iter().map(|report| (*node, report.at)));
        }
        Command::Batch(commands) => {
            commands.iter().for_each(|(_, command)| note_reports(command, committed));
        }
        _ => {}
    }
}

#[test]
fn whatever_the_order_of_events_the_leader_keeps_its_laws_and_comes_to_rest() {
    let mut starts = 0;
    for seed in 0..40 {
        let random = &mut Random::new(seed);
        let mut cluster = Cluster::new(random);
        for _ in 0..250 {
            cluster.step(random);
        }
        cluster.settle();
        cluster.check_settled(seed);
        starts += cluster.starts;
    }
    assert!(starts > 100, "jobs start: {starts}");
}
