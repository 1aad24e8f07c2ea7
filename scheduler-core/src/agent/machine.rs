//! The agent's own decisions: events in, actions out. The shell carries them out and never decides.
//!
//! ```text
//!             Run              GPUs proven empty        shim            main process ended     no process left,
//!   (no rank) ───> fenced ───────────────────> starting ───> running ──────────────────> ended ────────────> freed
//!                    │ Stop, or not in time                     │ not in a set: Unknown       GPUs proven empty
//!                    └──────────────> ended                     └ Stop: handed to the shim
//! ```
//!
//! - A rank that a set doesn't name is never stopped: it is reported, and the control plane commits what becomes of it.
//! - A set below the highest token seen, or of another control plane, changes nothing. The token is persisted before
//!   anything is done by it.
//! - Reports stay until acknowledged, and are sent again on every new link.
//! - A GPU is empty only by a look that began after its last process was gone.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Assignment, Assignments, EndedBy, Fault, Order, RankEvent, RankId, Report, Token};
use crate::id::{ClusterId, Generation, GpuUuid};
use crate::job::Exit;
use crate::unit::{Span, Timestamp};

/// The most reports of one batch.
const BATCH_MAX: usize = 512;
/// How long a rank waits for its GPUs to be empty before its launch has failed.
const FENCE_LIMIT: Span = Span::from_secs(30);
/// Pause between two looks at GPUs that are not empty yet.
const LOOK_PAUSE: Span = Span::from_millis(250);

/// What the shell tells the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The link is up: the control plane has this agent's hello.
    LinkUp,
    /// The link is gone.
    LinkDown,
    /// A set arrived.
    Set(Assignments),
    /// A batch of reports is committed.
    Acked {
        /// Its number.
        seq: u64,
    },
    /// Something happened to a rank.
    Rank {
        /// Which.
        id: RankId,
        /// When, in cluster time.
        at: Timestamp,
        /// What.
        news: RankNews,
    },
    /// All GPUs were looked at. One that is missing here is unknown.
    Looked {
        /// The highest number of a look asked for before this one began.
        look: u64,
        /// What is on them.
        gpus: Vec<(GpuUuid, GpuUse)>,
    },
    /// The time asked for has come.
    Woke,
}

/// What can happen to a rank on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankNews {
    /// Its program runs.
    Started,
    /// Its main process ended.
    Exited {
        /// How.
        exit: Exit,
        /// What made it end.
        by: EndedBy,
    },
    /// It has no process and never will.
    LaunchFailed {
        /// Who is to blame.
        fault: Fault,
        /// What went wrong.
        what: String,
    },
    /// No process of it is left.
    Gone,
}

/// What is on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuUse {
    /// Nothing.
    Empty,
    /// At least this process.
    Busy {
        /// Its process id.
        pid: u32,
    },
    /// Nobody can say: not empty.
    Unknown,
}

/// What the machine asks of its shell, to be done in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Make the token durable; nothing after it may be done before.
    Persist(Token),
    /// Fetch the spec and launch the rank.
    Launch(Assignment),
    /// Hand a stop to the rank's shim.
    Stop {
        /// Which rank.
        id: RankId,
        /// Generation of the order.
        generation: Generation,
        /// Why, for the job.
        reason: String,
        /// From the end signal to the kill.
        grace: Span,
    },
    /// Look at the GPUs, beginning now or later, and answer with this number.
    Look(u64),
    /// Send a batch of reports.
    Send {
        /// Its number.
        seq: u64,
        /// The reports, in order.
        reports: Vec<Report>,
    },
    /// Everything about the rank is committed: its directory may go.
    Forget(RankId),
    /// The set was refused; said once a set.
    Refused(Refusal),
    /// Call again at this time.
    WakeAt(Timestamp),
}

/// Why a set was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Another control plane made it.
    OtherCluster,
    /// A higher token was seen.
    Stale {
        /// The highest one.
        seen: Token,
    },
}

/// How far a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Ordered to run; its GPUs are not yet proven empty by a look with this number.
    Fenced { since: Timestamp, look: u64 },
    /// Handed to the executor.
    Starting,
    /// Has or may have a process.
    Running,
    /// Its main process ended; processes of it may be left.
    Ended,
    /// No process of it is left; its GPUs are not yet proven empty by a look with this number.
    Gone { look: u64 },
    /// Its GPUs are proven empty.
    Freed,
}

