//! Why: what a job waits for, why it runs or ended, and why a decision fell as it did (UX 4).
//!
//! Starts are explained from what was recorded, with both sides' numbers as they were. Why a job waits is computed
//! from the state as it is, with the planner's own functions, so no second opinion can differ from the plan. Times are
//! numbers here; who shows them formats them.

mod ahead;
mod change;
mod decision;
mod job;
mod outlook;
mod reason;
mod standing;
mod waiting;

pub use ahead::{AHEAD_SHOWN, Ahead, Place, place, place_within};
pub use decision::{Decided, decision};
pub use job::{Explanation, Fact, Group, job};
pub use reason::{Reason, Stage, Token, Who};
pub use standing::{Standing, standing};

pub(crate) use outlook::Outlook;
pub(crate) use waiting::{Queued, reasons};
