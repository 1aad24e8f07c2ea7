//! The machines of the loop: each with a real agent's machine, processes that start, save nothing and end, and GPUs that
//! are busy as long as those are there.

use std::collections::BTreeMap;

use scheduler_core::agent::{
    Action, Agent, Assignment, EndedBy, Event, Fault, GpuUse, RankId, RankNews, Report, Token,
};
use scheduler_core::command::Saved;
use scheduler_core::id::{ClusterId, GpuUuid};
use scheduler_core::job::Exit;
use scheduler_core::node::Facts;
use scheduler_core::unit::{Span, Timestamp};

use crate::random::Random;
use crate::world::facts;

/// What is to come of a machine's own.
#[derive(Debug, Clone)]
pub enum Local {
    Start(RankId),
    Exit(RankId, EndedBy),
    Gone(RankId),
    Looked(u64),
    Wake(Timestamp),
}

/// What it wants sent.
#[derive(Debug)]
pub enum Wire {
    Reports { seq: u64, reports: Vec<Report> },
    Saves(Vec<Saved>),
}

/// What came of an event: what is to happen here and when, and what is to be sent.
#[derive(Debug, Default)]
pub struct Came {
    pub local: Vec<(Timestamp, Local)>,
    pub wire: Vec<Wire>,
}

#[derive(Debug, Clone)]
struct Process {
    gpus: Vec<GpuUuid>,
    is_there: bool,
    /// What its shim wrote down, in order: an agent that starts anew reads it again.
    news: Vec<(Timestamp, RankNews)>,
}

pub struct Machine {
    pub name: String,
    pub gpus: u32,
    pub boot: u32,
    pub session: Option<u64>,
    /// What goes each way on a link arrives in order.
    pub up: Timestamp,
    pub down: Timestamp,
    /// No link before this.
    pub away_until: Timestamp,
    /// A GPU that does not answer.
    pub hidden: Option<u32>,
    pub agent: Option<Agent>,
    /// Counts agents, so that what one asked for is not answered to the next.
    pub life: u32,
    token: Token,
    processes: BTreeMap<RankId, Process>,
    wake: Option<Timestamp>,
}

impl Machine {
    pub fn new(name: &str, gpus: u32) -> Self {
        let mut machine = Self {
            name: name.to_owned(),
            gpus,
            boot: 1,
            session: None,
            up: Timestamp::ZERO,
            down: Timestamp::ZERO,
            away_until: Timestamp::ZERO,
            hidden: None,
            agent: None,
            life: 0,
            token: Token::default(),
            processes: BTreeMap::new(),
            wake: None,
        };
        machine.agent = Some(machine.fresh_agent());
        machine
    }

    fn fresh_agent(&self) -> Agent {
        let found = self.processes.iter().map(|(id, process)| (*id, process.gpus.clone()));
        Agent::start(ClusterId::new([7; 16]), self.token, found.collect())
    }

    /// The agent ends; processes stay.
    pub fn stop_agent(&mut self) {
        (self.agent, self.wake) = (None, None);
        self.life += 1;
    }

    /// An agent starts on what is there.
    pub fn start_agent(&mut self, now: Timestamp, random: &mut Random) -> Came {
        self.agent = Some(self.fresh_agent());
        let mut came = Came::default();
        let told: Vec<_> = self.processes.iter().map(|(id, process)| (*id, process.news.clone())).collect();
        for (id, news) in told {
            for (at, news) in news {
                came.extend(self.tell(Event::Rank { id, at, news }, now, random));
            }
        }
        came
    }

    /// The machine restarts: nothing is left.
    pub fn reboot(&mut self) {
        self.stop_agent();
        self.boot += 1;
        self.processes.clear();
    }

    /// What it is now.
    pub fn facts(&self) -> Facts {
        let mut facts = facts(&self.name, &format!("boot-{}", self.boot), self.gpus);
        facts.gpus.retain(|gpu| self.hidden.is_none_or(|at| gpu.uuid != self.uuid(at)));
        facts
    }

    fn uuid(&self, at: u32) -> GpuUuid {
        GpuUuid::new(&format!("GPU-{}-{at}", self.name)).expect("a UUID")
    }

    /// Tells the agent, if one is there, and does what it asks for.
    pub fn tell(&mut self, event: Event, now: Timestamp, random: &mut Random) -> Came {
        let mut came = Came::default();
        let Some(agent) = &mut self.agent else { return came };
        for action in agent.handle(event, now) {
            self.act(action, now, random, &mut came);
        }
        came
    }