#[derive(Debug, Clone)]
struct RankState {
    /// The newest item about it; none for an adopted rank that no set has named yet.
    item: Option<Assignment>,
    gpus: Vec<GpuUuid>,
    generation: Generation,
    stopped: Option<Generation>,
    life: Life,
    is_in_set: bool,
    is_unknown_told: bool,
}

/// The machine of one agent.
#[derive(Debug, Clone)]
pub struct Agent {
    cluster: ClusterId,
    seen: Token,
    ranks: BTreeMap<RankId, RankState>,
    gpus: BTreeMap<GpuUuid, GpuUse>,
    /// Number of the newest look asked for, and of the newest one answered.
    asked: u64,
    answered: u64,
    next_look: Timestamp,
    unacked: VecDeque<Report>,
    in_flight: Option<(u64, usize)>,
    next_seq: u64,
    is_linked: bool,
}

impl Agent {
    /// Starts from what the node holds: the highest token that was persisted, and the ranks found there with their GPUs. What
    /// happened to them comes as events, before the first link.
    #[must_use]
    pub fn start(cluster: ClusterId, seen: Token, found: Vec<(RankId, Vec<GpuUuid>)>) -> Self {
        let adopted = |(id, gpus)| (id, RankState::new(gpus, Life::Running));
        Self {
            cluster,
            seen,
            ranks: found.into_iter().map(adopted).collect(),
            gpus: BTreeMap::new(),
            asked: 0,
            answered: 0,
            next_look: Timestamp::from_millis(0),
            unacked: VecDeque::new(),
            in_flight: None,
            next_seq: 0,
            is_linked: false,
        }
    }

    /// The highest token seen.
    #[must_use]
    pub fn seen(&self) -> Token {
        self.seen
    }

    /// Ranks that have or may have processes here.
    pub fn live(&self) -> impl Iterator<Item = RankId> {
        let is_live = |rank: &RankState| matches!(rank.life, Life::Starting | Life::Running | Life::Ended);
        self.ranks.iter().filter(move |(_, rank)| is_live(rank)).map(|(id, _)| *id)
    }

