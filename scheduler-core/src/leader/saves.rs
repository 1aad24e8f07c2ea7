//! What ranks said of their progress. It lives here: the log has the first sign of each attempt at once, and the newest
//! checkpoints of all with that or once a minute, in one entry; a decision carries as evidence what it counted.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::command::{Command, Saved};
use crate::id::{AttemptId, NodeId};
use crate::job::Attempt;
use crate::state::State;
use crate::table::Table;
use crate::unit::{Span, Timestamp};

/// Checkpoints wait for an entry that is written anyway, at most so long after the last one.
const EVERY: Span = Span::from_mins(1);
/// What was said before the attempt's start is committed is looked at again after this.
const STARTS_SOON: Span = Span::from_secs(1);
/// The most attempts that are remembered: more than run on 100,000 GPUs.
const KNOWN_MAX: usize = 100_000;
/// The most reports of one command.
const COMMAND_MAX: usize = 256;

/// The newest of each attempt, and when it is due in the log.
#[derive(Debug, Default)]
pub(super) struct Saves {
    known: BTreeMap<AttemptId, Known>,
    /// Their newest checkpoints: each plan has a copy, which costs nothing.
    newest: Table<AttemptId, Timestamp>,
    due: BTreeSet<(Timestamp, AttemptId)>,
    /// When some were proposed last.
    told_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    node: NodeId,
    saved_at: Option<Timestamp>,
    signed_at: Option<Timestamp>,
    due: Option<Timestamp>,
}

impl Saves {
    /// Takes what a rank on `node` said; nothing of an attempt that has ended or is not there, nothing from the future.
    pub(super) fn note(&mut self, state: &State, node: NodeId, said: &Saved, now: Timestamp) {
        let id = said.attempt;
        let is_here =
            |attempt: &&Attempt| attempt.ended.is_none() && attempt.placements.iter().any(|p| p.node == node);
        let Some(attempt) = state.attempts.get(&id).filter(is_here) else { return };
        if !self.known.contains_key(&id) && self.known.len() >= KNOWN_MAX {
            self.forget_ended(state);
            if self.known.len() >= KNOWN_MAX {
                return;
            }
        }
        let fresh = Known { node, saved_at: None, signed_at: None, due: None };
        let known = self.known.entry(id).or_insert(fresh);
        let saved_at = said.saved_at.map(|at| at.min(now));
        let is_newer = saved_at > known.saved_at.max(attempt.saved_at);
        let is_first = attempt.signed_at.is_none() && known.signed_at.is_none();
        if let Some(saved_at) = saved_at.filter(|_| is_newer) {
            known.saved_at = Some(saved_at);
            self.newest.insert(id, saved_at);
        }
        let sign = said.signed_at.or(saved_at).map(|at| at.min(now)).filter(|_| is_first);
        known.signed_at = known.signed_at.or(sign);
        let at = match (sign.is_some(), is_newer) {
            (true, _) => now,
            (false, true) => self.told_at.map_or(now, |told| now.max(told.plus(EVERY))),
            (false, false) => return,
        };
        if known.due.is_none_or(|due| at < due) {
            if let Some(due) = known.due.replace(at) {
                self.due.remove(&(due, id));
            }
            self.due.insert((at, id));
        }
    }

    /// Returns when something is due in the log.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Returns what is new, by node, once any of it is due. What a rank said before the start of all ranks is committed
    /// waits for that: until then it would be dropped, and nobody says a first sign again.
    pub(super) fn take(&mut self, state: &State, now: Timestamp) -> Vec<(NodeId, Command)> {
        let mut told = Vec::new();
        while let Some((at, id)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, id));
            self.go_on(state, id, now.plus(STARTS_SOON), &mut told);
        }
        if told.is_empty() {
            return Vec::new();
        }
        for (at, id) in core::mem::take(&mut self.due) {
            self.go_on(state, id, at, &mut told);
        }
        self.told_at = Some(now);
        let mut by_node: BTreeMap<NodeId, Vec<Saved>> = BTreeMap::new();
        told.into_iter().for_each(|(node, saved)| by_node.entry(node).or_default().push(saved));
        let parts = |(node, saves): (NodeId, Vec<Saved>)| {
            let parts: Vec<Command> =
                saves.chunks(COMMAND_MAX).map(|part| Command::Saves { node, saves: part.to_vec() }).collect();
            parts.into_iter().map(move |command| (node, command))
        };
        by_node.into_iter().flat_map(parts).collect()
    }

    /// Tells what is known of an attempt that was due; at `later`, if it has not started.
    fn go_on(&mut self, state: &State, id: AttemptId, later: Timestamp, told: &mut Vec<(NodeId, Saved)>) {
        if !lives(state, id) {
            return self.forget(id);
        }
        let Some(known) = self.known.get_mut(&id) else { return };
        if state.attempts.get(&id).is_some_and(|attempt| attempt.started_at.is_none()) {
            known.due = Some(later);
            self.due.insert((later, id));
            return;
        }
        known.due = None;
        told.push((known.node, Saved { attempt: id, saved_at: known.saved_at, signed_at: known.signed_at }));
    }

    /// Returns the newest checkpoint of each attempt that lives, and of some that ended.
    pub(super) fn newest(&self) -> Table<AttemptId, Timestamp> {
        self.newest.clone()
    }

    /// Drops what is known of attempts that have ended, once half of all have: their end had the newest with it.
    pub(super) fn tidy(&mut self, state: &State) {
        if self.known.len() > 2 * state.attempts.len() {
            self.forget_ended(state);
        }
    }

    fn forget_ended(&mut self, state: &State) {
        let ended: Vec<AttemptId> = self.known.keys().copied().filter(|id| !lives(state, *id)).collect();
        ended.into_iter().for_each(|id| self.forget(id));
    }

    fn forget(&mut self, id: AttemptId) {
        self.newest.remove(&id);
        if let Some(due) = self.known.remove(&id).and_then(|known| known.due) {
            self.due.remove(&(due, id));
        }
    }
}

fn lives(state: &State, id: AttemptId) -> bool {
    state.attempts.get(&id).is_some_and(|attempt| attempt.ended.is_none())
}
