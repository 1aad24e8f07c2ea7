//! Who is linked, who was heard of when, and when silence becomes a fact.
//!
//! A node is `silent` here, in memory, and gets no new work; it is `unreachable` once that is committed. Two brakes
//! keep a fault of the control plane's own from looking like a fault of its nodes (DESIGN 9).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::Session;
use crate::id::{Name, NodeId};
use crate::node::{Contact, Node};
use crate::plan::Links;
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// A leader younger than this waits for [`BACK_PER_CENT`] of the nodes before it calls one unreachable.
const YOUNG: Span = Span::from_mins(3);
const BACK_PER_CENT: usize = 90;
/// More than this many, and more than this part of a cluster, going silent within [`MASS_WITHIN`]: nobody is unreachable.
const MASS_LEAST: usize = 5;
const MASS_PER_CENT: usize = 10;
const MASS_WITHIN: Span = Span::from_secs(40);
/// A node that is overdue, by a brake or because its fact is on its way, is looked at again this often.
const LOOK_AGAIN: Span = Span::from_secs(5);
/// The same fact about a node is proposed at most this often.
const ASK_EVERY: Span = Span::from_secs(1);
/// Batches of reports that an agent may have unanswered.
const UNACKED_MAX: u32 = 256;

/// No moment that ever comes.
const END: Timestamp = Timestamp::from_millis(u64::MAX);

/// One agent's connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub session: Session,
    /// Its hello's facts are committed: what state says of the node is about this boot of it.
    pub is_known: bool,
    pub unacked: u32,
    pub last_seq: Option<u64>,
}

/// What becomes of a batch of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It goes into the log.
    New,
    /// Of a connection that is no more, or already on its way.
    Ignored,
    /// One too many without an answer.
    TooMany,
}

/// All connections, and when each node was last heard of.
#[derive(Debug)]
pub(super) struct Contacts {
    since: Timestamp,
    links: BTreeMap<NodeId, Link>,
    heard: BTreeMap<NodeId, Timestamp>,
    asked: BTreeMap<NodeId, Timestamp>,
    /// When silence has to be looked at again.
    look_at: Timestamp,
}

/// What silence and return ask for.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub unreachable: Vec<NodeId>,
    pub back: Vec<NodeId>,
}

