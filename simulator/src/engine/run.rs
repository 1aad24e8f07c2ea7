//! The loop: one queue of what is to come, and what each of it does.

use std::collections::{HashMap, VecDeque};

use scheduler_core::agent::{self, Action, EndedBy, RankId, RankNews, full_set};
use scheduler_core::command::{Answer, Blob, Cancel, Command, Outcome, Submit};
use scheduler_core::decision::Plan;
use scheduler_core::id::{AttemptId, JobId, Name, NodeId, SpecHash};
use scheduler_core::job::Exit;
use scheduler_core::leader::{Effect, Event, Leader, Session, Ticket};
use scheduler_core::plan::Links;
use scheduler_core::principal::Actor;
use scheduler_core::state::State;
use scheduler_core::unit::{Span, Timestamp};

use super::found::{self, Log, REPLICA, TERM};
use super::machine::Machine;
use super::pace::Queue;
use super::processes::{Processes, Told};
use super::recorder::Recorder;
use super::{NodeSetup, Setup};
use crate::policy::{self, Policy};
use crate::record::{JobEnd, Record};

/// From a proposal to its commit.
const COMMIT: Span = Span::from_millis(2);
/// From a machine to the leader and back, one way.
const WIRE: Span = Span::from_millis(1);
/// From a look at GPUs to its answer.
const LOOK: Span = Span::from_millis(20);
/// From the end of a process to the moment when nothing of it is left.
const CLEAR: Span = Span::from_millis(100);
/// Progress is told this often in virtual time.
const TELL: Span = Span::from_hours(1);

/// Why a run cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The control plane refuses the setup.
    #[error("the control plane refuses the scenario: {0}")]
    Refused(String),
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// When it began.
    pub begin: Timestamp,
    /// How far it is.
    pub now: Timestamp,
    /// When it ends.
    pub end: Timestamp,
    /// Jobs submitted so far.
    pub submitted: usize,
    /// Of how many.
    pub jobs: usize,
}

/// What is to come.
#[derive(Debug)]
enum Due {
    Submit,
    Patience(usize),
    Commit { ticket: Ticket, command: Box<Command> },
    Planned(Box<Plan>),
    LeaderWakes(Timestamp),
    Send(NodeId),
    Up(NodeId, u64, Box<Event>),
    Down(NodeId, u64, Box<agent::Event>),
    Launched { node: NodeId, boot: u32, rank: RankId },
    Exit { attempt: AttemptId, version: u32 },
    Save { attempt: AttemptId, version: u32, number: u64 },
    Gone { node: NodeId, boot: u32, rank: RankId },
    Looked { node: NodeId, boot: u32, look: u64 },
    AgentWakes { node: NodeId, boot: u32, at: Timestamp },
    Fails(usize),
    Returns(usize),
    Beat(NodeId),
}

struct Run<'a> {
    setup: &'a Setup,
    policy: &'a mut dyn Policy,
    log: Log,
    leader: Leader,
    leader_wake: Option<Timestamp>,
    machines: HashMap<NodeId, Machine>,
    ids: Vec<NodeId>,
    processes: Processes,
    recorder: Recorder,
    queue: Queue<Due>,
    now: Timestamp,
    sessions: u64,
    /// Which job of the setup has which number, and the other way round.
    numbers: HashMap<JobId, usize>,
    jobs: Vec<Option<JobId>>,
    /// Jobs that are submitted, in order, up to here.
    submitted: usize,
    /// GPUs that jobs which have not ended want or have, and all there are.
    wanted: u64,
    supply: u64,
    rounds: u64,
    pools: Vec<Name>,
}

