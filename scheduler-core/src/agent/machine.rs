//! The agent's own decisions: events in, actions out. The shell carries them out and never decides.
//!
//! ```text
//!        Prepare, Run    Run, GPUs proven empty      shim            main process ended     no process left,
//!   (no rank) ───> fenced ───────────────────> starting ───> running ──────────────────> ended ────────────> freed
//!                    │ Prepare, GPUs proven empty: Ready        │ not in a set: Unknown       GPUs proven empty
//!                    │ Stop, or not in time                     └ Stop: handed to the shim
//!                    └──────────────> gone
//! ```
//!
//! - Prepare waits for whoever has the GPUs as long as the latest start allows, and starts nothing. Run looks again.
//! - A rank that a set doesn't name is never stopped: it is reported, and the control plane commits what becomes of it.
//! - A set below the highest token seen, or of another control plane, changes nothing. The token is persisted before
//!   anything is done by it.
//! - Reports stay until acknowledged, and are sent again on every new link.
//! - A GPU is empty only by a look that began after its last process was gone.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{
    Action, Assignment, Assignments, EndedBy, Event, Fault, GpuUse, Order, RankEvent, RankId, RankNews,
    Refusal, Report, Token,
};
use crate::command::Saved;
use crate::id::{ClusterId, Generation, GpuUuid};
use crate::job::Exit;
use crate::unit::{Span, Timestamp};

/// The most reports of one batch.
const BATCH_MAX: usize = 512;
/// How long a rank that should run waits for its GPUs to be empty before its launch has failed.
const FENCE_LIMIT: Span = Span::from_secs(30);
/// Pause between two looks at GPUs that are not empty yet.
const LOOK_PAUSE: Span = Span::from_millis(250);
/// The shortest time between two tellings of checkpoints.
const SAVES_PAUSE: Span = Span::from_secs(1);

