//! Jobs as a list.

use proto::v1::{JobList, JobView};

use super::job::nodes;
use super::{reach, words};
use crate::form::gpu_time;
use crate::form::table::Table;
use crate::form::text::cut;
use crate::shell::Look;

/// Renders a list of jobs; `since` is the moment that was asked for.
pub fn jobs(list: &JobList, since: Option<u64>, look: &Look) -> String {
    if list.jobs.is_empty() {
        let reach = reach::reach(list.reach.as_ref(), since, look);
        return format!("{}no jobs\n{reach}", words::as_of(list.as_of.as_ref(), look));
    }
    let mut headings = vec![">JOB", "NAME", "USER", "BUDGET", ">GPUS", "TIER", "STATE", "SINCE", "WHERE"];
    if look.is_wide {
        headings.extend(["REASON", ">GPU-H", "SUBMITTED", "FROM"]);
    }
    let now = words::now(list.as_of.as_ref());
    let mut table = Table::new(&headings);
    for job in &list.jobs {
        let size = |width: usize, text: &str| if look.is_wide { text.into() } else { cut(text, width) };
        let mut cells = vec![
            words::shown(&job.shown_as, job.job),
            size(16, &job.name),
            size(10, &job.user),
            size(20, &job.budget),
            job.gpus.to_string(),
            words::tier(&job.tier).into(),
            size(14, &job.tasks.as_ref().map_or_else(|| state(job), words::tasks)),
            job.since_at.map_or(String::new(), |at| look.zone.short(at, now)),
            size(11, &place(job, look)),
        ];
        if look.is_wide {
            cells.push(job.reason.clone());
            cells.push(gpu_time::hours(&job.charged_milli_gpu_ms));
            cells.push(look.zone.short(job.submitted_at, now));
            cells.push(if job.left_at.is_some() { "history" } else { "state" }.into());
        }
        table.row(cells);
    }
    let mut out = table.render();
    if list.left_out > 0 {
        out.push_str(&format!("and {} more: --limit N shows more of them\n", list.left_out));
    }
    let goes_on_in_the_past = list.next.is_some() && list.left_out == 0;
    if goes_on_in_the_past {
        out.push_str("there may be more that ended earlier: --limit N shows more of them\n");
    }
    out.push_str(&reach::page(list.reach.as_ref(), goes_on_in_the_past, since, look));
    out
}

/// Returns a job's state, or its end where it has ended; with the tier of its protection while it runs.
pub fn state(job: &JobView) -> String {
    match (job.state.as_str(), &job.end) {
        ("ended", Some(end)) => end.clone(),
        ("running", _) => job.reason.split_once('.').map_or("running".into(), |(_, how)| match how {
            "free" => "running".into(),
            how => how.to_string(),
        }),
        (state, _) => state.into(),
    }
}

/// Returns where a live job is.
fn place(job: &JobView, look: &Look) -> String {
    let is_live = job.state != "ended" && job.state != "waiting" && job.state != "held";
    job.attempts.last().filter(|_| is_live).map_or(String::new(), |attempt| nodes(attempt, look))
}
