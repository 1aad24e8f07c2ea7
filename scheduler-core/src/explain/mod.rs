//! Why: what a job waits for, why it runs or ended, and why a decision fell as it did (UX 4).
//!
//! Starts are explained from what was recorded, with both sides' numbers as they were. Why a job waits is computed
//! from the state as it is, with the planner's own functions, so no second opinion can differ from the plan. Times are
//! numbers here; who shows them formats them.

mod ahead;
mod array;
mod before;
mod board;
mod budget;
mod change;
mod closed;
mod cost;
mod dated;
mod decision;
mod facts;
mod job;
mod outlook;
mod preempted;
mod reason;
mod right;
mod run;
mod standing;
mod starting;
mod takers;
mod victims;
mod waiting;
mod words;

pub use ahead::{AHEAD_SHOWN, Ahead, Place, place, place_within};
pub use array::{Sums, array_standing, shown, sums};
pub use budget::{BudgetStory, budget};
pub use cost::Cost;
pub use dated::{DateOf, date_of, dated_by, how, trouble};
pub use decision::{Decided, decision};
pub use facts::{Fact, Group};
pub use job::{Explanation, attempt, job};
pub use preempted::Preempted;
pub use reason::{Reason, Stage, Token, Who};
pub use standing::{Standing, standing};
pub use takers::Taker;
pub use victims::Victim;
pub use words::over;

pub(crate) use board::Board;
pub(crate) use dated::dates;
pub(crate) use outlook::{Eyes, Outlook};
pub(crate) use right::Uses;
pub(crate) use victims::victims;
pub(crate) use waiting::{Queued, reasons};
