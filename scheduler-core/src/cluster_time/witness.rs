//! After a restart of the machine: who says what time it is, and whom to believe.

use alloc::vec::Vec;

use crate::unit::{Span, Timestamp};

/// So many agents are enough to take their median at once.
pub const ENOUGH: usize = 3;

/// Neither the wall clock nor fewer than [`ENOUGH`] agents are believed later than this after the last entry.
pub const CREDIBLE: Span = Span::from_hours(72);

/// An agent's time is late by the way of its last message. One that is further before the last entry than this is wrong.
const LATE: Span = Span::from_secs(2);

/// What others say, all as of one moment, and how long they were asked.
#[derive(Debug, Clone, Copy)]
pub struct Witnesses<'a> {
    /// Cluster time as other replicas carry it, those that do.
    pub replicas: &'a [Timestamp],
    /// Cluster time as agents carried it over since their last contact, one a node.
    pub agents: &'a [Timestamp],
    /// Whether nobody else is left to answer.
    pub are_all: bool,
    /// Whether those that have not answered had their time to.
    pub is_time_up: bool,
    /// The wall clock of this machine.
    pub wall: Timestamp,
}

/// Where a replica has its cluster time from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The wall clock, at the founding.
    Founding,
    /// The process before, on the same boot, or a witness of the same kind that is named no more.
    Kept,
    /// So many other replicas.
    Replicas(usize),
    /// So many agents.
    Agents(usize),
    /// The wall clock, which is so long after the last entry.
    WallClock {
        /// How long.
        after: Span,
    },
    /// The last entry: the wall clock is too far away.
    LastEntry {
        /// How far the wall clock is after it.
        after: Span,
        /// How far the wall clock is before it.
        before: Span,
    },
}

/// What the witnesses amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// The time, and from whom.
    Time(Timestamp, Source),
    /// Too few have answered.
    Wait,
}

/// Judges what others say about the time, against the last entry: time is never before that, whoever says so.
#[must_use]
pub fn judge(said: &Witnesses<'_>, last_entry: Timestamp) -> Judged {
    // Replicas keep step with the leader and are no strangers to each other: one that knows is enough.
    if let Some(time) = median(said.replicas.to_vec()) {
        return Judged::Time(time.max(last_entry), Source::Replicas(said.replicas.len()));
    }
    let is_over = said.are_all || said.is_time_up;
    let agents: Vec<Timestamp> =
        said.agents.iter().copied().filter(|time| time.plus(LATE) >= last_entry).collect();
    let count = agents.len();
    if (count >= ENOUGH || is_over)
        && let Some(time) = median(agents)
        && (count >= ENOUGH || time <= last_entry.plus(CREDIBLE))
    {
        return Judged::Time(time.max(last_entry), Source::Agents(count));
    }
    if is_over { unvouched(said.wall, last_entry) } else { Judged::Wait }
}

fn unvouched(wall: Timestamp, last_entry: Timestamp) -> Judged {
    let (after, before) = (wall.since(last_entry), last_entry.since(wall));
    if before.is_zero() && after <= CREDIBLE {
        Judged::Time(wall, Source::WallClock { after })
    } else {
        Judged::Time(last_entry, Source::LastEntry { after, before })
    }
}

/// Returns the median, of an even number the earlier of the two in the middle: no protection ends early by it.
pub(super) fn median(mut of: Vec<Timestamp>) -> Option<Timestamp> {
    of.sort_unstable();
    of.get(of.len().saturating_sub(1) / 2).copied()
}
