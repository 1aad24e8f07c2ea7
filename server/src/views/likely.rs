//! When a job is likely to start.

use proto::v1;
use scheduler_core::future::{Likely, Range};
use scheduler_core::unit::Timestamp;

use crate::futures::Said;

/// So many of a hundred futures have the job start within the range.
const CONFIDENCE: u32 = 80;

/// Returns what the futures say, with how well such ranges held.
#[must_use]
pub fn view(said: &Said, record: Option<(u32, u32)>) -> v1::LikelyView {
    match said {
        Said::Nothing(why) => v1::LikelyView { nothing: (*why).to_owned(), ..v1::LikelyView::default() },
        Said::Likely(likely) => range(likely, record),
    }
}

fn range(likely: &Likely, record: Option<(u32, u32)>) -> v1::LikelyView {
    let (from, to) = match likely.range() {
        Range::Between { from, to } => (Some(from), Some(to)),
        Range::From { from } => (Some(from), None),
        Range::Later | Range::Unknown => (None, None),
    };
    v1::LikelyView {
        from_at: from.map(Timestamp::as_millis),
        to_at: to.map(Timestamp::as_millis),
        confidence_percent: CONFIDENCE,
        futures: likely.futures,
        without: likely.without(),
        until_at: likely.until.as_millis(),
        seed: likely.seed,
        ended_jobs: u32::try_from(likely.ended).unwrap_or(u32::MAX),
        held_percent: record.map(|(percent, _)| percent),
        held_of: record.map_or(0, |(_, of)| of),
        nothing: String::new(),
    }
}