/// Runs a setup under a policy from its begin to its end; `tell` hears how far it is now and then.
///
/// # Errors
/// When the control plane refuses the scenario's tree, settings or nodes.
pub fn run(setup: &Setup, policy: &mut dyn Policy, tell: &mut dyn FnMut(Progress)) -> Result<Record, Error> {
    let (log, ids) = Log::found(setup).map_err(Error::Refused)?;
    let (leader, effects) = Leader::start(&log.state, REPLICA, TERM, setup.begin);
    let mut machines = HashMap::new();
    for (id, node) in ids.iter().zip(&setup.nodes) {
        machines.insert(*id, Machine::new(found::uuids(node).map_err(Error::Refused)?));
    }
    let mut pools: Vec<Name> = setup.nodes.iter().map(|node| node.cluster.clone()).collect();
    pools.sort();
    pools.dedup();
    let recorder = Recorder::new(setup, policy.name(), &log.state, &ids);
    let mut run = Run {
        setup,
        policy,
        log,
        leader,
        leader_wake: None,
        machines,
        ids,
        processes: Processes::default(),
        recorder,
        queue: Queue::new(),
        now: setup.begin,
        sessions: 0,
        numbers: HashMap::new(),
        jobs: vec![None; setup.jobs.len()],
        submitted: 0,
        wanted: 0,
        supply: setup.nodes.iter().map(|node| u64::from(node.gpus)).sum(),
        rounds: 0,
        pools,
    };
    run.begin(effects)?;
    run.until_end(tell);
    let (rounds, entries) = (run.rounds, run.log.length);
    Ok(run.recorder.end(&run.log.state, rounds, entries))
}