impl Contacts {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            since: now,
            links: BTreeMap::new(),
            heard: BTreeMap::new(),
            asked: BTreeMap::new(),
            look_at: now,
        }
    }

    pub(super) fn up(&mut self, node: NodeId, session: Session, now: Timestamp) {
        self.links.insert(node, Link { session, is_known: false, unacked: 0, last_seq: None });
        self.heard(node, now);
        self.look_now(now);
    }

    /// Returns whether it was the node's connection, and not one that a newer one had replaced.
    pub(super) fn down(&mut self, node: NodeId, session: Session) -> bool {
        let is_current = self.is_current(node, session);
        if is_current {
            self.links.remove(&node);
        }
        is_current
    }

    pub(super) fn is_current(&self, node: NodeId, session: Session) -> bool {
        self.links.get(&node).is_some_and(|link| link.session == session)
    }

    pub(super) fn is_known(&self, node: NodeId) -> bool {
        self.links.get(&node).is_some_and(|link| link.is_known)
    }

    pub(super) fn known(&mut self, node: NodeId, session: Session) -> bool {
        match self.links.get_mut(&node).filter(|link| link.session == session) {
            Some(link) => {
                link.is_known = true;
                true
            }
            None => false,
        }
    }

    /// An operator's word passed over `span` of cluster time: nobody was silent for that.
    pub(super) fn pass_over(&mut self, span: Span) {
        let later = |at: &mut Timestamp| *at = at.plus(span);
        later(&mut self.since);
        later(&mut self.look_at);
        self.heard.values_mut().chain(self.asked.values_mut()).for_each(later);
    }

    /// A linked node was heard of.
    pub(super) fn heard(&mut self, node: NodeId, now: Timestamp) {
        if self.links.contains_key(&node) {
            self.heard.insert(node, now);
        }
    }

    /// A node that was silent or not linked may be back: looks at once.
    pub(super) fn look_now(&mut self, now: Timestamp) {
        self.look_at = self.look_at.min(now);
    }

    pub(super) fn reports(&mut self, node: NodeId, session: Session, seq: u64) -> Taken {
        let Some(link) = self.links.get_mut(&node).filter(|link| link.session == session) else {
            return Taken::Ignored;
        };
        if link.last_seq.is_some_and(|last| seq <= last) {
            return Taken::Ignored;
        }
        if link.unacked >= UNACKED_MAX {
            self.links.remove(&node);
            return Taken::TooMany;
        }
        link.last_seq = Some(seq);
        link.unacked += 1;
        Taken::New
    }

    /// Returns whether the agent that sent a batch is still there to be told.
    pub(super) fn acked(&mut self, node: NodeId, session: Session) -> bool {
        match self.links.get_mut(&node).filter(|link| link.session == session) {
            Some(link) => {
                link.unacked = link.unacked.saturating_sub(1);
                true
            }
            None => false,
        }
    }

    pub(super) fn is_silent(&self, node: NodeId, state: &State, now: Timestamp) -> bool {
        is_silence(self.last(node), state, now)
    }

    fn last(&self, node: NodeId) -> Timestamp {
        self.heard.get(&node).copied().unwrap_or(self.since)
    }

    /// Returns the nodes that may get new work.
    pub(super) fn live(&self, state: &State, now: Timestamp) -> Links {
        // Both are in order: nobody is looked up.
        let mut heard = self.heard.iter().peekable();
        let known = self.links.iter().filter(|(_, link)| link.is_known).map(|(node, _)| *node);
        let mut live = Vec::with_capacity(self.links.len());
        live.extend(known.filter(|node| {
            while heard.next_if(|(id, _)| *id < node).is_some() {}
            let last = heard.peek().filter(|(id, _)| *id == node).map_or(self.since, |(_, at)| **at);
            !is_silence(last, state, now)
        }));
        Links::new(live)
    }

    /// Returns when silence has to be looked at again; none while no node is expected to be heard of.
    pub(super) fn look_at(&self) -> Option<Timestamp> {
        (self.look_at < END).then_some(self.look_at)
    }

    /// Looks at every node: who became unreachable, who is back. Each is named once, until it was answered or
    /// [`ASK_EVERY`] has passed.
    pub(super) fn look(&mut self, state: &State, now: Timestamp) -> Verdict {
        let mut verdict = Verdict::default();
        let mut next = END;
        let is_held = self.is_young_and_alone(state, now);
        let braked = self.braked_clusters(state, now);
        let settings = &state.meta.settings;
        for (id, node) in state.nodes.iter().filter(|(_, node)| node.contact == Contact::Ready) {
            let silent_at = self.last(*id).plus(settings.silent_after);
            let unreachable_at = self.last(*id).plus(settings.unreachable_after);
            if now < unreachable_at {
                next = next.min(if now < silent_at { silent_at } else { unreachable_at });
                continue;
            }
            next = next.min(now.plus(LOOK_AGAIN));
            if !is_held && !braked.contains(&node.cluster) && self.may_ask(*id, now) {
                verdict.unreachable.push(*id);
            }
        }
        let back = self.back(state, now);
        self.look_at = if back.is_empty() { next } else { next.min(now.plus(ASK_EVERY)) };
        verdict.back = back.into_iter().filter(|id| self.may_ask(*id, now)).collect();
        verdict
    }

    /// Returns the nodes that state has as unreachable and that are linked, known and heard of.
    fn back(&self, state: &State, now: Timestamp) -> Vec<NodeId> {
        let known = self.links.iter().filter(|(_, link)| link.is_known).map(|(id, _)| *id);
        let is_unreachable = |id: &NodeId| {
            let contact = state.nodes.get(id).map(|node| node.contact);
            matches!(contact, Some(Contact::Unreachable { .. }))
        };
        let is_heard = |id: &NodeId| !self.is_silent(*id, state, now);
        known.filter(|id| is_unreachable(id) && is_heard(id)).collect()
    }

    fn may_ask(&mut self, node: NodeId, now: Timestamp) -> bool {
        let is_recent = self.asked.get(&node).is_some_and(|at| now < at.plus(ASK_EVERY));
        if !is_recent {
            self.asked.insert(node, now);
        }
        !is_recent
    }

    fn is_young_and_alone(&self, state: &State, now: Timestamp) -> bool {
        if now >= self.since.plus(YOUNG) {
            return false;
        }
        let expected = state.nodes.iter().filter(|(_, node)| node.contact == Contact::Ready);
        let (mut all, mut back) = (0_usize, 0_usize);
        for (id, _) in expected {
            all += 1;
            back += usize::from(self.heard.contains_key(id));
        }
        back * 100 < all * BACK_PER_CENT
    }

    fn braked_clusters(&self, state: &State, now: Timestamp) -> BTreeSet<Name> {
        let mut silent: BTreeMap<&Name, (usize, Vec<Timestamp>)> = BTreeMap::new();
        let counted = |node: &Node| node.contact != Contact::Joined;
        for (id, node) in state.nodes.iter().filter(|(_, node)| counted(node)) {
            let (size, since) = silent.entry(&node.cluster).or_default();
            *size += 1;
            if node.contact == Contact::Ready && self.is_silent(*id, state, now) {
                since.push(self.last(*id));
            }
        }
        let is_mass = |(size, mut since): (usize, Vec<Timestamp>)| {
            let least = MASS_LEAST.max(size * MASS_PER_CENT / 100);
            since.sort_unstable();
            since.windows(least + 1).any(|run| run[least].since(run[0]) <= MASS_WITHIN)
        };
        silent
            .into_iter()
            .filter(|(_, cluster)| is_mass(cluster.clone()))
            .map(|(name, _)| name.clone())
            .collect()
    }
}

/// Whether a node that was heard of last at a moment is silent.
fn is_silence(last: Timestamp, state: &State, now: Timestamp) -> bool {
    now.since(last) >= state.meta.settings.silent_after
}
