//! What a job waits for before it stands in line.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::facts::{Group, fact};
use super::{shown, standing, words};
use crate::id::JobId;
use crate::job::{End, Job, Met, Need};
use crate::lifecycle::forget;
use crate::spec::Wants;
use crate::state::State;

/// Returns why a job waits for others: for which, or which of them never ends as it must.
pub(super) fn sentence(state: &State, id: JobId, job: &Job, never: Option<JobId>) -> String {
    if let Some(never) = never {
        let how = forget::result(state, never).map_or("ended otherwise", |(end, _)| how(end));
        return format!(
            "{} {how}, and was to complete first, so this job never starts by itself: `bursar job release {id}` \
             runs it all the same, `bursar job cancel {id}` gives it up",
            shown(state, never)
        );
    }
    let open: Vec<String> = job
        .before
        .needs
        .iter()
        .filter(|need| need.met == Met::Open)
        .map(|need| match need.wants {
            Wants::End => shown(state, need.job),
            Wants::Success => format!("{} (which must complete)", shown(state, need.job)),
        })
        .collect();
    let ends = if open.len() == 1 { "has ended" } else { "have ended" };
    format!("it is not in line before {} {ends}", words::list(open))
}

/// Returns what a job waits for, or did, one by one; none if it waits for nothing.
pub(super) fn facts(state: &State, job: &Job) -> Option<Group> {
    let mut facts: Vec<_> = job.before.needs.iter().map(|need| of_need(state, need)).collect();
    facts.extend(job.before.begin.map(|at| fact("not before", "").at(at)));
    (!facts.is_empty()).then_some(Group { title: "what it waits for", facts })
}

fn of_need(state: &State, need: &Need) -> super::Fact {
    let array = state.arrays.get(&need.job);
    let of = state.jobs.get(&need.job).or_else(|| array.map(|array| &array.job));
    let name = of.map_or_else(String::new, |job| format!(" {}", job.name));
    let wants = match need.wants {
        Wants::End => "to end",
        Wants::Success => "to complete",
    };
    let now = match forget::result(state, need.job) {
        Some((end, _)) => how(end).to_string(),
        None => match (need.met, state.jobs.get(&need.job)) {
            (Met::Open, None) if array.is_some_and(|array| array.live > 0) => {
                String::from("its tasks run or wait")
            }
            (Met::Yes, _) => String::from("it has"),
            (Met::Never, _) => String::from("it ended otherwise"),
            (Met::Open, Some(job)) => standing(state, need.job, job, state.meta.time).map_or_else(
                || String::from("it waits"),
                |stands| format!("it is {}", stands.stage.as_str()),
            ),
            (Met::Open, None) => String::from("it has not ended"),
        },
    };
    let is_met = if need.met == Met::Never { ", so never" } else { "" };
    fact(format!("{}{name} {wants}", shown(state, need.job)), format!("{now}{is_met}"))
}

/// Returns how a job ended, in words that follow its number.
const fn how(end: End) -> &'static str {
    match end {
        End::Completed => "completed",
        End::Failed => "failed",
        End::Preempted => "was preempted for good",
        End::TimedOut => "reached its time limit",
        End::Cancelled => "was cancelled",
        End::Lost => "was lost with its node",
        End::Superseded => "was superseded",
    }
}