impl Run<'_> {
    fn begin(&mut self, effects: Vec<Effect>) -> Result<(), Error> {
        self.carry_out(effects);
        for at in 0..self.ids.len() {
            self.connect(self.ids[at]).map_err(Error::Refused)?;
        }
        for outage in &self.setup.outages {
            self.queue.put(outage.at, Due::Fails(outage.node));
            self.queue.put(outage.until, Due::Returns(outage.node));
            self.recorder.away(outage.node, outage.at, outage.until.min(self.setup.end));
        }
        if !self.setup.outages.is_empty() {
            for id in self.ids.clone() {
                self.queue.put(self.now, Due::Beat(id));
            }
        }
        self.next_submission();
        Ok(())
    }

    fn until_end(&mut self, tell: &mut dyn FnMut(Progress)) {
        let mut told = self.now;
        while let Some((at, due)) = self.queue.next(self.setup.end) {
            self.now = self.now.max(at);
            if self.now.since(told) >= TELL {
                told = self.now;
                tell(Progress {
                    begin: self.setup.begin,
                    now: self.now,
                    end: self.setup.end,
                    submitted: self.submitted,
                    jobs: self.setup.jobs.len(),
                });
            }
            self.happen(due);
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Submit => self.submit(),
            Due::Patience(job) => self.lose_patience(job),
            Due::Commit { ticket, command } => self.commit(ticket, *command),
            Due::Planned(plan) => self.lead(Event::Planned(*plan)),
            Due::LeaderWakes(at) => {
                if self.leader_wake == Some(at) {
                    self.leader_wake = None;
                    self.lead(Event::Woke);
                }
            }
            Due::Send(node) => self.send(node),
            Due::Up(node, session, event) => {
                if self.session(node) == Some(session) {
                    self.lead(*event);
                }
            }
            Due::Down(node, session, event) => {
                if self.session(node) == Some(session) {
                    self.tell(node, *event);
                }
            }
            Due::Launched { node, boot, rank } => self.launched(node, boot, rank),
            Due::Exit { attempt, version } => self.exit(attempt, version),
            Due::Save { attempt, version, number } => self.save(attempt, version, number),
            Due::Gone { node, boot, rank } => {
                if let Some(machine) = self.machine(node, boot) {
                    machine.is_gone(rank);
                    let (id, at) = (rank, self.now);
                    self.tell(node, agent::Event::Rank { id, at, news: RankNews::Gone });
                }
            }
            Due::Looked { node, boot, look } => {
                if let Some(machine) = self.machine(node, boot) {
                    let gpus = machine.look();
                    self.tell(node, agent::Event::Looked { look, gpus });
                }
            }
            Due::AgentWakes { node, boot, at } => {
                if let Some(machine) = self.machine(node, boot).filter(|machine| machine.wake == Some(at)) {
                    machine.wake = None;
                    self.tell(node, agent::Event::Woke);
                }
            }
            Due::Fails(node) => self.fails(node),
            Due::Returns(node) => {
                // The setup named it: what it is made it through once already.
                let _ = self.connect(self.ids[node]);
            }
            Due::Beat(node) => {
                let beat = self.setup.settings.beat;
                self.queue.put(self.now.plus(beat), Due::Beat(node));
                if self.session(node).is_some() {
                    self.lead(Event::Beat { node });
                }
            }
        }
    }

    // Submissions.

    /// Makes the next job come when it does: at its time, or once there is less demand than the setup lets in.
    fn next_submission(&mut self) {
        if let Some(job) = self.setup.jobs.get(self.submitted) {
            if self.is_held_back() {
                return;
            }
            self.queue.put(job.submitted_at.max(self.now), Due::Submit);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "GPUs are few enough to be exact")]
    fn is_held_back(&self) -> bool {
        self.setup.hold_above.is_some_and(|most| self.wanted as f64 > most * self.supply as f64)
    }

    fn submit(&mut self) {
        let at = self.submitted;
        self.submitted += 1;
        let job = &self.setup.jobs[at];
        let request = self.policy.submission(job);
        // Each job's own: what nodes read is not what is simulated.
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&(at as u64).to_le_bytes());
        let launch = Blob { hash: SpecHash::new(hash), bytes: [].into() };
        let answer = match found::person() {
            Ok(person) => self.entry(person, Command::Submit(Submit { request, launch })),
            Err(_) => return,
        };
        let id = match answer {
            Ok(Outcome::Submitted { job }) => Some(job),
            _ => None,
        };
        self.recorder.submitted(self.setup, at, self.now, id, &self.log.state);
        if let Some(id) = id {
            self.numbers.insert(id, at);
            self.jobs[at] = Some(id);
            self.wanted += job.gpus();
            if let Some(patience) = self.setup.patience {
                self.queue.put(self.now.plus(patience), Due::Patience(at));
            }
        }
        self.next_submission();
    }

    fn lose_patience(&mut self, at: usize) {
        let Some(id) = self.jobs[at] else { return };
        let waits = self.log.state.jobs.get(&id).is_some_and(|job| job.phase.is_waiting());
        let has_run = self.log.state.jobs.get(&id).is_some_and(|job| !job.past.is_empty());
        if waits && !has_run {
            let reason = "it waited longer than its user does".into();
            let cancel = Command::Cancel(Cancel { job: id, is_now: false, reason });
            if let Ok(person) = found::person() {
                let _ = self.entry(person, cancel);
            }
            self.note_end(id);
        }
    }

    /// A job may have ended: if so it wants nothing any more.
    fn note_end(&mut self, id: JobId) {
        let Some(at) = self.numbers.get(&id).copied() else { return };
        if self.jobs[at].is_none() {
            return;
        }
        let setup = self.setup;
        self.recorder.job_ended(id, &self.numbers, &|at| setup.jobs[at].work.end, &self.log.state);
        if self.log.state.jobs.get(&id).is_none_or(|job| job.phase.is_ended()) {
            self.jobs[at] = None;
            let was_held = self.is_held_back();
            self.wanted = self.wanted.saturating_sub(self.setup.jobs[at].gpus());
            self.processes.forget_job(id);
            if was_held && !self.is_held_back() {
                self.next_submission();
            }
        }
    }

    // The leader and its log.

    fn lead(&mut self, event: Event) {
        let effects = self.leader.handle(&self.log.state, event, self.now);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Plan { view, links, .. } => self.plan(&view, &links),
                Effect::Propose { ticket, command } => {
                    self.queue.put(self.now.plus(COMMIT), Due::Commit { ticket, command });
                }
                Effect::Send { node } => self.queue.put(self.now, Due::Send(node)),
                Effect::Ack { node, session, seq } => {
                    if self.session(node) == Some(session.get()) {
                        self.down(node, agent::Event::Acked { seq });
                    }
                }
                Effect::Close { .. } => {}
                Effect::WakeAt(at) => {
                    self.leader_wake = Some(at);
                    self.queue.put(at.max(self.now), Due::LeaderWakes(at));
                }
            }
        }
    }

    fn plan(&mut self, view: &State, links: &Links) {
        self.rounds += 1;
        let round = policy::Round {
            state: view,
            links,
            now: self.now,
            term: TERM,
            jobs: &self.setup.jobs,
            numbers: &self.numbers,
        };
        let plan = self.policy.plan(&round);
        if plan.is_empty() {
            for pool in &self.pools {
                let first = self.policy.first(&round, pool).and_then(|id| self.numbers.get(&id).copied());
                self.recorder.head(pool, first, self.now);
            }
        }
        self.queue.put(self.now.plus(WIRE), Due::Planned(Box::new(plan)));
    }

    fn commit(&mut self, ticket: Ticket, command: Command) {
        let mut touched = Vec::new();
        touched_by(&command, &mut touched);
        let plan = if let Command::Adopt(plan) = &command { Some(plan.clone()) } else { None };
        let lost_node = has_facts(&command);
        // The leader takes what is new in state with the word that its own command is committed.
        let _ = self.log.apply(self.now, Actor::Replica(REPLICA), command);
        if let Some(plan) = plan {
            self.recorder.adopted(&plan, &self.numbers, &self.log.state, self.now);
            self.recorder.check_dates(&self.log.state);
        }
        if lost_node {
            touched.extend(self.processes.take_lost());
        }
        let setup = self.setup;
        self.recorder.left(&touched, &self.numbers, &|at| setup.jobs[at].work.end, &self.log.state, self.now);
        for id in touched {
            self.note_end(id.job);
        }
        self.lead(Event::Committed { ticket });
    }

    fn entry(&mut self, actor: Actor, command: Command) -> Answer {
        let answer = self.log.apply(self.now, actor, command);
        self.lead(Event::Applied { index: self.log.state.meta.index });
        answer
    }

    // Links.

    fn session(&self, node: NodeId) -> Option<u64> {
        self.machines.get(&node)?.session
    }

    fn machine(&mut self, node: NodeId, boot: u32) -> Option<&mut Machine> {
        self.machines.get_mut(&node).filter(|machine| machine.boot == boot)
    }

    fn node(&self, node: NodeId) -> Option<&NodeSetup> {
        let at = self.ids.iter().position(|id| *id == node)?;
        self.setup.nodes.get(at)
    }

    fn connect(&mut self, node: NodeId) -> Result<(), String> {
        let boot = self.machines.get(&node).map_or(1, |machine| machine.boot);
        let facts = self.node(node).map(|setup| found::facts(setup, boot)).transpose()?;
        self.sessions += 1;
        if let Some(machine) = self.machines.get_mut(&node) {
            machine.session = Some(self.sessions);
        }
        let session = Session::new(self.sessions);
        self.lead(Event::LinkUp { node, session });
        if let Some(facts) = facts {
            self.up(node, Event::Facts { node, session, facts });
        }
        self.tell(node, agent::Event::LinkUp);
        Ok(())
    }

    fn fails(&mut self, at: usize) {
        let node = self.ids[at];
        let Some(machine) = self.machines.get_mut(&node) else { return };
        let session = machine.session;
        machine.reboot();
        for (id, lost) in self
            .processes
            .node_died(node, self.now, |job| self.numbers.get(&job).map(|at| &self.setup.jobs[*at]))
        {
            self.recorder.lost(id, lost);
        }
        if let Some(session) = session.map(Session::new) {
            self.lead(Event::LinkDown { node, session });
        }
    }

    fn send(&mut self, node: NodeId) {
        if let Some(set) = full_set(&self.log.state, node) {
            self.down(node, agent::Event::Set(set));
        }
    }

    fn up(&mut self, node: NodeId, event: Event) {
        if let Some(session) = self.session(node) {
            self.queue.put(self.now.plus(WIRE), Due::Up(node, session, Box::new(event)));
        }
    }

    fn down(&mut self, node: NodeId, event: agent::Event) {
        if let Some(session) = self.session(node) {
            self.queue.put(self.now.plus(WIRE), Due::Down(node, session, Box::new(event)));
        }
    }

    // Machines and their processes.

    fn tell(&mut self, node: NodeId, event: agent::Event) {
        let Some(machine) = self.machines.get_mut(&node) else { return };
        let boot = machine.boot;
        let actions: VecDeque<Action> = machine.tell(event, self.now).into();
        for action in actions {
            self.act(node, boot, action);
        }
    }

    fn act(&mut self, node: NodeId, boot: u32, action: Action) {
        match action {
            Action::Launch(item) => {
                let rank = item.id();
                let ranks = u32::try_from(item.nodes.len()).unwrap_or(1).max(1);
                self.processes.launch(rank, node, item.gpus.clone(), ranks);
                let launch = self.job_of(rank.attempt.job).map_or(Span::ZERO, |job| job.work.launch);
                self.queue.put(self.now.plus(launch), Due::Launched { node, boot, rank });
            }
            Action::Stop { id, grace, has_notice, .. } => self.stop(id, grace, has_notice),
            Action::Look(look) => self.queue.put(self.now.plus(LOOK), Due::Looked { node, boot, look }),
            Action::Send { seq, reports } => {
                if let Some(session) = self.session(node).map(Session::new) {
                    self.up(node, Event::Reports { node, session, seq, reports });
                }
            }
            Action::Saves(saves) => {
                if let Some(session) = self.session(node).map(Session::new) {
                    self.up(node, Event::Saves { node, session, saves });
                }
            }
            Action::WakeAt(at) => {
                if let Some(machine) = self.machine(node, boot) {
                    machine.wake = Some(at);
                }
                self.queue.put(at.max(self.now), Due::AgentWakes { node, boot, at });
            }
            Action::Persist(_) | Action::Forget(_) | Action::Refused(_) => {}
        }
    }

    fn job_of(&self, id: JobId) -> Option<&super::SimJob> {
        self.numbers.get(&id).and_then(|at| self.setup.jobs.get(*at))
    }

    fn launched(&mut self, node: NodeId, boot: u32, rank: RankId) {
        let Some(gpus) = self.processes.gpus_of(rank) else { return };
        let Some(machine) = self.machine(node, boot) else { return };
        machine.starts(rank, gpus);
        let work = self.job_of(rank.attempt.job).map(|job| job.work);
        let Some(work) = work else { return };
        if let Told::Runs { ends_at, version, signs_at } = self.processes.started(rank, self.now, &work) {
            self.queue.put(ends_at, Due::Exit { attempt: rank.attempt, version });
            if work.reports {
                let save = Due::Save { attempt: rank.attempt, version, number: 0 };
                self.queue.put(signs_at, save);
            }
        }
        self.tell(node, agent::Event::Rank { id: rank, at: self.now, news: RankNews::Started });
        // A stop may have come while it was launched.
        if let Some((attempt, version)) = self.processes.leaves_at_once(rank) {
            self.queue.put(self.now.plus(CLEAR), Due::Exit { attempt, version });
        }
    }

    fn stop(&mut self, id: RankId, grace: Span, has_notice: bool) {
        let Some(work) = self.job_of(id.attempt.job).map(|job| job.work) else { return };
        let resumes = self.log.state.jobs.get(&id.attempt.job).is_some_and(|job| job.terms.resumable);
        let told = self.processes.stop(id.attempt, self.now, grace, has_notice, &work, resumes);
        if let Some((ends_at, version, lost)) = told {
            self.recorder.lost(id.attempt, lost);
            self.queue.put(ends_at.max(self.now.plus(CLEAR)), Due::Exit { attempt: id.attempt, version });
        }
    }

    /// All processes of an attempt end.
    fn exit(&mut self, attempt: AttemptId, version: u32) {
        let Some(ending) = self.processes.end(attempt, version) else { return };
        let fails = self.job_of(attempt.job).is_some_and(|job| job.work.end == JobEnd::Failed);
        let code = if ending.by == EndedBy::Itself && fails { 1 } else { 0 };
        for (rank, node) in ending.ranks {
            let news = RankNews::Exited { exit: Exit::Code(code), by: ending.by, saved_at: ending.saved_at };
            let boot = self.machines.get(&node).map_or(0, |machine| machine.boot);
            self.queue.put(self.now.plus(CLEAR), Due::Gone { node, boot, rank });
            self.tell(node, agent::Event::Rank { id: rank, at: self.now, news });
        }
    }

    /// An attempt reports a checkpoint; the number 0 is its first sign of progress.
    fn save(&mut self, attempt: AttemptId, version: u32, number: u64) {
        let Some(work) = self.job_of(attempt.job).map(|job| job.work) else { return };
        let Some(told) = self.processes.saved(attempt, version, number, &work) else { return };
        if let Some(next) = told.next_at {
            self.queue.put(next, Due::Save { attempt, version, number: number + 1 });
        }
        let (id, at) = (told.rank, self.now);
        let news = RankNews::Saved { saved_at: told.saved_at, signed_at: Some(told.signed_at) };
        self.tell(told.node, agent::Event::Rank { id, at, news });
    }
}

/// Adds the attempts that an entry tells of.
fn touched_by(command: &Command, touched: &mut Vec<AttemptId>) {
    match command {
        Command::Reports { reports, .. } => {
            for report in reports {
                if touched.last() != Some(&report.attempt) {
                    touched.push(report.attempt);
                }
            }
        }
        Command::Batch(all) => all.iter().for_each(|(_, command)| touched_by(command, touched)),
        _ => {}
    }
}

/// Whether an entry has facts of a node, which may say that it restarted.
fn has_facts(command: &Command) -> bool {
    match command {
        Command::NodeFacts { .. } => true,
        Command::Batch(all) => all.iter().any(|(_, command)| has_facts(command)),
        _ => false,
    }
}
