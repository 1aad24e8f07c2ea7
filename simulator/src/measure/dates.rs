//! Dates: how many were given, whether they moved, and whether they were kept.

use serde::{Deserialize, Serialize};

use super::gos::Gos;
use super::number::count;
use super::quantile::{Known, Sample};
use crate::record::Record;

/// The dates of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dates {
    /// How many were issued.
    pub issued: u64,
    /// How many moved because a node failed or was drained.
    pub moved_by_node: u64,
    /// How many moved for any other reason: zero is promised.
    pub moved_otherwise: u64,
    /// How often dates moved for any other reason.
    pub moves_otherwise: u64,
    /// Half of the jobs with a date had their go no later than this after its first one; early is 0.
    pub late_p50: Option<Known>,
    /// Nine of ten.
    pub late_p90: Option<Known>,
    /// All of them.
    pub latest: Option<Known>,
}

/// Returns how dates fared. A date of a job that went without a go says nothing of how late it was.
pub(crate) fn dates(record: &Record, gos: &Gos) -> Dates {
    let late = record.dates.iter().filter_map(|date| {
        let go = gos.of_job(date.job).iter().find(|go| **go >= date.issued_at);
        match (go, record.jobs[date.job].ended) {
            (Some(go), _) => Some(Known { ms: go.since(date.first_at).as_millis(), is_at_least: false }),
            (None, Some(_)) => None,
            // A date that has not come yet is not late.
            (None, None) if record.end <= date.first_at => None,
            (None, None) => {
                Some(Known { ms: record.end.since(date.first_at).as_millis(), is_at_least: true })
            }
        }
    });
    let late = Sample::of(late);
    Dates {
        issued: count(&record.dates),
        moved_by_node: record.dates.iter().map(|date| u64::from(date.moves_by_node > 0)).sum(),
        moved_otherwise: record.dates.iter().map(|date| u64::from(date.moves_otherwise > 0)).sum(),
        moves_otherwise: record.dates.iter().map(|date| u64::from(date.moves_otherwise)).sum(),
        late_p50: late.quantile(50),
        late_p90: late.quantile(90),
        latest: late.quantile(100),
    }
}
