//! Who gives way to a decision, with what was counted.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::words;
use crate::budget;
use crate::decision::{Choice, Price, Start, Take};
use crate::id::{AttemptId, BudgetId, Label};
use crate::state::State;

/// One attempt that gives way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// What was decided: which, by which right, at which price, how many GPUs.
    pub take: Take,
    /// Its job's name, if state still has it.
    pub name: Option<Label>,
    /// Its leaf, if state still has it.
    pub budget: Option<BudgetId>,
    /// That in words.
    pub sentence: String,
}

/// Returns who gives way to a decision.
pub(crate) fn victims(state: &State, start: &Start) -> Vec<Victim> {
    let victim = |take: &Take| {
        let job = state.jobs.get(&take.attempt.job);
        let of = job.map_or_else(String::new, |job| format!(" of {}", budget::label(state, job.budget)));
        let sentence = format!(
            "{}{of} gives way with {}: {}; {}",
            take.attempt,
            words::gpus(take.gpus),
            words::right(state, &take.right),
            price(&take.price)
        );
        Victim {
            take: take.clone(),
            name: job.map(|job| job.name.clone()),
            budget: job.map(|job| job.budget),
            sentence,
        }
    };
    start.takes.iter().map(victim).collect()
}

/// Returns what choosing an attempt counted.
pub(super) fn price(price: &Price) -> String {
    let before = match price.preemptions {
        0 => String::new(),
        1 => String::from(", preempted once before"),
        more => format!(", preempted {more} times before"),
    };
    format!(
        "counted as {}: {} lost and {} to start again at {}{before}",
        amount(price),
        words::span(price.lost),
        words::span(price.restart),
        rate(price.rate.get())
    )
}

/// Returns a rate in GPUs.
pub(super) fn rate(milli: u64) -> String {
    match milli % 1000 {
        0 if milli == 1000 => String::from("1 GPU"),
        0 => format!("{} GPUs", milli / 1000),
        part => format!("{}.{part:03} GPUs", milli / 1000),
    }
}

fn amount(price: &Price) -> String {
    words::charged(crate::unit::ChargeMillis::new(price.amount()))
}

/// Returns how the victims of a decision were chosen.
pub(super) fn choice(choice: &Choice) -> String {
    let others = match &choice.runner_up {
        None => String::from("nobody else could have been taken"),
        Some((attempt, price)) => {
            format!("the cheapest of those that stayed, {attempt}, was counted as {}", amount(price))
        }
    };
    let considered = match choice.considered {
        1 => String::from("1 attempt could be taken"),
        more => format!("{more} attempts could be taken"),
    };
    let lacked = match choice.lacked {
        0 => String::from("cores or memory"),
        gpus => words::gpus(gpus),
    };
    let freed = choice.freed;
    format!("it lacked {lacked}, and got {freed} from those that gave way; {considered}; {others}")
}

/// Returns the attempts that give way, in the order of the decision.
pub(super) fn names(start: &Start) -> Vec<AttemptId> {
    start.takes.iter().map(|take| take.attempt).collect()
}
