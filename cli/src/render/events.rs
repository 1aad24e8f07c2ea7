//! What happened, one line each.

use proto::v1::EventView;

use crate::form::text::{cut, plain};
use crate::shell::Look;

/// Renders an event.
pub fn event(event: &EventView, look: &Look) -> String {
    let job = match (event.job, event.attempt) {
        (Some(job), Some(attempt)) => format!("{job}.{attempt}"),
        (Some(job), None) => job.to_string(),
        (None, _) => event.node.clone().or_else(|| event.budget.clone()).unwrap_or_default(),
    };
    let at = if look.is_wide { look.zone.full(event.at) } else { look.zone.clock(event.at) };
    let line = format!("{at}  {:<18} {:<12} {}", event.kind, plain(&job), plain(&event.sentence));
    let line = if look.is_wide {
        format!("{line}  [{}, index {}]", plain(&event.actor), event.index)
    } else {
        cut(&line, 100)
    };
    format!("{}\n", line.trim_end())
}
