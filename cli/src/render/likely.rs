//! When a job is likely to start: a range, with how it was made and how well such ranges held.

use proto::v1::LikelyView;

use crate::form::text::{count, plain};
use crate::shell::Look;

/// Renders it.
pub fn lines(likely: &LikelyView, look: &Look, now: u64) -> Vec<String> {
    if !likely.nothing.is_empty() {
        return vec![format!("not known: {}", plain(&likely.nothing))];
    }
    let at = |ms| look.zone.short(ms, now);
    let until = at(likely.until_at);
    let futures = format!("{} simulated futures", likely.futures);
    let held = likely.held_percent.map_or(String::new(), |percent| {
        format!("; such ranges held {percent} % of {} times here", likely.held_of)
    });
    let range = match (likely.from_at, likely.to_at) {
        (Some(from), Some(to)) => {
            format!("{}-{} ({} % of {futures}{held})", at(from), at(to), likely.confidence_percent)
        }
        (Some(from), None) => {
            format!("not before {}; not before {until} in {} of {futures}{held}", at(from), likely.without)
        }
        (None, _) => format!("not before {until} in {} of {futures}{held}", likely.without),
    };
    let told = match likely.ended_jobs {
        0 => "no ended job tells how long jobs run: drawn around their minimum".into(),
        jobs => format!("run times as those of {}", count(u64::from(jobs), "ended job")),
    };
    vec![range, format!("{told}; new submissions and failures are not foreseen")]
}
