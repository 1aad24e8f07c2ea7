//! What nodes and the leader do: mostly their work, sometimes late, and now and then they are gone.

use std::collections::BTreeMap;

use scheduler_core::agent::{EndedBy, Fault, RankEvent, Report};
use scheduler_core::command::{Command, Saved};
use scheduler_core::id::{AttemptId, AttemptNo, JobId, NodeId, Rank};
use scheduler_core::job::{Attempt, Exit};
use scheduler_core::node::Contact;
use scheduler_core::plan::{Links, plan};
use scheduler_core::principal::Actor;
use scheduler_core::unit::{Span, Timestamp};

use super::machine::Machine;
use crate::world::{REPLICA, TERM, facts};

/// The GPUs of a node.
pub(super) const GPUS: u32 = 8;

/// How an attempt goes, by its number: told from nothing else, so that every replay is alike.
fn fate(id: AttemptId) -> u32 {
    let mixed = (u64::from(id.job.get()) << 16 | u64::from(id.no.get())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u32::try_from(mixed >> 40).expect("24 bits")
}

/// How long it runs, if nobody ends it.
fn length(id: AttemptId, usual: Span) -> Span {
    let part = u64::from(fate(id) % 1_000) + 1;
    // Many are short and few are long, with the mean where it is usual.
    Span::from_millis(usual.as_millis() * part * part / 333_000 + 1_000)
}

impl Machine {
    /// Every node says what happened there since the last time.
    pub(super) fn agents(&mut self, usual: Span) {
        let mut said: BTreeMap<NodeId, Vec<Report>> = BTreeMap::new();
        let mut saves: BTreeMap<NodeId, Vec<Saved>> = BTreeMap::new();
        let now = self.now;
        for (id, attempt) in self.state.attempts.iter() {
            if attempt.started_at.is_some_and(|at| now.since(at) > Span::from_secs(30))
                && fate(*id).is_multiple_of(3)
            {
                let (saved_at, signed_at) = (Some(now.minus(Span::from_secs(5))), Some(now));
                let saved = Saved { attempt: *id, saved_at, signed_at };
                saves.entry(attempt.placements[0].node).or_default().push(saved);
            }
            for placement in &attempt.placements {
                let is_there = |node: &scheduler_core::node::Node| node.contact == Contact::Ready;
                if !self.state.nodes.get(&placement.node).is_some_and(is_there) {
                    continue;
                }
                for (at, event) in rank(*id, attempt, placement.rank, usual, now) {
                    let report = Report { attempt: *id, rank: placement.rank, at, event };
                    said.entry(placement.node).or_default().push(report);
                }
            }
        }
        let reports =
            said.into_iter().map(|(node, reports)| (Actor::Agent(node), Command::Reports { node, reports }));
        let mut items: Vec<(Actor, Command)> = reports.collect();
        if self.random.one_in(6) {
            items.extend(
                saves.into_iter().map(|(node, saves)| (Actor::Agent(node), Command::Saves { node, saves })),
            );
        }
        if !items.is_empty() {
            let _ = self.apply(REPLICA, Command::Batch(items));
        }
    }

    /// The leader plans, and what still holds of it is adopted.
    pub(super) fn plan(&mut self) {
        if self.state.line.is_empty() {
            return;
        }
        let plan = plan(&self.state, &Links::all_ready(&self.state), self.now, TERM);
        if !plan.decisions.is_empty() {
            // Between the plan and its entry the world goes on.
            self.now = self.now.plus(Span::from_millis(u64::from(self.random.below(40))));
            let _ = self.apply(REPLICA, Command::Adopt(plan));
        }
    }

    /// Nodes go and come back, restart, find processes that nobody placed, and claim what is not theirs.
    pub(super) fn trouble(&mut self) {
        let nodes: Vec<(NodeId, Contact)> =
            self.state.nodes.iter().map(|(id, node)| (*id, node.contact)).collect();
        for (node, contact) in nodes {
            if contact != Contact::Ready && self.random.one_in(20) {
                let _ = self.apply(REPLICA, Command::NodeBack { node });
            }
        }
        if self.random.one_in(400) {
            let node = self.any_node();
            let _ = self.apply(REPLICA, Command::NodeUnreachable { node });
        }
        if self.random.one_in(700) {
            self.restart();
        }
        if self.random.one_in(500) {
            self.stray();
        }
        if self.random.one_in(2_000) {
            let (node, other) = (self.any_node(), self.any_node());
            let _ = self.apply(Actor::Agent(node), Command::Reports { node: other, reports: Vec::new() });
        }
    }

    fn any_node(&mut self) -> NodeId {
        let next = self.state.meta.next_node.get();
        NodeId::new(1 + self.random.below(next.saturating_sub(1)))
    }

    fn restart(&mut self) {
        let node = self.any_node();
        let boot = format!("boot-{}", self.index);
        let text = format!("n{}", node.get() - 1);
        let mut facts = facts(&text, &boot, GPUS);
        if self.random.one_in(3) {
            facts.gpus.pop();
        }
        let _ = self.apply(Actor::Agent(node), Command::NodeFacts { node, facts });
    }

    fn stray(&mut self) {
        let node = self.any_node();
        let attempt = AttemptId { job: JobId::new(4_000_000_000), no: AttemptNo::new(1) };
        let gpus =
            self.state.nodes.get(&node).map(|node| node.gpus.iter().take(2).map(|gpu| gpu.uuid.clone()));
        let gpus = gpus.into_iter().flatten().collect();
        // Some are gone at once, some only when the node is looked at again.
        let events = if self.random.one_in(2) {
            vec![RankEvent::Freed, RankEvent::Unknown { gpus }]
        } else {
            vec![RankEvent::Unknown { gpus }, RankEvent::Freed]
        };
        for event in events {
            let report = Report { attempt, rank: Rank::new(0), at: self.now, event };
            let _ = self.apply(Actor::Agent(node), Command::Reports { node, reports: vec![report] });
        }
    }
}

/// What happened to a rank by now that is not in state yet.
fn rank(
    id: AttemptId,
    attempt: &Attempt,
    rank: Rank,
    usual: Span,
    now: Timestamp,
) -> Vec<(Timestamp, RankEvent)> {
    let Some(placement) = attempt.placements.iter().find(|placement| placement.rank == rank) else {
        return Vec::new();
    };
    if placement.freed_at.is_some() {
        return Vec::new();
    }
    if attempt.ended.is_some() || placement.exited.is_some() {
        return vec![(now, RankEvent::Freed)];
    }
    let Some(go) = attempt.go_at else {
        return if placement.ready_at.is_none() { vec![(now, RankEvent::Ready)] } else { Vec::new() };
    };
    if placement.started_at.is_none() {
        return start(id, go);
    }
    let end = |exit, by| {
        let saved_at = fate(id).is_multiple_of(5).then(|| now.minus(Span::from_secs(1)));
        vec![(now, RankEvent::Exited { exit, by, saved_at }), (now, RankEvent::Freed)]
    };
    if let Some(stop) = &attempt.stop {
        // Some need their whole grace.
        let leaves =
            if fate(id).is_multiple_of(2) { stop.at.plus(Span::from_secs(2)) } else { stop.killed_at() };
        let by = if stop.has_notice() { EndedBy::Notice } else { EndedBy::Stop };
        return if leaves <= now { end(Exit::Code(0), by) } else { Vec::new() };
    }
    let is_over = attempt.started_at.is_some_and(|at| at.plus(length(id, usual)) <= now);
    match fate(id) % 40 {
        _ if !is_over => Vec::new(),
        0..4 => end(Exit::Code(1), EndedBy::Itself),
        4..8 => end(Exit::Code(75), EndedBy::Itself),
        8 => end(Exit::Signal(9), EndedBy::Itself),
        9 => end(Exit::Unknown, EndedBy::TimeLimit),
        _ => end(Exit::Code(0), EndedBy::Itself),
    }
}

fn start(id: AttemptId, go: Timestamp) -> Vec<(Timestamp, RankEvent)> {
    let failed = |fault| RankEvent::LaunchFailed { fault, what: String::from("it did not start") };
    match fate(id) % 90 {
        0 => vec![(go, failed(Fault::Node)), (go, RankEvent::Freed)],
        1 => vec![(go, failed(Fault::Job { code: 127 })), (go, RankEvent::Freed)],
        _ => vec![(go.plus(Span::from_millis(300)), RankEvent::Started)],
    }
}