    fn act(&mut self, action: Action, now: Timestamp, random: &mut Random, came: &mut Came) {
        let soon = |random: &mut Random, most: u64| now.plus(Span::from_millis(1 + random.below(most)));
        match action {
            Action::Persist(token) => self.token = token,
            Action::Launch(item) => self.launch(&item, soon(random, 300), came),
            Action::Stop { id, grace, has_notice, .. } => {
                let by = if has_notice { EndedBy::Notice } else { EndedBy::Stop };
                let within =
                    if random.one_in(3) { grace.as_millis() } else { random.below(grace.as_millis() + 1) };
                came.local.push((now.plus(Span::from_millis(within + 1)), Local::Exit(id, by)));
            }
            Action::Look(look) => came.local.push((soon(random, 50), Local::Looked(look))),
            Action::Send { seq, reports } => came.wire.push(Wire::Reports { seq, reports }),
            Action::Saves(saves) => came.wire.push(Wire::Saves(saves)),
            Action::Forget(id) => {
                self.processes.remove(&id);
            }
            Action::Refused(_) => {}
            Action::WakeAt(at) => {
                self.wake = Some(at);
                came.local.push((at, Local::Wake(at)));
            }
        }
    }

    fn launch(&mut self, item: &Assignment, at: Timestamp, came: &mut Came) {
        let process = Process { gpus: item.gpus.clone(), is_there: false, news: Vec::new() };
        assert!(self.processes.insert(item.id(), process).is_none(), "{:?} is launched once", item.id());
        came.local.push((at, Local::Start(item.id())));
    }

    /// Something happens on the machine; `fails` says that a launch does.
    pub fn happen(&mut self, local: Local, now: Timestamp, fails: bool, random: &mut Random) -> Came {
        match local {
            Local::Start(id) => self.start(id, now, fails, random),
            Local::Exit(id, by) => self.exit(id, by, now, random),
            Local::Gone(id) => {
                let Some(process) = self.processes.get_mut(&id) else { return Came::default() };
                process.is_there = false;
                self.news(id, now, RankNews::Gone, random)
            }
            Local::Looked(look) => {
                let gpus =
                    (0..self.gpus).filter(|at| self.hidden != Some(*at)).map(|at| self.gpu(at)).collect();
                self.tell(Event::Looked { look, gpus }, now, random)
            }
            Local::Wake(at) if self.wake == Some(at) => {
                self.wake = None;
                self.tell(Event::Woke, now, random)
            }
            Local::Wake(_) => Came::default(),
        }
    }

    fn gpu(&self, at: u32) -> (GpuUuid, GpuUse) {
        let uuid = self.uuid(at);
        let is_busy = self.processes.values().any(|p| p.is_there && p.gpus.contains(&uuid));
        (uuid, if is_busy { GpuUse::Busy { pid: 7 } } else { GpuUse::Empty })
    }

    fn start(&mut self, id: RankId, now: Timestamp, fails: bool, random: &mut Random) -> Came {
        let Some(process) = self.processes.get(&id).filter(|process| process.news.is_empty()) else {
            return Came::default();
        };
        if fails {
            let news = RankNews::LaunchFailed { fault: Fault::Node, what: String::from("no disk") };
            let mut came = self.news(id, now, news, random);
            came.local.push((now.plus(Span::from_millis(5)), Local::Gone(id)));
            return came;
        }
        let shares = |(other, of): (&RankId, &Process)| {
            *other != id && of.is_there && of.gpus.iter().any(|gpu| process.gpus.contains(gpu))
        };
        let is_shared = self.processes.iter().any(shares);
        assert!(!is_shared, "{id:?} starts on a GPU of {} that another rank has", self.name);
        if let Some(process) = self.processes.get_mut(&id) {
            process.is_there = true;
        }
        let mut came = self.news(id, now, RankNews::Started, random);
        let lasts = Span::from_secs(5 + random.below(120));
        came.local.push((now.plus(lasts), Local::Exit(id, EndedBy::Itself)));
        if random.one_in(2) {
            let news = RankNews::Saved { saved_at: Some(now), signed_at: Some(now) };
            came.extend(self.news(id, now, news, random));
        }
        came
    }

    fn exit(&mut self, id: RankId, by: EndedBy, now: Timestamp, random: &mut Random) -> Came {
        let has_ended = |process: &Process| {
            let is_end =
                |news: &RankNews| matches!(news, RankNews::Exited { .. } | RankNews::LaunchFailed { .. });
            process.news.iter().any(|(_, news)| is_end(news))
        };
        if self.processes.get(&id).is_none_or(has_ended) {
            return Came::default();
        }
        let code = if by == EndedBy::Itself && random.one_in(8) { 1 } else { 0 };
        let news = RankNews::Exited { exit: Exit::Code(code), by, saved_at: None };
        let mut came = self.news(id, now, news, random);
        came.local.push((now.plus(Span::from_millis(1 + random.below(200))), Local::Gone(id)));
        came
    }

    fn news(&mut self, id: RankId, at: Timestamp, news: RankNews, random: &mut Random) -> Came {
        if let Some(process) = self.processes.get_mut(&id) {
            process.news.push((at, news.clone()));
        }
        self.tell(Event::Rank { id, at, news }, at, random)
    }
}

impl Came {
    pub fn extend(&mut self, other: Self) {
        self.local.extend(other.local);
        self.wire.extend(other.wire);
    }
}
