//! How long jobs waited.

use proto::v1;
use scheduler_core::budget;
use scheduler_core::report::{self, Wait, WaitBy, WaitKey, Waits};
use scheduler_core::spec::Tier;
use scheduler_core::unit::Timestamp;

use super::Scene;

/// Reads what rows are grouped by.
#[must_use]
pub fn by(text: &str) -> Option<WaitBy> {
    match text {
        "" | "size" => Some(WaitBy::Size),
        "budget" => Some(WaitBy::Budget),
        "tier" => Some(WaitBy::Tier),
        _ => None,
    }
}

/// Returns the report.
#[must_use]
pub fn view(scene: Scene<'_>, by: WaitBy, since: Timestamp, waits: &[Wait]) -> v1::WaitsView {
    let (rows, total) = report::waits(waits, since, by);
    let key = |key: WaitKey| match key {
        WaitKey::Size(size) => size.as_str().to_owned(),
        WaitKey::Budget(id) => budget::label(scene.state(), id),
        WaitKey::Tier(Tier::Funded) => "funded".to_owned(),
        WaitKey::Tier(Tier::Free) => "free".to_owned(),
    };
    v1::WaitsView {
        schema: "waits/v1".to_owned(),
        as_of: scene.as_of(),
        since_at: since.as_millis(),
        by: match by {
            WaitBy::Size => "size",
            WaitBy::Budget => "budget",
            WaitBy::Tier => "tier",
        }
        .to_owned(),
        rows: rows.into_iter().map(|(name, waits)| row(key(name), &waits)).collect(),
        total: Some(row("all".to_owned(), &total)),
        reach: None,
    }
}

fn row(key: String, waits: &Waits) -> v1::WaitsRow {
    v1::WaitsRow {
        key,
        started_jobs: waits.started,
        p50_ms: waits.p50.as_millis(),
        p90_ms: waits.p90.as_millis(),
        longest_ms: waits.longest.as_millis(),
        waiting_jobs: waits.waiting,
        waiting_longest_ms: waits.waiting_longest.as_millis(),
    }
}
