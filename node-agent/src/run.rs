//! The agent's loop: an event from somewhere, the machine's actions, carried out in order.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use proto::v1::agent_link_client::AgentLinkClient;
use scheduler_core::agent::{
    Action, Agent, Assignment, Assignments, EndedBy, Event, Fault, Order, RankId, RankNews, Token,
};
use scheduler_core::id::SpecHash;
use scheduler_core::job::Exit;
use scheduler_core::node::Facts;
use scheduler_core::spec::Launch;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::clock::ClusterClock;
use crate::config::Config;
use crate::executor::{self, Executor, StopOrder};
use crate::facts::{self, Observed, Place};
use crate::fetch::{self, Fetched};
use crate::hands::{self, Do, News};
use crate::journal::{self, Journal};
use crate::link::{Inbound, Link, Outbound};
use crate::looker::{self, Look};
use crate::{join, logs};

/// Events on their way to the loop, from each side.
const INBOX: usize = 1_024;
/// Pause before a spec is asked for again.
const FETCH_PAUSE: Duration = Duration::from_millis(300);
/// Specs that are kept in memory.
const LAUNCHES_MAX: usize = 64;

/// The journal's cluster time is written again when it is further off than this: the way of a message is less.
const CLOCK_KEPT_WITHIN_MS: u64 = 50;

