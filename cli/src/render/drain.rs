//! How a node gets empty: who leaves when, and what that takes from them.

use proto::v1::{DrainView, LeavingJob};

use super::words;
use crate::form::duration;
use crate::form::table::Table;
use crate::form::text::{count, cut, plain, wrap};
use crate::shell::Look;

/// Renders it; a preview speaks of what would be.
pub fn drain(view: &DrainView, is_preview: bool, look: &Look) -> String {
    let now = words::now(view.as_of.as_ref());
    let jobs = count(u64::try_from(view.jobs.len()).unwrap_or(u64::MAX), "job");
    let mut out = format!("{}, {}, {jobs}\n", plain(&view.node), count(u64::from(view.gpus), "GPU"));
    if !view.jobs.is_empty() {
        out.push_str(&leaving(&view.jobs, look, now));
    }
    for line in wrap(&summary(view, look, now), 98) {
        out.push_str(&format!("{line}\n"));
    }
    if !view.sentence.is_empty() {
        wrap(&plain(&view.sentence), 98).into_iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    for job in view.jobs.iter().filter(|job| job.cuts_ms > 0) {
        let took = if is_preview { "takes" } else { "took" };
        out.push_str(&format!(
            "this {took} {} of protection from {} ({}); that is taken off its charge\n",
            duration::long(job.cuts_ms),
            plain(&job.attempt),
            plain(&job.budget)
        ));
    }
    if !is_preview {
        out.push_str(&format!("draining     follow: bursar node show {}\n", plain(&view.node)));
    }
    out
}

fn summary(view: &DrainView, look: &Look, now: u64) -> String {
    let begin = match view.begins_at {
        Some(at) if at > now => {
            let at = look.zone.short(at, now);
            format!("begins {at}; until then only work comes whose protection is over by then")
        }
        _ => "new work stops now".into(),
    };
    let end = match view.empty_by_at {
        Some(at) if at <= now && view.jobs.is_empty() => "it is empty".into(),
        Some(at) => format!("empty by {} at the latest", look.zone.short(at, now)),
        None if view.jobs.is_empty() => "it is empty".into(),
        None => "when it is empty cannot be told".into(),
    };
    format!("{begin}; {end}")
}

fn leaving(jobs: &[LeavingJob], look: &Look, now: u64) -> String {
    let mut table = Table::new(&["  ATTEMPT", "NAME", "BUDGET", ">GPUS", "PROTECTED", "LEAVES BY", "THEN"]);
    for job in jobs {
        let size = |width: usize, text: &str| if look.is_wide { text.into() } else { cut(text, width) };
        let protected = match job.protected_until_at {
            Some(at) if at > now => look.zone.short(at, now),
            _ => "no".into(),
        };
        table.row([
            format!("  {}", job.attempt),
            size(16, &job.name),
            size(20, &job.budget),
            job.gpus.to_string(),
            protected,
            job.leaves_by_at.map_or("?".into(), |at| look.zone.short(at, now)),
            if job.resumable { "goes on elsewhere".into() } else { "ends: not resumable".into() },
        ]);
    }
    table.render()
}
