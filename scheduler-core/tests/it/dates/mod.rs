//! Dates and claims: what the first in order is promised, what keeps it, and the laws of it all.

mod cases;
mod cores;
mod court;
mod laws;
mod unreached;

use scheduler_core::date::Date;
use scheduler_core::decision::Step;
use scheduler_core::id::{DecisionId, LogIndex, Term};
use scheduler_core::plan::{Links, plan};
use scheduler_core::state::State;

use crate::lab::NOW;

/// Issues the dates that the next plan would.
pub fn issue(state: &mut State) {
    let made = plan(state, &Links::all_ready(state), NOW, Term::new(1));
    for (n, step) in (0..).zip(made.dates) {
        let Step::Issue(promise) = step.step else { panic!("there was a date before") };
        let decision = DecisionId { index: LogIndex::new(101), n };
        let date = Date { issued_at: NOW, decision, promise, moved: 0, moves: Vec::new() };
        state.dates.insert((step.job, step.pool), date);
    }
}
