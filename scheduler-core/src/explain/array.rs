//! Where an array stands: the sum of its tasks.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::facts::{Group, fact};
use super::{Reason, Stage, Standing, Token, Who, standing, words};
use crate::array::JobArray;
use crate::id::JobId;
use crate::job::{End, Phase};
use crate::lifecycle::array;
use crate::state::State;
use crate::unit::Timestamp;

/// How many places are told one by one.
const SHOWN: usize = 16;

/// Returns a job's number as people say it: `4190`, and `4190[7]` for the task of an array.
#[must_use]
pub fn shown(state: &State, id: JobId) -> String {
    match state.jobs.get(&id).and_then(|job| job.array) {
        Some(task) => format!("{}[{}]", task.of, task.index),
        None => id.to_string(),
    }
}

/// The tasks of an array, by where they stand and how they ended; they add up to all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sums {
    /// Those that have not ended. Who was not made yet waits, or is held with the array.
    pub stages: BTreeMap<Stage, u32>,
    /// Those that have.
    pub ends: BTreeMap<End, u32>,
}

/// Returns the sums of an array's tasks.
#[must_use]
pub fn sums(state: &State, id: JobId, array: &JobArray, now: Timestamp) -> Sums {
    let mut stages: BTreeMap<Stage, u32> = BTreeMap::new();
    for (id, job) in array::tasks(state, id).filter(|(_, job)| !job.phase.is_ended()) {
        let stage = standing(state, *id, job, now).map_or(Stage::Waiting, |standing| standing.stage);
        *stages.entry(stage).or_default() += 1;
    }
    let rest = array.rest();
    if rest > 0 {
        let stage = if array.job.phase.is_waiting() { Stage::Waiting } else { Stage::Held };
        *stages.entry(stage).or_default() += rest;
    }
    Sums { stages, ends: array.ends.clone() }
}

/// Returns where an array stands; none while all its live tasks wait, which takes the whole line to explain.
#[must_use]
pub fn array_standing(state: &State, id: JobId, array: &JobArray, now: Timestamp) -> Option<Standing> {
    match array.job.phase {
        Phase::Held { .. } | Phase::Ended { .. } => standing(state, id, &array.job, now),
        Phase::Waiting { .. } | Phase::Live(_) => {
            let sums = sums(state, id, array, now);
            let at = |stage| sums.stages.get(&stage).copied().unwrap_or(0);
            let (runs, stops) = (at(Stage::Starting) + at(Stage::Running), at(Stage::Stopping));
            if runs + stops == 0 {
                return None;
            }
            let waits = at(Stage::Waiting) + at(Stage::Held);
            let all = array.indexes.count();
            let run = if runs + stops == 1 { "runs" } else { "run" };
            let next = match waits {
                0 => String::from("none is left to come"),
                waits if array.live >= array.width() => {
                    format!("{waits} wait, at most {} at once: the next is made when one ends", array.width())
                }
                waits => format!("{waits} wait"),
            };
            let text = format!("{} of its {all} tasks {run}, {next}", runs + stops);
            let reason = Reason::new(Token::RunningArray, Who::Nobody, text);
            let since = array.job.submitted_at;
            Some(Standing { stage: Stage::Running, reason, more: Vec::new(), since })
        }
    }
}

/// Returns the sums as facts, and which tasks have not completed.
pub(super) fn facts(state: &State, id: JobId, array: &JobArray, now: Timestamp) -> Group {
    let sums = sums(state, id, array, now);
    let mut facts = alloc::vec![fact("tasks", &array.indexes), fact("all of them", array.indexes.count())];
    facts.extend(sums.stages.iter().map(|(stage, count)| fact(stage.as_str(), count)));
    facts.extend(sums.ends.iter().map(|(end, count)| fact(end_word(*end), count)));
    let bad = array.bad.iter().filter(|place| !array.skipped.contains(*place));
    let mut bad: Vec<String> =
        bad.take(SHOWN).filter_map(|place| array.indexes.at(place)).map(|i| i.to_string()).collect();
    if !bad.is_empty() {
        bad.sort_by_key(|index| index.parse::<u32>().ok());
        facts.push(fact("not completed", words::list(bad)));
    }
    Group { title: "its tasks", facts }
}

const fn end_word(end: End) -> &'static str {
    match end {
        End::Completed => "completed",
        End::Failed => "failed",
        End::Preempted => "preempted",
        End::TimedOut => "timed out",
        End::Cancelled => "cancelled",
        End::Lost => "lost",
        End::Superseded => "superseded",
    }
}
