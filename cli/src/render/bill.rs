//! What preemptions cost.

use proto::v1::{BillLine, BillView};

use super::{cost, reach, words};
use crate::form::duration;
use crate::form::table::Table;
use crate::form::text::{count, cut, plain, thousands};
use crate::shell::Look;

/// Renders the bill; `since` is the moment that was asked for.
pub fn bill(view: &BillView, since: Option<u64>, look: &Look) -> String {
    let now = words::now(view.as_of.as_ref());
    let mut out = head(view, look, now);
    out.push_str(&reach::reach(view.reach.as_ref(), since, look));
    if view.total.as_ref().is_none_or(|total| total.preemptions == 0) {
        return out;
    }
    out.push('\n');
    out.push_str(&rows(&heading(&view.by), &view.rows, |key| word(&view.by, key)));
    let known: Vec<BillLine> = view.by_basis.iter().filter(|row| row.preemptions > 0).cloned().collect();
    if view.by != "basis" && !known.is_empty() {
        out.push('\n');
        out.push_str(&rows("HOW WE KNOW", &known, cost::basis));
    }
    if let Some(largest) = &view.largest {
        let attempt = plain(&largest.attempt);
        out.push_str(&format!("\nbiggest single loss: {attempt}\n  {}\n", cost::short(largest)));
        out.push_str(&format!("  why it was taken: bursar explain {attempt}\n"));
    }
    out
}

fn head(view: &BillView, look: &Look, now: u64) -> String {
    let total = view.total.clone().unwrap_or_default();
    let since = look.zone.day(view.since_at);
    if total.preemptions == 0 {
        return format!("since {since}: nobody was preempted, nothing was lost\n");
    }
    let of = match (total.delivered_gpu_ms, total.lost_ppm) {
        (Some(delivered), Some(ppm)) => {
            format!(", {} of the {} delivered", percent(ppm), cost::hours(delivered))
        }
        _ => String::new(),
    };
    let preemptions = count(u64::from(total.preemptions), "preemption");
    let mut out = format!("{preemptions} took {} GPU-h{of}\n", cost::hours(total.lost_gpu_ms));
    out.push_str(&format!(
        "since {since}, {}\n",
        duration::long(now.saturating_sub(view.since_at) / 60_000 * 60_000)
    ));
    if let Some(median) = view.resume_median_ms {
        out.push_str(&format!("median time to resume: {}\n", duration::long(median)));
    }
    out.push_str(&format!("wasted (the job they were for did not start): {}\n", view.wasted));
    out
}

fn rows(heading: &str, rows: &[BillLine], word: impl Fn(&str) -> String) -> String {
    let has_delivered = rows.iter().any(|row| row.delivered_gpu_ms.is_some());
    let mut headings = vec![heading];
    if has_delivered {
        headings.push(">DELIVERED");
    }
    headings.extend([">PREEMPTIONS", ">LOST"]);
    if has_delivered {
        headings.push(">LOST%");
    }
    let mut table = Table::new(&headings);
    for row in rows {
        let mut cells = vec![cut(&plain(&word(&row.key)), 40)];
        if has_delivered {
            cells.push(row.delivered_gpu_ms.map_or("-".into(), cost::hours));
        }
        cells.push(thousands(&row.preemptions.to_string()));
        cells.push(cost::hours(row.lost_gpu_ms));
        if has_delivered {
            cells.push(row.lost_ppm.map_or("-".into(), percent));
        }
        table.row(cells);
    }
    table.render()
}

fn heading(by: &str) -> String {
    match by {
        "basis" => "HOW WE KNOW".into(),
        "size" => "GPUS".into(),
        other => plain(other).to_uppercase(),
    }
}

fn word(by: &str, key: &str) -> String {
    match by {
        "cause" => cost::cause(key),
        "tier" => words::tier(key).into(),
        "basis" => cost::basis(key),
        _ => key.into(),
    }
}

/// Returns parts per million as percent with one decimal; what is lost but less says so.
fn percent(ppm: u32) -> String {
    match ppm {
        0 => "0%".into(),
        1..1000 => "<0.1%".into(),
        ppm => {
            let tenths = ppm / 1000;
            format!("{}.{}%", tenths / 10, tenths % 10)
        }
    }
}

/// Returns what `-o name` prints of it.
pub fn names(view: &BillView) -> Vec<String> {
    view.rows.iter().map(|row| row.key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn losses_are_never_rounded_to_nothing() {
        assert_eq!(percent(0), "0%");
        assert_eq!(percent(999), "<0.1%");
        assert_eq!(percent(24_999), "2.4%");
        assert_eq!(percent(1_000_000), "100.0%");
    }
}
