//! The answer to a question about a waiting job.

use proto::v1::{WhatIfSide, WhatIfView};

use super::cost;
use super::words::{self, block};
use crate::form::text::{ordinal, plain, slots, wrap};
use crate::shell::Look;

/// Columns of text behind the headings.
const WIDTH: usize = 84;
const HEAD: usize = 15;

/// Renders the answer.
pub fn answer(view: &WhatIfView, look: &Look) -> String {
    let now = words::now(view.as_of.as_ref());
    let mut out = format!("{} {}, with {}\n", view.job, plain(&view.name), plain(&view.changes.join(", ")));
    wrap(&plain(&view.sentence), 98).into_iter().for_each(|line| out.push_str(&format!("{line}\n")));
    out.push('\n');
    for (name, side) in [("as it is", &view.now), ("then", &view.then)] {
        let lines = side.as_ref().map_or_else(Vec::new, |side| lines(side, look, now));
        out.push_str(&block(&format!("  {name}"), HEAD, &lines));
    }
    out.push_str(&format!(
        "\n{}nothing was changed; this is no promise\n",
        words::as_of(view.as_of.as_ref(), look)
    ));
    out
}

fn lines(side: &WhatIfSide, look: &Look, now: u64) -> Vec<String> {
    let mut lines = Vec::new();
    if side.starts {
        let on = side.on.iter().map(|on| format!("{} ({})", plain(&on.node), slots(&on.slots)));
        lines.push(format!("starts with the next plan on {}", on.collect::<Vec<_>>().join(", ")));
        lines.extend(side.victims.iter().flat_map(|victim| cost::victim(victim, look, now)));
        return lines;
    }
    if let Some(place) = side.place {
        lines.push(format!("{} in line", ordinal(place)));
    }
    for reason in &side.reasons {
        let until =
            reason.until_at.map_or(String::new(), |at| format!(", until {}", look.zone.short(at, now)));
        lines.extend(wrap(&format!("{} ({}{until})", plain(&reason.sentence), plain(&reason.token)), WIDTH));
    }
    if let Some(at) = side.earliest_at {
        lines.push(format!("not before {}", look.zone.short(at, now)));
    }
    lines
}
