//! What a job is to wait for before it stands in line.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::array::JobArray;
use crate::command::{Code, Rejection};
use crate::job::{Before, Met, Need};
use crate::lifecycle::{before, forget};
use crate::spec::{After, Asks};
use crate::state::State;
use crate::unit::{Span, Timestamp};

/// A job begins within this time.
const AHEAD_MAX: Span = Span::from_hours(365 * 24);
/// A begin that is over no longer than this was still to come when the submission was made.
const LATE_MAX: Span = Span::from_mins(5);

/// Returns what the job waits for, as it is now.
pub(super) fn complete(state: &State, asks: &Asks, now: Timestamp) -> Result<Before, Rejection> {
    let begin = asks.begin.map(|at| begin(at, now)).transpose()?;
    Ok(Before { begin: begin.filter(|at| now < *at), needs: needs(state, &asks.after)? })
}

fn begin(at: Timestamp, now: Timestamp) -> Result<Timestamp, Rejection> {
    if at.plus(LATE_MAX) < now {
        return Err(Rejection::new(
            Code::BadSpec,
            format!("the job is to begin at a moment that is over since {}", now.since(at)),
            "",
            String::from("leave the begin out, or say one that is still to come"),
        ));
    }
    if at > now.plus(AHEAD_MAX) {
        return Err(Rejection::new(
            Code::BadSpec,
            format!("the job is to begin in {}", at.since(now)),
            "it would stand in everybody's lists for so long",
            String::from("at most a year ahead"),
        ));
    }
    Ok(at)
}

fn needs(state: &State, asked: &[After]) -> Result<Vec<Need>, Rejection> {
    if asked.len() > Before::NEEDS_MAX {
        return Err(Rejection::new(
            Code::BadSpec,
            format!("the job waits for {} others; at most {}", asked.len(), Before::NEEDS_MAX),
            "",
            String::from("put a small job between, which waits for some of them"),
        ));
    }
    let mut seen = BTreeSet::new();
    let mut needs = Vec::with_capacity(asked.len());
    for after in asked {
        let named = named(state, after)?;
        if !seen.insert(named.job) {
            return Err(Rejection::new(
                Code::BadSpec,
                format!("the job waits for {} twice", shown(after)),
                "",
                format!("name it once: {0}, or {0}:ok if it must have completed", shown(after)),
            ));
        }
        needs.push(before::need(state, &named).ok_or_else(|| unknown(state, after))?);
    }
    let open = needs.iter().filter(|need| need.met == Met::Open).count();
    let max = forget::bound(state.meta.settings.dependencies_max);
    if state.dependents.len().saturating_add(open) > max {
        return Err(Rejection::new(
            Code::Full,
            format!("jobs that wait for others wait for {max} of them"),
            "each is looked at when one ends",
            String::from("submit again when some have ended"),
        ));
    }
    Ok(needs)
}

/// Returns the same with the number of the task that is named.
fn named(state: &State, after: &After) -> Result<After, Rejection> {
    let Some(index) = after.task else { return Ok(*after) };
    let refuse = |what: String, fix: String| Rejection::new(Code::BadSpec, what, "", fix);
    let Some(array) = state.arrays.get(&after.job) else {
        if state.jobs.contains(&after.job) {
            let what = format!("the job waits for task {index} of {}, which is no array", after.job);
            return Err(refuse(what, format!("name the job itself: {}", after.job)));
        }
        return Err(unknown(state, after));
    };
    match array.indexes.place(index) {
        Some(place) => Ok(After { job: JobArray::task_at(after.job, place), task: None, ..*after }),
        None => {
            let what = format!("the job waits for {}, and that array has no such task", shown(after));
            Err(refuse(what, format!("its tasks are {}", array.indexes)))
        }
    }
}

fn shown(after: &After) -> String {
    match after.task {
        Some(index) => format!("{}[{index}]", after.job),
        None => format!("{}", after.job),
    }
}

fn unknown(state: &State, after: &After) -> Rejection {
    let next = state.meta.next_job;
    let (what, why) = if after.job >= next || after.job.get() == 0 {
        (
            format!("the job waits for {}, and there is no such job", shown(after)),
            format!("jobs wait for jobs that were submitted before them; the next number is {next}"),
        )
    } else {
        (
            format!("the job waits for {}, of which nothing is known any more", shown(after)),
            format!(
                "how a job ended is known for {}, of the single tasks of an array until an hour after its end",
                state.meta.settings.keep_results
            ),
        )
    };
    Rejection::new(Code::BadSpec, what, &why, String::from("name another job, or leave it out"))
}
