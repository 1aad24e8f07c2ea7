//! Dates that were issued, moved, or ended without a start.

use proto::v1::EventView;
use scheduler_core::explain::trouble;
use scheduler_core::id::JobId;
use scheduler_core::job::Phase;

use super::{NOBODY, Scene, event};

impl Scene<'_> {
    /// What became of dates.
    pub(super) fn dates(&self, out: &mut Vec<EventView>) {
        for ((id, pool), date) in self.after.dates.touched_since(&self.before.dates) {
            let was = self.before.dates.get(&(*id, pool.clone()));
            let at = words_of(date.promise.at.as_millis());
            match was.filter(|was| was.decision == date.decision) {
                None => {
                    let said = format!("it is first in order in {pool} and gets a date: {at}");
                    out.push(self.of_job(*id, event("date.issued", NOBODY, said)));
                }
                Some(was) if was.moved < date.moved => {
                    let why = date.moves.last().map(|moved| trouble(self.after, &moved.trouble));
                    let why = why.unwrap_or_default();
                    let said = format!("its date moved to {at}: {why}");
                    out.push(self.of_job(*id, event("date.moved", NOBODY, said)));
                }
                Some(_) => {}
            }
        }
        for (id, pool) in self.before.dates.keys() {
            if !self.after.dates.contains(&(*id, pool.clone())) && self.is_waiting(*id) {
                let said =
                    format!("its date in {pool} ended: a node of it is gone, and no others could hold it");
                out.push(self.of_job(*id, event("date.ended", NOBODY, said)));
            }
        }
    }

    fn is_waiting(&self, id: JobId) -> bool {
        self.after.jobs.get(&id).is_some_and(|job| matches!(job.phase, Phase::Waiting { .. }))
    }
}

/// Returns a moment as events say it.
fn words_of(ms: u64) -> String {
    proto::json::rfc3339(ms)
}
