//! A recorded decision, with the numbers as they were.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::victims::{self, Victim};
use super::words;
use crate::budget;
use crate::decision::{Record, Start};
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
    /// Who gave way to it, with the right, the numbers and the price of each.
    pub victims: Vec<Victim>,
    /// How they were chosen, if anybody gave way.
    pub choice: Option<String>,
    /// What that means, without times.
    pub sentence: String,
}

/// Returns a decision that state still keeps.
#[must_use]
pub fn decision(state: &State, id: DecisionId) -> Option<Decided> {
    let record = state.decisions.get(&id)?.clone();
    let start = &record.start;
    let job = state.jobs.get(&start.job);
    let parted = start.why.levels.iter().find_map(|level| level.next.map(|next| (level.chosen, next)));
    let because = match parted {
        Some((chosen, next)) => {
            // Only the burst limit turns the order round.
            let why = match chosen.cmp_use(&next).is_le() {
                true => "its use was lower",
                false => "the other had more than its burst limit",
            };
            let (chosen, next) = (budget::label(state, chosen.budget), budget::label(state, next.budget));
            format!("{chosen} went before {next}: {why}")
        }
        None => String::from("no other budget had a job to start"),
    };
    let takes = match start.takes.as_slice() {
        [] => String::new(),
        _ => format!(", and {} gave way", words::attempts(&victims::names(start))),
    };
    let sentence =
        format!("{}.{} was started on {}{takes}; {because}", start.job, start.attempt, on(state, start));
    Some(Decided {
        id,
        name: job.map(|job| job.name.clone()),
        victims: victims::victims(state, start),
        choice: start.why.choice.as_ref().map(victims::choice),
        record,
        sentence,
    })
}

/// Returns where a decision places a job.
fn on(state: &State, start: &Start) -> String {
    let on = start.on.iter().filter_map(|(node, slots)| {
        let name = &state.nodes.get(node)?.name;
        Some(format!("{} of {name}", words::gpus(u32::try_from(slots.len()).unwrap_or(u32::MAX))))
    });
    words::list(on.collect())
}