/// How far a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// To be prepared or to run, since then; its GPUs are not yet proven empty by a look with this number.
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
    /// Whether its preparation is done and reported.
    is_ready: bool,
    is_unkillable_told: bool,
    saved_at: Option<Timestamp>,
    signed_at: Option<Timestamp>,
    /// Whether the leader has not been told of these yet.
    is_save_due: bool,
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
    next_saves: Timestamp,
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
            next_look: Timestamp::ZERO,
            next_saves: Timestamp::ZERO,
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
                for rank in self.ranks.values_mut() {
                    rank.is_unknown_told = false;
                    rank.is_save_due = rank.saved_at.is_some() || rank.signed_at.is_some();
                }
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
        let is_new_stop = rank.stopped.is_none_or(|known| known < item.generation);
        match (&item.order, rank.life) {
            (Order::Run, Life::Fenced { .. }) if rank.is_preparing() => {
                // What was found at the preparation may be long ago.
                rank.is_ready = false;
                rank.life = Life::Fenced { since: now, look };
            }
            (Order::Prepare, Life::Fenced { .. }) if !rank.is_preparing() => {
                rank.life = Life::Fenced { since: now, look };
            }
            (Order::Stop { has_notice, .. }, Life::Fenced { .. }) => {
                rank.life = Life::Gone { look };
                self.unacked.push_back(report(id, now, never_ran(*has_notice)));
            }
            (Order::Clear, Life::Fenced { .. }) => rank.life = Life::Gone { look },
            (Order::Stop { reason, grace, has_notice }, Life::Starting | Life::Running) if is_new_stop => {
                rank.stopped = Some(item.generation);
                actions.push(Action::Stop {
                    id,
                    generation: item.generation,
                    reason: reason.clone(),
                    grace: *grace,
                    has_notice: *has_notice,
                });
            }
            (Order::Clear, Life::Starting | Life::Running) if is_new_stop => {
                rank.stopped = Some(item.generation);
                actions.push(Action::Stop {
                    id,
                    generation: item.generation,
                    reason: "its end is committed".to_owned(),
                    grace: Span::ZERO,
                    has_notice: false,
                });
            }
            // What runs is prepared; what has ended needs no stop, and its shim leaves nothing behind.
            (Order::Prepare | Order::Run | Order::Stop { .. } | Order::Clear, _) => {}
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
            Order::Stop { has_notice, .. } => {
                self.unacked.push_back(report(id, now, never_ran(has_notice)));
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
        let next_saves = &mut self.next_saves;
        let Some(rank) = self.ranks.get_mut(&id) else { return };
        let may_run = matches!(rank.life, Life::Starting | Life::Running);
        let event = match news {
            RankNews::Started if may_run => {
                rank.life = Life::Running;
                Some(RankEvent::Started)
            }
            RankNews::Exited { exit, by, saved_at } if may_run => {
                rank.life = Life::Ended;
                // What it said last has to come before its end, or is worth nothing.
                if rank.is_save_due {
                    *next_saves = Timestamp::ZERO;
                }
                Some(RankEvent::Exited { exit, by, saved_at: saved_at.max(rank.saved_at) })
            }
            RankNews::LaunchFailed { fault, what } if may_run => {
                rank.life = Life::Ended;
                Some(RankEvent::LaunchFailed { fault, what })
            }
            RankNews::Saved { saved_at, signed_at } if may_run => {
                rank.note_progress(saved_at, signed_at);
                None
            }
            // Its GPUs stay with it until they are proven empty.
            RankNews::Unkillable { what }
                if !rank.is_unkillable_told && (may_run || rank.life == Life::Ended) =>
            {
                rank.is_unkillable_told = true;
                Some(RankEvent::Unkillable { what })
            }
            RankNews::Gone if rank.life == Life::Ended => {
                rank.life = Life::Gone { look };
                None
            }
            RankNews::Started
            | RankNews::Exited { .. }
            | RankNews::LaunchFailed { .. }
            | RankNews::Saved { .. }
            | RankNews::Unkillable { .. }
            | RankNews::Gone => None,
        };
        if let Some(event) = event {
            self.unacked.push_back(report(id, at, event));
        }
    }

    /// Moves on whatever can move on now.
    fn settle(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.free(now);
        let fenced = self.fence(now, actions);
        let look = self.look(now, fenced.wants_look, actions);
        let saves = self.tell_saves(now, actions);
        self.send(actions);
        self.forget(actions);
        if let Some(at) = [fenced.wake_at, look, saves].into_iter().flatten().min() {
            actions.push(Action::WakeAt(at.max(now.plus(Span::from_millis(1)))));
        }
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

    /// Starts the ranks whose GPUs are nobody's, reports those that are prepared, and fails those that waited too long.
    fn fence(&mut self, now: Timestamp, actions: &mut Vec<Action>) -> Fence {
        let waiting = |rank: &RankState| matches!(rank.life, Life::Fenced { .. }) && !rank.is_ready;
        let fenced: Vec<RankId> =
            self.ranks.iter().filter(|(_, rank)| waiting(rank)).map(|(id, _)| *id).collect();
        let mut fence = Fence { wants_look: false, wake_at: None };
        for id in fenced {
            let obstacle = self.obstacle(id);
            let asked = self.asked;
            let Some(rank) = self.ranks.get_mut(&id) else { continue };
            let Some(item) = rank.item.clone() else { continue };
            let is_late = now > item.start_by;
            match obstacle {
                None if !is_late && item.order == Order::Prepare => {
                    rank.is_ready = true;
                    self.unacked.push_back(report(id, now, RankEvent::Ready));
                }
                None if !is_late => {
                    rank.life = Life::Starting;
                    actions.push(Action::Launch(Box::new(item)));
                }
                obstacle if is_late || rank.is_fence_over(now) => {
                    rank.life = Life::Gone { look: asked + 1 };
                    let what =
                        obstacle.map_or_else(|| "it was told to run too late".to_owned(), |it| it.what);
                    let event = RankEvent::LaunchFailed { fault: Fault::Node, what };
                    self.unacked.push_back(report(id, now, event));
                }
                obstacle => {
                    fence.wants_look |= obstacle.is_some_and(|obstacle| !obstacle.is_owner);
                    fence.wake_at = fence.wake_at.into_iter().chain(rank.fails_at()).min();
                }
            }
        }
        fence
    }

    /// What keeps a fenced rank from starting.
    fn obstacle(&self, id: RankId) -> Option<Obstacle> {
        let rank = self.ranks.get(&id)?;
        let Life::Fenced { look, .. } = rank.life else { return None };
        let holds = |life| !matches!(life, Life::Freed | Life::Fenced { .. });
        if let Some(owner) = self.owner(id, holds) {
            let what = format!("its GPUs are still with {}", owner.attempt);
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

    /// Another rank in such a life that shares a GPU with this one.
    fn owner(&self, id: RankId, is_in: impl Fn(Life) -> bool) -> Option<RankId> {
        let rank = self.ranks.get(&id)?;
        let owns = |(other, state): &(&RankId, &RankState)| {
            **other != id && is_in(state.life) && state.gpus.iter().any(|gpu| rank.gpus.contains(gpu))
        };
        self.ranks.iter().find(owns).map(|(other, _)| *other)
    }

    /// Asks for a look if a rank needs one: at once the first time, then with pauses. Returns when to think of it again.
    fn look(&mut self, now: Timestamp, fence_wants: bool, actions: &mut Vec<Action>) -> Option<Timestamp> {
        let lives = |life| matches!(life, Life::Starting | Life::Running | Life::Ended);
        let mut wants = fence_wants;
        let mut needed = 0;
        for (id, rank) in &self.ranks {
            match rank.life {
                Life::Fenced { look, .. } if !rank.is_ready => needed = needed.max(look),
                Life::Gone { look } => {
                    needed = needed.max(look);
                    // As long as somebody else works there, no look will find them empty.
                    wants |= self.owner(*id, lives).is_none();
                }
                Life::Fenced { .. } | Life::Starting | Life::Running | Life::Ended | Life::Freed => {}
            }
        }
        let is_outstanding = self.asked > self.answered;
        if is_outstanding || (needed <= self.answered && !wants) {
            return None;
        }
        // A clock that was set back must not make a pause of hours.
        let is_due = now >= self.next_look || self.next_look > now.plus(LOOK_PAUSE);
        if needed <= self.answered && !is_due {
            return Some(self.next_look);
        }
        self.asked += 1;
        self.next_look = now.plus(LOOK_PAUSE);
        actions.push(Action::Look(self.asked));
        None
    }

    /// Tells the leader what it has not heard of checkpoints, with pauses. Returns when to think of it again.
    fn tell_saves(&mut self, now: Timestamp, actions: &mut Vec<Action>) -> Option<Timestamp> {
        let is_due = |rank: &RankState| rank.is_save_due;
        if !self.is_linked || !self.ranks.values().any(is_due) {
            return None;
        }
        if now < self.next_saves && self.next_saves <= now.plus(SAVES_PAUSE) {
            return Some(self.next_saves);
        }
        self.next_saves = now.plus(SAVES_PAUSE);
        let due = self.ranks.iter_mut().filter(|(_, rank)| rank.is_save_due);
        let saves = due.map(|(id, rank)| {
            rank.is_save_due = false;
            Saved { attempt: id.attempt, saved_at: rank.saved_at, signed_at: rank.signed_at }
        });
        actions.push(Action::Saves(saves.collect()));
        None
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

/// What the fenced ranks wait for.
struct Fence {
    wants_look: bool,
    /// When the first of them has waited too long.
    wake_at: Option<Timestamp>,
}

impl RankState {
    fn new(gpus: Vec<GpuUuid>, life: Life) -> Self {
        Self {
            item: None,
            gpus,
            generation: Generation::new(0),
            stopped: None,
            life,
            is_in_set: false,
            is_unknown_told: false,
            is_ready: false,
            is_unkillable_told: false,
            saved_at: None,
            signed_at: None,
            is_save_due: false,
        }
    }

    fn is_preparing(&self) -> bool {
        self.item.as_ref().is_some_and(|item| item.order == Order::Prepare)
    }

    /// Says whether a rank that should run has waited too long for its GPUs. One that is prepared waits for others, and may.
    fn is_fence_over(&self, now: Timestamp) -> bool {
        let Life::Fenced { since, .. } = self.life else { return false };
        !self.is_preparing() && now.since(since) >= FENCE_LIMIT
    }

    /// When it will have waited too long.
    fn fails_at(&self) -> Option<Timestamp> {
        let Life::Fenced { since, .. } = self.life else { return None };
        let late_at = self.item.as_ref()?.start_by.plus(Span::from_millis(1));
        Some(if self.is_preparing() { late_at } else { late_at.min(since.plus(FENCE_LIMIT)) })
    }

    /// Takes what is newer: a rank's newest checkpoint, and its first sign.
    fn note_progress(&mut self, saved_at: Option<Timestamp>, signed_at: Option<Timestamp>) {
        let saved_at = saved_at.max(self.saved_at);
        let signed_at = self.signed_at.or(signed_at);
        self.is_save_due |= saved_at != self.saved_at || signed_at != self.signed_at;
        (self.saved_at, self.signed_at) = (saved_at, signed_at);
    }
}

/// The end of a rank that a stop kept from ever having a process.
fn never_ran(has_notice: bool) -> RankEvent {
    let by = if has_notice { EndedBy::Notice } else { EndedBy::Stop };
    RankEvent::Exited { exit: Exit::Unknown, by, saved_at: None }
}

fn report(id: RankId, at: Timestamp, event: RankEvent) -> Report {
    Report { attempt: id.attempt, rank: id.rank, at, event }
}
