//! What changes by time alone needs an entry to change in state: when one is due and nothing else is written, the leader
//! proposes an empty one.

use alloc::collections::BTreeSet;

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
        let due = state.timers.keys().filter(|(_, timer)| matters(state, timer)).copied().collect();
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
            if matters(state, &key.1) {
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
    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        let is_due = self.due().is_some_and(|due| due <= now);
        if is_due {
            self.not_before = now.plus(ASK_EVERY);
        }
        is_due
    }
}

/// Whether a timer changes more than what is read with the time anyway. An attempt leaves a node that is drained when
/// its protection ends; elsewhere the plan looks at the time itself, as it does for nodes that were backed off.
fn matters(state: &State, timer: &Timer) -> bool {
    match timer {
        Timer::StartBy(_) | Timer::Release(_) | Timer::Drain(_) => true,
        Timer::ProtectionOver(id) => state.attempts.get(id).is_some_and(|attempt| {
            let mut nodes =
                attempt.placements.iter().filter_map(|placement| state.nodes.get(&placement.node));
            nodes.any(|node| node.drain.is_some())
        }),
        Timer::BackoffOver(_) | Timer::JoinToken(_) | Timer::Request(_) => false,
    }
}
