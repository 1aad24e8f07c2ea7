//! A dry run: what would become of a submission now. No promise.

use proto::v1::{PlacedOn, PlanJobReply};

use super::words::{self, block};
use super::{cost, likely, receipt};
use crate::form::text::{plain, slots, wrap};
use crate::shell::Look;

/// Columns of text behind the headings.
const WIDTH: usize = 84;
const HEAD: usize = 15;

/// Renders it; `tier_from` is where the client read the tier.
pub fn plan(plan: &PlanJobReply, tier_from: &str, signal: &str, look: &Look) -> String {
    let now = words::now(plan.as_of.as_ref());
    let terms = plan.receipt.clone().unwrap_or_default();
    let what = if plan.starts { "would start with the next plan" } else { "would wait" };
    let mut out = format!("{} {what}\n", plain(&terms.name));
    if !plan.sentence.is_empty() {
        wrap(&plain(&plan.sentence), 98).into_iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    out.push('\n');
    out.push_str(&receipt::terms(&terms, tier_from, signal, look));
    let mut row = |name: &str, lines: &[String]| out.push_str(&block(&format!("  {name}"), HEAD, lines));
    if !plan.on.is_empty() {
        row("on", &plan.on.iter().map(place).collect::<Vec<_>>());
    }
    if !plan.victims.is_empty() {
        let victims: Vec<String> =
            plan.victims.iter().flat_map(|victim| cost::victim(victim, look, now)).collect();
        row("would take", &victims);
    }
    for reason in &plan.reasons {
        let until =
            reason.until_at.map_or(String::new(), |at| format!(", until {}", look.zone.short(at, now)));
        let text = format!("{} ({}{until})", plain(&reason.sentence), plain(&reason.token));
        row("waits", &wrap(&text, WIDTH));
    }
    row("start", &wrap(&start(plan, look, now), WIDTH));
    if let Some(likely) = &plan.likely {
        let lines = likely::lines(likely, look, now);
        row("likely", &lines.iter().flat_map(|line| wrap(line, WIDTH)).collect::<Vec<_>>());
    }
    out.push_str(&format!(
        "\n{}nothing was submitted; this is no promise\n",
        words::as_of(plan.as_of.as_ref(), look)
    ));
    out
}

fn place(on: &PlacedOn) -> String {
    let gpus = if on.slots.len() == 1 { "GPU" } else { "GPUs" };
    match on.slots.is_empty() {
        true => plain(&on.node),
        false => format!("{} {gpus} {}", plain(&on.node), slots(&on.slots)),
    }
}

fn start(plan: &PlanJobReply, look: &Look, now: u64) -> String {
    if let Some(date) = plan.date.as_ref().filter(|_| !plan.starts) {
        let (at, by) = (look.zone.short(date.date_at, now), look.zone.short(date.go_by_at, now));
        return format!("by {by} (its date is {at}), unless {}", date.unless.join(" or "));
    }
    match (plan.starts, plan.earliest_at) {
        (true, _) if plan.victims.is_empty() => "as soon as the scheduler looks".into(),
        (true, _) => "once those have saved and left".into(),
        (false, Some(at)) => {
            let at = look.zone.short(at, now);
            format!("not known; not before {at}, when enough GPUs are past their protection")
        }
        (false, None) => "not known".into(),
    }
}