    /// Takes an event and says what is to be done. `now` is cluster time as the agent carries it.
    pub fn handle(&mut self, event: Event, now: Timestamp) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::LinkUp => {
                self.is_linked = true;
                self.in_flight = None;
                self.ranks.values_mut().for_each(|rank| rank.is_unknown_told = false);
            }
            Event::LinkDown => {
                self.is_linked = false;
                self.in_flight = None;
            }
            Event::Set(set) => self.take_set(set, now, &mut actions),
            Event::Acked { seq } => self.take_ack(seq),
            Event::Rank { id, at, news } => self.take_news(id, at, news),
            Event::Looked { look, gpus } => {
                self.answered = self.answered.max(look);
                self.gpus = gpus.into_iter().collect();
            }
            Event::Woke => {}
        }
        self.settle(now, &mut actions);
        actions
    }

    fn take_set(&mut self, set: Assignments, now: Timestamp, actions: &mut Vec<Action>) {
        if set.cluster != self.cluster {
            return actions.push(Action::Refused(Refusal::OtherCluster));
        }
        if set.token < self.seen {
            return actions.push(Action::Refused(Refusal::Stale { seen: self.seen }));
        }
        if set.token > self.seen {
            self.seen = set.token;
            actions.push(Action::Persist(set.token));
        }
        self.ranks.values_mut().for_each(|rank| rank.is_in_set = false);
        for item in set.items {
            self.take_item(item, now, actions);
        }
        self.report_unnamed(now);
    }

    fn take_item(&mut self, item: Assignment, now: Timestamp, actions: &mut Vec<Action>) {
        let id = item.id();
        let look = self.asked + 1;
        let Some(rank) = self.ranks.get_mut(&id) else {
            return self.take_new(item, now);
        };
        rank.is_in_set = true;
        if item.generation < rank.generation {
            return;
        }
        rank.generation = item.generation;
        let stop = match &item.order {
            Order::Prepare | Order::Run => None,
            Order::Stop { reason, grace, .. } => Some((reason.clone(), *grace)),
            Order::Clear => Some(("its end is committed".to_owned(), Span::from_millis(0))),
        };
        let is_new_stop = rank.stopped.is_none_or(|known| known < item.generation);
        match (stop, rank.life) {
            (Some(_), Life::Fenced { .. }) => {
                rank.life = Life::Gone { look };
                let event = RankEvent::Exited { exit: Exit::Unknown, by: EndedBy::Stop, saved_at: None };
                self.unacked.push_back(report(id, now, event));
            }
            (Some((reason, grace)), Life::Starting | Life::Running) if is_new_stop => {
                rank.stopped = Some(item.generation);
                actions.push(Action::Stop { id, generation: item.generation, reason, grace });
            }
            _ => {}
        }
        if let Some(rank) = self.ranks.get_mut(&id) {
            rank.item = Some(item);
        }
    }

    /// Takes an item about a rank of which nothing is here.
    fn take_new(&mut self, item: Assignment, now: Timestamp) {
        let (id, look) = (item.id(), self.asked + 1);
        let life = match item.order {
            Order::Prepare | Order::Run => Life::Fenced { since: now, look },
            Order::Stop { .. } => {
                let event = RankEvent::Exited { exit: Exit::Unknown, by: EndedBy::Stop, saved_at: None };
                self.unacked.push_back(report(id, now, event));
                Life::Gone { look }
            }
            Order::Clear => Life::Gone { look },
        };
        let mut rank = RankState::new(item.gpus.clone(), life);
        rank.is_in_set = true;
        rank.generation = item.generation;
        rank.item = Some(item);
        self.ranks.insert(id, rank);
    }

    /// What runs here and isn't in the set is reported, and goes on. What never ran is dropped.
    fn report_unnamed(&mut self, now: Timestamp) {
        self.ranks.retain(|_, rank| rank.is_in_set || !matches!(rank.life, Life::Fenced { .. }));
        for (id, rank) in &mut self.ranks {
            let may_run = matches!(rank.life, Life::Starting | Life::Running);
            if may_run && !rank.is_in_set && !rank.is_unknown_told {
                rank.is_unknown_told = true;
                self.unacked.push_back(report(*id, now, RankEvent::Unknown { gpus: rank.gpus.clone() }));
            }
        }
    }

    fn take_ack(&mut self, seq: u64) {
        if let Some((sent, count)) = self.in_flight
            && sent == seq
        {
            self.in_flight = None;
            self.unacked.drain(..count.min(self.unacked.len()));
        }
    }

    fn take_news(&mut self, id: RankId, at: Timestamp, news: RankNews) {
        let look = self.asked + 1;
        let Some(rank) = self.ranks.get_mut(&id) else { return };
        let (life, event) = match news {
            RankNews::Started if matches!(rank.life, Life::Starting | Life::Running) => {
                (Life::Running, Some(RankEvent::Started))
            }
            RankNews::Exited { exit, by } if matches!(rank.life, Life::Starting | Life::Running) => {
                (Life::Ended, Some(RankEvent::Exited { exit, by, saved_at: None }))
            }
            RankNews::LaunchFailed { fault, what } if matches!(rank.life, Life::Starting | Life::Running) => {
                (Life::Ended, Some(RankEvent::LaunchFailed { fault, what }))
            }
            RankNews::Gone if rank.life == Life::Ended => (Life::Gone { look }, None),
            RankNews::Started | RankNews::Exited { .. } | RankNews::LaunchFailed { .. } | RankNews::Gone => {
                return;
            }
        };
        rank.life = life;
        if let Some(event) = event {
            self.unacked.push_back(report(id, at, event));
        }
    }

    /// Moves on whatever can move on now.
    fn settle(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.free(now);
        let waits_for_owner = self.start_fenced(now, actions);
        self.look(now, waits_for_owner, actions);
        self.send(actions);
        self.forget(actions);
    }

    /// Frees the ranks whose GPUs a fresh look found empty.
    fn free(&mut self, now: Timestamp) {
        for (id, rank) in &mut self.ranks {
            let Life::Gone { look } = rank.life else { continue };
            let is_empty = |gpu| self.gpus.get(gpu) == Some(&GpuUse::Empty);
            if self.answered >= look && rank.gpus.iter().all(is_empty) {
                rank.life = Life::Freed;
                self.unacked.push_back(report(*id, now, RankEvent::Freed));
            }
        }
    }

    /// Starts the ranks whose GPUs are nobody's, or fails those that waited too long. Says whether one waits for another rank.
    fn start_fenced(&mut self, now: Timestamp, actions: &mut Vec<Action>) -> bool {
        let fenced: Vec<RankId> = self
            .ranks
            .iter()
            .filter(|(_, rank)| matches!(rank.life, Life::Fenced { .. }))
            .map(|(id, _)| *id)
            .collect();
        let mut waits_for_owner = false;
        for id in fenced {
            let Some(obstacle) = self.obstacle(id) else {
                if let Some(rank) = self.ranks.get_mut(&id)
                    && let Some(item) = rank.item.clone()
                {
                    rank.life = Life::Starting;
                    actions.push(Action::Launch(item));
                }
                continue;
            };
            waits_for_owner |= obstacle.is_owner;
            let asked = self.asked;
            if let Some(rank) = self.ranks.get_mut(&id)
                && rank.is_too_late(now)
            {
                rank.life = Life::Gone { look: asked + 1 };
                let event = RankEvent::LaunchFailed { fault: Fault::Node, what: obstacle.what };
                self.unacked.push_back(report(id, now, event));
            }
        }
        waits_for_owner
    }

    /// What keeps a fenced rank from starting.
    fn obstacle(&self, id: RankId) -> Option<Obstacle> {
        let rank = self.ranks.get(&id)?;
        let Life::Fenced { look, .. } = rank.life else { return None };
        let owner = self.ranks.iter().find(|(other, state)| {
            let holds = !matches!(state.life, Life::Freed | Life::Fenced { .. });
            **other != id && holds && state.gpus.iter().any(|gpu| rank.gpus.contains(gpu))
        });
        if let Some((other, _)) = owner {
            let what = format!("its GPUs are still with {}", other.attempt);
            return Some(Obstacle { what, is_owner: true });
        }
        let obstacle = |what| Some(Obstacle { what, is_owner: false });
        if self.answered < look {
            return obstacle("the node's GPUs have not been looked at in time".to_owned());
        }
        rank.gpus.iter().find_map(|gpu| match self.gpus.get(gpu) {
            Some(GpuUse::Empty) => None,
            Some(GpuUse::Busy { pid }) => obstacle(format!("process {pid} is on GPU {gpu}")),
            Some(GpuUse::Unknown) => obstacle(format!("it is not known what is on GPU {gpu}")),
            None => obstacle(format!("the node does not see GPU {gpu}")),
        })
    }

    /// Asks for a look if a rank needs one: at once the first time, then with pauses.
    fn look(&mut self, now: Timestamp, waits_for_owner: bool, actions: &mut Vec<Action>) {
        let needed = self
            .ranks
            .values()
            .filter_map(|rank| match rank.life {
                Life::Fenced { look, .. } | Life::Gone { look } => Some(look),
                Life::Starting | Life::Running | Life::Ended | Life::Freed => None,
            })
            .max();
        let Some(needed) = needed else { return };
        let is_outstanding = self.asked > self.answered;
        if is_outstanding {
            return;
        }
        if needed > self.answered || (!waits_for_owner && now >= self.next_look) {
            self.asked += 1;
            self.next_look = now.plus(LOOK_PAUSE);
            actions.push(Action::Look(self.asked));
        } else {
            // Also for a rank that only waits for another one: its time to start may run out.
            self.next_look = self.next_look.max(now.plus(Span::from_millis(1)));
            actions.push(Action::WakeAt(self.next_look));
        }
    }

    fn send(&mut self, actions: &mut Vec<Action>) {
        if !self.is_linked || self.in_flight.is_some() || self.unacked.is_empty() {
            return;
        }
        self.next_seq += 1;
        let reports: Vec<Report> = self.unacked.iter().take(BATCH_MAX).cloned().collect();
        self.in_flight = Some((self.next_seq, reports.len()));
        actions.push(Action::Send { seq: self.next_seq, reports });
    }

    /// Forgets ranks that are freed, all of it acknowledged, and no longer named.
    fn forget(&mut self, actions: &mut Vec<Action>) {
        let unacked = &self.unacked;
        self.ranks.retain(|id, rank| {
            let is_told = unacked.iter().all(|report| report.attempt != id.attempt || report.rank != id.rank);
            let is_over = rank.life == Life::Freed && is_told && !rank.is_in_set;
            if is_over {
                actions.push(Action::Forget(*id));
            }
            !is_over
        });
    }
}

struct Obstacle {
    what: String,
    is_owner: bool,
}

impl RankState {
    fn new(gpus: Vec<GpuUuid>, life: Life) -> Self {
        let generation = Generation::new(0);
        Self { item: None, gpus, generation, stopped: None, life, is_in_set: false, is_unknown_told: false }
    }

    /// Says whether a fenced rank may no longer start.
    fn is_too_late(&self, now: Timestamp) -> bool {
        let Life::Fenced { since, .. } = self.life else { return false };
        let start_by = self.item.as_ref().map_or(now, |item| item.start_by);
        now > start_by || now.since(since) >= FENCE_LIMIT
    }
}

fn report(id: RankId, at: Timestamp, event: RankEvent) -> Report {
    Report { attempt: id.attempt, rank: id.rank, at, event }
}
