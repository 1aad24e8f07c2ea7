//! A recorded decision, with the numbers as they were.

use alloc::format;
use alloc::string::String;

use crate::budget;
use crate::decision::Record;
use crate::id::{DecisionId, Label};
use crate::state::State;

/// A start that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Its number.
    pub id: DecisionId,
    /// The name of the job, if state still has it.
    pub name: Option<Label>,
    /// What was decided, with both sides' numbers of each level as they were.
    pub record: Record,
    /// What that means, without times.
    pub sentence: String,
}

/// Returns a decision that state still keeps.
#[must_use]
pub fn decision(state: &State, id: DecisionId) -> Option<Decided> {
    let record = state.decisions.get(&id)?.clone();
    let start = &record.start;
    let job = state.jobs.get(&start.job);
    let on = start.on.iter().filter_map(|(node, slots)| {
        let name = &state.nodes.get(node)?.name;
        let word = if slots.len() == 1 { "GPU" } else { "GPUs" };
        Some(format!("{} {word} of {name}", slots.len()))
    });
    let on: alloc::vec::Vec<String> = on.collect();
    let parted = start.why.levels.iter().find_map(|level| level.next.map(|next| (level.chosen, next)));
    let because = match parted {
        Some((chosen, next)) => format!(
            "{} went before {}: its use was lower",
            budget::label(state, chosen.budget),
            budget::label(state, next.budget)
        ),
        None => String::from("no other budget had a job to start"),
    };
    let sentence = format!("{}.{} was started on {}; {because}", start.job, start.attempt, on.join(" and "));
    Some(Decided { id, name: job.map(|job| job.name.clone()), record, sentence })
}
