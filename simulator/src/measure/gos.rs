//! When jobs got their GPUs: of the few of which it is asked.

use std::collections::BTreeMap;

use scheduler_core::unit::Timestamp;

use crate::record::Record;

/// The gos of each job that was first in order or had a date.
#[derive(Debug)]
pub(crate) struct Gos(BTreeMap<usize, Vec<Timestamp>>);

impl Gos {
    pub(crate) fn of(record: &Record) -> Self {
        let first = record.heads.iter().map(|head| head.job);
        let dated = record.dates.iter().map(|date| date.job);
        let mut gos: BTreeMap<usize, Vec<Timestamp>> =
            first.chain(dated).map(|job| (job, Vec::new())).collect();
        for attempt in &record.attempts {
            if let Some(gos) = gos.get_mut(&attempt.job) {
                gos.extend(attempt.go_at.filter(|at| *at <= record.end));
            }
        }
        gos.values_mut().for_each(|gos| gos.sort_unstable());
        Self(gos)
    }

    /// Returns when a job's attempts had their go, in order.
    pub(crate) fn of_job(&self, job: usize) -> &[Timestamp] {
        self.0.get(&job).map_or(&[], Vec::as_slice)
    }
}
