//! What changes by time alone needs an entry to change in state: when one is due and nothing else is written, the leader
//! proposes an empty one.

use alloc::collections::BTreeSet;

use crate::lifecycle::drain;
use crate::state::{State, Timer};
use crate::table::Table;
use crate::unit::{Span, Timestamp};

/// An entry that was asked for is asked for again after this.
const ASK_EVERY: Span = Span::from_secs(1);

/// The moments at which somebody has to be told something, or may start.
#[derive(Debug)]
pub(super) struct Ticks {
    timers: Table<(Timestamp, Timer), ()>,
    due: BTreeSet<(Timestamp, Timer)>,
    not_before: Timestamp,
}

impl Ticks {
    pub(super) fn new(state: &State) -> Self {
        let due = state.timers.keys().filter(|(_, timer)| may_matter(timer)).copied().collect();
        Self { timers: state.timers.clone(), due, not_before: Timestamp::ZERO }
    }

    /// Takes what changed in state.
    pub(super) fn applied(&mut self, state: &State) {
        for (key, ()) in self.timers.touched_since(&state.timers) {
            if !state.timers.contains(key) {
                self.due.remove(key);
            }
        }
        for (key, ()) in state.timers.touched_since(&self.timers) {
            if may_matter(&key.1) {
                self.due.insert(*key);
            }
        }
        self.timers = state.timers.clone();
    }

    /// Returns when an entry is due; none while nothing waits for its time.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| self.not_before.max(*at))
    }

    /// Returns whether an entry is to be proposed now.
    pub(super) fn take(&mut self, state: &State, now: Timestamp) -> bool {
        if self.due().is_none_or(|due| now < due) {
            return false;
        }
        // Whatever has come without mattering does not later: who is unprotected leaves at once when a drain is ordered.
        while let Some((at, timer)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            if matters(state, &timer) {
                self.not_before = now.plus(ASK_EVERY);
                return true;
            }
            self.due.remove(&(at, timer));
        }
        false
    }
}

/// Whether a timer may change more than what is read with the time anyway, as nodes that were backed off are by the plan.
fn may_matter(timer: &Timer) -> bool {
    match timer {
        Timer::StartBy(_)
        | Timer::Release(_)
        | Timer::Drain(_)
        | Timer::ProtectionOver(_)
        | Timer::Edit(_)
        | Timer::Grant(_) => true,
        Timer::BackoffOver(_) | Timer::JoinToken(_) | Timer::Request(_) => false,
    }
}

/// Whether it does: an attempt leaves a node that is drained when its protection ends.
fn matters(state: &State, timer: &Timer) -> bool {
    match timer {
        Timer::ProtectionOver(attempt) => drain::concerns(state, *attempt),
        Timer::StartBy(_)
        | Timer::Release(_)
        | Timer::Drain(_)
        | Timer::BackoffOver(_)
        | Timer::JoinToken(_)
        | Timer::Edit(_)
        | Timer::Grant(_)
        | Timer::Request(_) => true,
    }
}