/// Why an agent can't run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The executor can't work.
    #[error("failed to open the data directory")]
    Executor(#[source] executor::Error),
    /// The journal can't be used.
    #[error("failed to use the journal")]
    Journal(#[source] journal::Error),
    /// It is no node and can't become one.
    #[error("failed to join")]
    Join(#[source] join::Error),
    /// A part of it ended that never should.
    #[error("the agent's {0} has ended")]
    Ended(&'static str),
}

/// Runs an agent until `stop` completes. Stopping it touches no job: the next one adopts them.
///
/// # Errors
///
/// It can't start: another agent has the directory, joining was refused, a file can't be read. Once it runs, only a token that
/// can't be written ends it: nothing may be done by a token that isn't durable.
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> Result<(), Error> {
    tokio::pin!(stop);
    let executor = Executor::open(config.executor()).map_err(Error::Executor)?;
    let journal = Journal::open(&config.data).map_err(Error::Journal)?;
    let (identity, joined) = tokio::select! {
        () = &mut stop => return Ok(()),
        identified = join::identify(&config, &journal) => identified.map_err(Error::Join)?,
    };
    tracing::info!(node = joined.node, "this is the node");
    let link_journal = journal.clone();
    let mut agent = Parts::start(&config, executor, journal, &joined)?;
    let link = Link {
        servers: config.servers.clone(),
        told: link_journal.replicas(),
        journal: link_journal,
        joined,
        credential: identity.credential.clone(),
        session: getrandom::u64().unwrap_or(1),
        facts: agent.facts.subscribe(),
        seen: agent.seen.subscribe(),
        clock: Arc::clone(&agent.clock),
        inbound: agent.inbound.clone(),
        outbound: agent.outbound_taken.take().ok_or(Error::Ended("link"))?,
    };
    agent.credential = identity.credential;
    tokio::select! {
        () = &mut stop => Ok(()),
        ended = agent.run(link) => ended,
    }
}

/// What the loop waits for.
enum Woken {
    Link(Inbound),
    News(News),
    Look(Look),
    Fetched(Fetched),
    Time,
}

struct Parts {
    machine: Agent,
    clock: Arc<ClusterClock>,
    /// What the journal has of it.
    kept_offset_ms: Option<i64>,
    boot: String,
    journal: Journal,
    observed: Observed,
    facts: watch::Sender<Facts>,
    seen: watch::Sender<Token>,
    credential: String,
    hands: std::sync::mpsc::Sender<Do>,
    looker: std::sync::mpsc::Sender<u64>,
    logs: logs::Reader,
    /// Ranks whose spec is still being fetched, and since when a fetch may be tried again.
    fetching: BTreeMap<RankId, Assignment>,
    launches: BTreeMap<SpecHash, Launch>,
    /// Specs that were asked for before they were needed, and have not come yet.
    ahead: BTreeSet<SpecHash>,
    replica: Option<AgentLinkClient<Channel>>,
    wake_at: Option<Instant>,
    fetch_at: Option<Instant>,
    inbound: mpsc::Sender<Inbound>,
    outbound: mpsc::Sender<Outbound>,
    outbound_taken: Option<mpsc::Receiver<Outbound>>,
    fetched: mpsc::Sender<Fetched>,
    from: Sources,
}

/// Where events come from.
struct Sources {
    link: mpsc::Receiver<Inbound>,
    news: mpsc::Receiver<News>,
    looks: mpsc::Receiver<Look>,
    fetched: mpsc::Receiver<Fetched>,
}

impl Parts {
    fn start(
        config: &Config,
        mut executor: Executor,
        journal: Journal,
        joined: &journal::Joined,
    ) -> Result<Self, Error> {
        let boot = executor.boot().to_owned();
        let seen = journal.token().map_err(Error::Journal)?;
        let clock = Arc::new(ClusterClock::resume(journal.clock(&boot)));
        let place = Place {
            containment: if executor.has_cgroups() { "cgroup" } else { "process tree" },
            address: config.address.clone().or_else(facts::hostname),
        };
        let mut observed = Observed::new(&boot, place, journal.gpus());
        let found = executor.ranks().into_iter().map(|found| (found.id, found.gpus)).collect();
        let strays = executor.strays().map_err(Error::Executor)?;
        let strays = strays.iter().map(|(id, pid)| stray(*id, *pid));
        let unreadable = executor.unreadable().into_iter().map(unreadable);
        observed.set_strays(strays.chain(unreadable).collect());
        let first = hands::look(&mut executor, &clock);
        let (inbound, link) = mpsc::channel(INBOX);
        let (news_in, news) = mpsc::channel(INBOX);
        let (looks_in, looks) = mpsc::channel(INBOX);
        let (fetched, fetched_out) = mpsc::channel(INBOX);
        let (outbound, outbound_taken) = mpsc::channel(INBOX);
        let logs = logs::Reader::new(executor.log_reader(), outbound.clone());
        let mut parts = Self {
            machine: Agent::start(joined.cluster(), seen, found),
            facts: watch::Sender::new(observed.facts()),
            seen: watch::Sender::new(seen),
            hands: hands::start(executor, Arc::clone(&clock), news_in),
            kept_offset_ms: clock.offset_ms(),
            clock,
            boot,
            journal,
            observed,
            credential: String::new(),
            looker: looker::start(config, looks_in),
            logs,
            fetching: BTreeMap::new(),
            launches: BTreeMap::new(),
            ahead: BTreeSet::new(),
            replica: None,
            wake_at: None,
            fetch_at: None,
            inbound,
            outbound,
            outbound_taken: Some(outbound_taken),
            fetched,
            from: Sources { link, news, looks, fetched: fetched_out },
        };
        // Adoption is complete before anybody is dialled.
        for news in first {
            parts.take(Woken::News(news))?;
        }
        Ok(parts)
    }

    async fn run(mut self, link: Link) -> Result<(), Error> {
        // The first look, so that the hello says what the node has.
        let look = self.from.looks.recv().await.ok_or(Error::Ended("probe's side"))?;
        self.take(Woken::Look(look))?;
        let dialling = tokio::spawn(link.run());
        let ended = loop {
            let woken = match self.next().await {
                Ok(woken) => woken,
                Err(ended) => break Err(ended),
            };
            if let Err(ended) = self.take(woken) {
                break Err(ended);
            }
        };
        dialling.abort();
        ended
    }

    async fn next(&mut self) -> Result<Woken, Error> {
        let due = self.wake_at.into_iter().chain(self.fetch_at).min();
        let sleep = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            inbound = self.from.link.recv() => inbound.map(Woken::Link).ok_or(Error::Ended("link")),
            news = self.from.news.recv() => news.map(Woken::News).ok_or(Error::Ended("executor")),
            look = self.from.looks.recv() => look.map(Woken::Look).ok_or(Error::Ended("probe's side")),
            fetched = self.from.fetched.recv() => fetched.map(Woken::Fetched).ok_or(Error::Ended("fetching")),
            () = sleep => Ok(Woken::Time),
        }
    }

    fn take(&mut self, woken: Woken) -> Result<(), Error> {
        let now = self.clock.now();
        match woken {
            Woken::Link(inbound) => self.take_inbound(inbound),
            Woken::News(News { id, boot_ms, news }) => {
                let at = boot_ms.map_or(now, |boot_ms| self.clock.of_boot_ms(boot_ms));
                if !matches!(news, RankNews::Saved { .. }) {
                    tracing::info!(attempt = %id.attempt, rank = %id.rank, ?news, "a rank has news");
                }
                self.handle(Event::Rank { id, at, news })
            }
            Woken::Look(look) => self.take_look(look),
            Woken::Fetched(fetched) => self.take_fetched(fetched),
            Woken::Time => {
                let passed = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
                if passed(self.fetch_at) {
                    self.fetch_at = None;
                    self.fetch_all();
                }
                if !passed(self.wake_at) {
                    return Ok(());
                }
                self.wake_at = None;
                self.handle(Event::Woke)
            }
        }
    }

    fn take_inbound(&mut self, inbound: Inbound) -> Result<(), Error> {
        match inbound {
            Inbound::Up(replica) => {
                self.replica = Some(replica);
                self.keep_clock();
                self.handle(Event::LinkUp)?;
                self.fetch_all();
                Ok(())
            }
            Inbound::Down => {
                self.replica = None;
                self.keep_clock();
                self.handle(Event::LinkDown)
            }
            Inbound::Set(set) => {
                self.fetch_ahead(&set);
                self.handle(Event::Set(set))
            }
            Inbound::Ack(seq) => self.handle(Event::Acked { seq }),
            Inbound::Log(request) => {
                self.logs.read(request);
                Ok(())
            }
            Inbound::Time => {
                self.keep_clock();
                Ok(())
            }
        }
    }

    /// Keeps cluster time for the next agent on this boot: what it goes by until it is linked, and what it vouches for
    /// when every replica's machine has restarted.
    fn keep_clock(&mut self) {
        let Some(offset) = self.clock.offset_ms() else { return };
        if self.kept_offset_ms.is_some_and(|kept| kept.abs_diff(offset) <= CLOCK_KEPT_WITHIN_MS) {
            return;
        }
        match self.journal.keep_clock(&self.boot, offset) {
            Ok(()) => self.kept_offset_ms = Some(offset),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cluster time is not kept");
            }
        }
    }

    fn take_look(&mut self, look: Look) -> Result<(), Error> {
        for xid in &look.xids {
            tracing::warn!(gpu = %xid.uuid, code = xid.code, "a GPU reports an XID error");
            self.observed.note_xid(xid);
        }
        let gpus = self.observed.take(&look.result);
        let facts = self.observed.facts();
        let old = self.facts.borrow().gpus.clone();
        let is_news = self.facts.send_if_modified(|known| {
            let is_news = *known != facts;
            *known = facts;
            is_news
        });
        let has_other_gpus = is_news && old != self.facts.borrow().gpus;
        if has_other_gpus && let Err(error) = self.journal.keep_gpus(&self.observed.stored()) {
            tracing::warn!(error = &error as &dyn std::error::Error, "the list of GPUs is not kept");
        }
        self.handle(Event::Looked { look: look.number, gpus })
    }

    fn handle(&mut self, event: Event) -> Result<(), Error> {
        let actions = self.machine.handle(event, self.clock.now());
        self.wake_at = None;
        for action in actions {
            self.carry_out(action)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, action: Action) -> Result<(), Error> {
        match action {
            Action::Persist(token) => {
                self.journal.keep_token(token).map_err(Error::Journal)?;
                self.seen.send_replace(token);
            }
            Action::Launch(assignment) => self.launch(*assignment)?,
            Action::Stop { id, generation, reason, grace, has_notice } => {
                if self.fetching.remove(&id).is_some() {
                    // Nothing of it ran: its end is the stop's.
                    let at = self.clock.now();
                    let by = if has_notice { EndedBy::Notice } else { EndedBy::Stop };
                    let news = RankNews::Exited { exit: Exit::Unknown, by, saved_at: None };
                    self.handle(Event::Rank { id, at, news })?;
                    return self.handle(Event::Rank { id, at, news: RankNews::Gone });
                }
                tracing::info!(attempt = %id.attempt, rank = %id.rank, %reason, "a stop is handed on");
                let order = StopOrder {
                    generation: generation.get(),
                    reason,
                    grace_ms: grace.as_millis(),
                    has_notice,
                };
                self.do_it(Do::Stop { id, order })?;
            }
            Action::Look(number) => {
                self.looker.send(number).map_err(|_| Error::Ended("probe's side"))?;
            }
            Action::Send { seq, reports } => {
                // A full outbox ends the link, and then everything unacknowledged is sent again.
                let _ = self.outbound.try_send(Outbound::Reports { seq, reports });
            }
            Action::Saves(saves) => {
                let _ = self.outbound.try_send(Outbound::Saves(saves));
            }
            Action::Forget(id) => self.do_it(Do::Forget(id))?,
            Action::Refused(refusal) => tracing::warn!(?refusal, "a set is refused"),
            Action::WakeAt(at) => {
                let after = at.since(self.clock.now()).as_millis();
                self.wake_at = Some(Instant::now() + Duration::from_millis(after));
            }
        }
        Ok(())
    }

    fn do_it(&self, order: Do) -> Result<(), Error> {
        self.hands.send(order).map_err(|_| Error::Ended("executor"))
    }

    /// Launches a rank, now or when its spec is here.
    fn launch(&mut self, assignment: Assignment) -> Result<(), Error> {
        let Some(launch) = self.launches.get(&assignment.launch).cloned() else {
            self.fetching.insert(assignment.id(), assignment);
            self.fetch_all();
            return Ok(());
        };
        let now = self.clock.now();
        tracing::info!(attempt = %assignment.attempt, rank = %assignment.rank, "a rank is launched");
        let is_protected = !assignment.protection.is_zero();
        let protected_until = is_protected.then(|| now.plus(assignment.protection));
        self.do_it(Do::Launch { assignment: Box::new(assignment), launch, protected_until })
    }

    /// Asks for the specs that a set will need, while its GPUs are still being looked at.
    fn fetch_ahead(&mut self, set: &Assignments) {
        let Some(replica) = &self.replica else { return };
        let here: Vec<RankId> = self.machine.live().collect();
        let mut asked = Vec::new();
        for item in set.items.iter().filter(|item| matches!(item.order, Order::Prepare | Order::Run)) {
            let is_known = self.launches.contains_key(&item.launch) || asked.contains(&item.launch);
            if !is_known && !here.contains(&item.id()) {
                asked.push(item.launch);
                fetch::start(replica.clone(), &self.credential, item.launch, self.fetched.clone());
            }
        }
        self.ahead.extend(asked);
    }

    /// Asks for every spec that is missing, if there is a link; else the next link does.
    fn fetch_all(&mut self) {
        let Some(replica) = &self.replica else { return };
        let mut asked = Vec::new();
        for assignment in self.fetching.values() {
            let is_asked = asked.contains(&assignment.launch) || self.ahead.contains(&assignment.launch);
            if !is_asked {
                asked.push(assignment.launch);
                fetch::start(replica.clone(), &self.credential, assignment.launch, self.fetched.clone());
            }
        }
    }

    fn take_fetched(&mut self, fetched: Fetched) -> Result<(), Error> {
        let Fetched { hash, result } = fetched;
        self.ahead.remove(&hash);
        let waiting: Vec<Assignment> =
            self.fetching.values().filter(|assignment| assignment.launch == hash).cloned().collect();
        match result {
            Ok(launch) => {
                if self.launches.len() >= LAUNCHES_MAX {
                    self.launches.clear();
                }
                self.launches.insert(hash, launch);
                for assignment in waiting {
                    self.fetching.remove(&assignment.id());
                    if self.clock.now() > assignment.start_by {
                        self.fail(assignment.id(), "the job's specification came too late".to_owned())?;
                    } else {
                        self.launch(assignment)?;
                    }
                }
            }
            Err(what) => {
                let now = self.clock.now();
                let late = waiting.into_iter().filter(|assignment| now > assignment.start_by);
                for assignment in late.collect::<Vec<_>>() {
                    let id = assignment.id();
                    self.fetching.remove(&id);
                    self.fail(id, format!("failed to fetch the job's specification: {what}"))?;
                }
                if !self.fetching.is_empty() {
                    self.fetch_at = Some(Instant::now() + FETCH_PAUSE);
                }
            }
        }
        Ok(())
    }

    /// Reports a rank of which nothing ran and nothing will, by the node's fault.
    fn fail(&mut self, id: RankId, what: String) -> Result<(), Error> {
        let at = self.clock.now();
        for news in [RankNews::LaunchFailed { fault: Fault::Node, what }, RankNews::Gone] {
            self.handle(Event::Rank { id, at, news })?;
        }
        Ok(())
    }
}

fn stray(id: RankId, pid: i32) -> String {
    format!("process {pid} of attempt {} runs here without records", id.attempt)
}

fn unreadable(id: RankId) -> String {
    format!("the records of attempt {} can't be read by this agent: they are left alone", id.attempt)
}
