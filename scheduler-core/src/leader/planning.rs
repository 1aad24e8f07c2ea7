//! When to plan: after a change that could let somebody start, 10 ms after the first one, one plan at a time.

use alloc::vec::Vec;

use super::Ticket;
use super::facts::RETRY;
use crate::decision::Plan;
use crate::id::{AttemptId, DecisionId, LogIndex, NodeId, Term};
use crate::job::Attempt;
use crate::plan::{Links, has_waiting, next_opening};
use crate::spec::Tier;
use crate::state::State;
use crate::table::{Boxed, Table};
use crate::unit::{Span, Timestamp};

/// Where the one plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    /// On its thread, made from the view of this index.
    Thinking(LogIndex),
    /// In the log.
    Adopting(Ticket),
}

/// What a plan depends on, except time: as long as it is the same, another plan finds nothing new. Tables by how often they
/// were written, which is known for nothing. Which nodes are open follows from these and time, and [`next_look`] knows when
/// time opens one.
#[derive(Debug, Clone)]
struct Inputs {
    line: u64,
    nodes: u64,
    budgets: u64,
    /// The last that was decided: a job that was placed since, and waits again on the same idle GPUs, is to be placed
    /// again. That old ones are forgotten tells nothing.
    decided: Option<DecisionId>,
    dates: u64,
    /// Of these only who leaves: their GPUs come free.
    attempts: Table<AttemptId, Attempt, Boxed>,
    /// Where orders arrive, on closed nodes too: who has a part there may give way.
    linked: Vec<NodeId>,
    is_safe: bool,
}

impl Inputs {
    fn of(state: &State, links: &Links) -> Self {
        Self {
            line: state.line.writes(),
            nodes: state.nodes.writes(),
            budgets: state.budgets.writes(),
            decided: last_decision(state),
            dates: state.dates.writes(),
            attempts: state.attempts.clone(),
            linked: links.nodes().collect(),
            is_safe: state.meta.safe_mode.is_some(),
        }
    }

    /// Whether a plan would be made from the same; what costs nothing to compare is compared first.
    fn are_those_of(&self, state: &State, links: &Links) -> bool {
        self.line == state.line.writes()
            && self.nodes == state.nodes.writes()
            && self.budgets == state.budgets.writes()
            && self.decided == last_decision(state)
            && self.dates == state.dates.writes()
            && self.is_safe == state.meta.safe_mode.is_some()
            && self.linked.iter().copied().eq(links.nodes())
            && leave_alike(&self.attempts, &state.attempts)
    }
}

fn last_decision(state: &State) -> Option<DecisionId> {
    state.decisions.last().map(|(id, _)| *id)
}

/// Whether in both tables the same attempts stop, and the same have ended.
fn leave_alike(one: &Table<AttemptId, Attempt, Boxed>, other: &Table<AttemptId, Attempt, Boxed>) -> bool {
    let leaves = |attempt: &Attempt| attempt.is_leaving().then_some(attempt.ended.is_some());
    let mut touched = one.touched_since(other).chain(other.touched_since(one)).map(|(id, _)| id);
    touched.all(|id| one.get(id).and_then(leaves) == other.get(id).and_then(leaves))
}

/// Returns when time alone lets somebody start who waits: a node is tried again, somebody's protection ends, a date
/// comes; and while a funded job waits, `recheck` after the last plan, since use moves all the time, and with it rights
/// and who is first.
fn next_look(state: &State, planned_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
    if state.line.is_empty() {
        return next_opening(state, now);
    }
    let (mut next_end, mut has_interruptible) = (None::<Timestamp>, false);
    for attempt in state.attempts.values().filter(|attempt| lives(attempt)) {
        match attempt.protected_until().filter(|until| now < *until) {
            Some(until) => next_end = Some(next_end.map_or(until, |next| next.min(until))),
            None => has_interruptible |= attempt.tier == Tier::Funded && !attempt.is_protected(now),
        }
    }
    // Whoever becomes first gets a date, also while everything is protected.
    let may_move = (state.meta.settings.dates || has_interruptible) && has_waiting(state, Tier::Funded);
    let recheck = may_move.then(|| planned_at.plus(state.meta.settings.recheck));
    let next_date = state.dates.values().map(|date| date.promise.at).filter(|at| now < *at).min();
    [next_opening(state, now), next_end, next_date, recheck].into_iter().flatten().min()
}

fn lives(attempt: &Attempt) -> bool {
    attempt.ended.is_none() && attempt.stop.is_none()
}

