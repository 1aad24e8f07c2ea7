//! From an applied entry and the states around it to what history keeps of it.

mod audit;
mod left;

use proto::v1::EventView;
use scheduler_core::command::{Answer, Entry};
use scheduler_core::id::LogIndex;
use scheduler_core::state::State;

use super::record::Told;

/// Returns what an entry has to tell; none if nothing. `events` are those that watchers get.
#[must_use]
pub fn told(
    before: &State,
    after: &State,
    index: LogIndex,
    (entry, answer): (&Entry, &Answer),
    events: Vec<EventView>,
) -> Option<Told> {
    let cluster = after.meta.cluster?;
    let audit = audit::audit(before, after, index, entry, answer);
    let left = left::left(before, after);
    if audit.is_empty() && events.is_empty() && left.is_none() {
        return None;
    }
    Some(Told { index, time: after.meta.time, cluster, audit, events, left })
}
