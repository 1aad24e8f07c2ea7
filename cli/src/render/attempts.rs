//! The attempts of a job: how each went, and what those that gave way lost.

use proto::v1::{AttemptView, JobView};

use super::words::{self, block};
use super::{cost, job};
use crate::form::table::Table;
use crate::form::text::{count, cut, plain};
use crate::form::{duration, gpu_time};
use crate::shell::Look;

/// Renders them.
pub fn attempts(view: &JobView, look: &Look) -> String {
    let now = words::now(view.as_of.as_ref());
    let mut out =
        format!("{} {}, {}\n", words::shown(&view.shown_as, view.job), plain(&view.name), attempted(view));
    out.push_str(&words::from_history(view.left_at, look, now));
    if view.attempts.is_empty() {
        return out;
    }
    out.push('\n');
    let mut headings =
        vec!["ATTEMPT", "NODES", ">GPUS", "STARTED", ">RAN", "HOW", ">GPU-H", ">LOST", "TAKEN FOR"];
    if look.is_wide {
        headings.extend(["PLACED", "ENDED", "SAVED", "DECISION", "DETAIL"]);
    }
    let mut table = Table::new(&headings);
    for attempt in &view.attempts {
        table.row(row(&words::shown(&view.shown_as, view.job), attempt, look, now));
    }
    out.push_str(&table.render());
    let costs: Vec<(&AttemptView, _)> =
        view.attempts.iter().filter_map(|a| Some((a, a.cost.as_ref()?))).collect();
    if !costs.is_empty() {
        out.push('\n');
    }
    for (attempt, paid) in costs {
        out.push_str(&block(
            &format!("{}.{}", words::shown(&view.shown_as, view.job), attempt.attempt),
            9,
            &cost::lines(paid, look, now),
        ));
    }
    out
}

fn attempted(view: &JobView) -> String {
    let lost: u64 = view.attempts.iter().filter_map(|a| a.cost.as_ref()).map(|cost| cost.lost_gpu_ms).sum();
    let given = view.attempts.iter().filter(|attempt| attempt.cost.is_some()).count();
    let attempts = count(u64::try_from(view.attempts.len()).unwrap_or(u64::MAX), "attempt");
    match given {
        0 => attempts,
        n => {
            let times = if n == 1 { "once".into() } else { format!("{n} times") };
            format!("{attempts}; gave way {times}, which took {} GPU-h", cost::hours(lost))
        }
    }
}

fn row(number: &str, a: &AttemptView, look: &Look, now: u64) -> Vec<String> {
    let at = |moment: Option<u64>| moment.map_or("-".into(), |at| look.zone.short(at, now));
    let ran = a.started_at.map_or("-".into(), |from| {
        duration::short(a.ended_at.unwrap_or(now).saturating_sub(from) / 1000 * 1000)
    });
    let nodes = job::nodes(a, look);
    let how = job::how(a);
    let mut cells = vec![
        format!("{number}.{}", a.attempt),
        if look.is_wide { nodes } else { cut(&nodes, 14) },
        a.gpus.to_string(),
        at(a.started_at),
        ran,
        if look.is_wide { how } else { cut(&how, 20) },
        gpu_time::hours(&a.charged_milli_gpu_ms),
        a.cost.as_ref().map_or("-".into(), |paid| cost::hours(paid.lost_gpu_ms)),
        a.taken_for.clone().unwrap_or_default(),
    ];
    if look.is_wide {
        cells.push(look.zone.clock(a.placed_at));
        cells.push(at(a.ended_at));
        cells.push(at(a.saved_at));
        cells.push(a.decision.clone());
        cells.push(a.detail.clone().unwrap_or_default());
    }
    cells
}
