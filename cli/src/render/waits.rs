//! How long jobs waited.

use proto::v1::{WaitsRow, WaitsView};

use super::reach;
use crate::form::duration;
use crate::form::table::Table;
use crate::form::text::{cut, plain};
use crate::shell::Look;

/// Renders the report.
pub fn waits(view: &WaitsView, look: &Look) -> String {
    let mut out = format!("first starts since {}\n", look.zone.day(view.since_at));
    out.push_str(&reach::reach(view.reach.as_ref(), Some(view.since_at), look));
    let heading = plain(&view.by).to_uppercase();
    let mut table =
        Table::new(&[&heading, ">STARTED", ">P50", ">P90", ">LONGEST", ">WAITING NOW", ">LONGEST NOW"]);
    for row in view.rows.iter().chain(view.total.as_ref()) {
        table.row(cells(row, look));
    }
    out.push('\n');
    out.push_str(&table.render());
    out.push_str("\nFrom the first submission to the first start of its processes.\n");
    out
}

fn cells(row: &WaitsRow, look: &Look) -> [String; 7] {
    let started = |ms: u64| if row.started_jobs == 0 { "-".into() } else { duration::wait(ms) };
    let longest = if row.waiting_jobs == 0 { "-".into() } else { duration::wait(row.waiting_longest_ms) };
    [
        if look.is_wide { row.key.clone() } else { cut(&row.key, 32) },
        row.started_jobs.to_string(),
        started(row.p50_ms),
        started(row.p90_ms),
        started(row.longest_ms),
        row.waiting_jobs.to_string(),
        longest,
    ]
}