/// The leader's side of planning.
#[derive(Debug)]
pub(super) struct Planning {
    term: Term,
    debounce: Span,
    stage: Stage,
    due: Option<Timestamp>,
    /// What the last plan was made from.
    seen: Option<Inputs>,
    /// Whether it was judged since: what it saw may have been dropped.
    is_judged: bool,
    /// When it was made.
    planned_at: Timestamp,
    /// When time alone lets somebody start next.
    look_at: Option<Timestamp>,
    /// Since when a change that could let somebody start waits for a plan that says so.
    asked_at: Option<Timestamp>,
}

impl Planning {
    pub(super) fn new(term: Term, debounce: Span) -> Self {
        Self {
            term,
            debounce,
            stage: Stage::Idle,
            due: None,
            seen: None,
            is_judged: false,
            planned_at: Timestamp::ZERO,
            look_at: None,
            asked_at: None,
        }
    }

    /// Something changed.
    pub(super) fn changed(&mut self, now: Timestamp) {
        self.due.get_or_insert(now.plus(self.debounce));
        self.asked_at.get_or_insert(now);
    }

    /// Returns since when somebody might start and no round has said whether anybody does.
    pub(super) fn undecided_since(&self) -> Option<Timestamp> {
        self.asked_at
    }

    /// Returns when there is something to do.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let plan = self.due.filter(|_| self.stage == Stage::Idle);
        [plan, self.look_at.filter(|_| self.stage == Stage::Idle)].into_iter().flatten().min()
    }

    /// Returns the links to plan with, if a plan is to be made now, from `state`. A change that nobody could start by
    /// asks for none. `live` is asked only when it matters: most events change nothing that a plan depends on.
    pub(super) fn begin(
        &mut self,
        state: &State,
        now: Timestamp,
        live: impl FnOnce() -> Links,
    ) -> Option<Links> {
        if self.stage != Stage::Idle {
            return None;
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = None;
            self.seen = None;
            self.changed(now);
        }
        if self.due.is_none_or(|due| now < due) {
            return None;
        }
        self.due = None;
        let links = self.asks(state, now, live);
        // Each change is followed by this, so the end of a new backoff or protection is known in time.
        self.look_at = next_look(state, self.planned_at, now);
        links
    }

    /// Returns the links to plan with, if another plan than the last one may come of them.
    fn asks(&mut self, state: &State, now: Timestamp, live: impl FnOnce() -> Links) -> Option<Links> {
        if state.line.is_empty() {
            self.asked_at = None;
            return None;
        }
        let links = live();
        if self.seen.as_ref().is_some_and(|seen| seen.are_those_of(state, &links)) {
            if core::mem::take(&mut self.is_judged) {
                // Nothing of it was adopted, by what no input tells: a victim had its go meanwhile, for example.
                self.seen = None;
                self.due = Some(now.plus(RETRY));
            } else {
                self.asked_at = None;
            }
            return None;
        }
        (self.seen, self.is_judged) = (Some(Inputs::of(state, &links)), false);
        self.planned_at = now;
        self.stage = Stage::Thinking(state.meta.index);
        Some(links)
    }

    /// Returns the plan if it is the one that was asked for and decides something: it is to be proposed with `ticket`.
    pub(super) fn planned(&mut self, plan: Plan, ticket: Ticket) -> Option<Plan> {
        if plan.term != self.term || self.stage != Stage::Thinking(plan.index) {
            return None;
        }
        if plan.is_empty() {
            self.stage = Stage::Idle;
            // A change that came meanwhile is still to be looked at.
            self.asked_at = self.asked_at.filter(|_| self.due.is_some());
            return None;
        }
        self.stage = Stage::Adopting(ticket);
        Some(plan)
    }

    /// Returns whether `ticket` was the plan's, which is now judged.
    pub(super) fn committed(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        let is_mine = self.stage == Stage::Adopting(ticket);
        if is_mine {
            (self.stage, self.is_judged) = (Stage::Idle, true);
            self.asked_at = None;
            self.changed(now);
        }
        is_mine
    }

    /// Returns whether `ticket` was the plan's, which the log did not take: another is made a little later.
    pub(super) fn refused(&mut self, ticket: Ticket, now: Timestamp) -> bool {
        let is_mine = self.stage == Stage::Adopting(ticket);
        if is_mine {
            self.stage = Stage::Idle;
            self.seen = None;
            self.due = Some(now.plus(RETRY));
        }
        is_mine
    }
}
