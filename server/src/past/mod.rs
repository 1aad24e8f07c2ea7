//! Answers from the past: state has the present, the history has the rest, and what it lacks is said.
//!
//! ```text
//!   asked ──> state at an index ──> history up to that index ──> one answer, each thing once
//!             (jobs, bills)         (records, a page at a time, within bounds)
//! ```
//!
//! A job that left state is read by putting it back into a clone of the present state, so that the same views show it.
//! Who may see what does not change by that. Nothing here writes, and nothing decides by it.

pub mod said;
pub mod waits;

mod bills;
mod ended;
mod revive;
mod turn;
mod walk;

pub use bills::put_back as bills_into;
pub use ended::{One, Place, Wanted, list as ended};
pub use revive::{Revived, decision, job};
pub use turn::{READERS, settle};
pub use walk::Walk;

use turn::turn;

use std::sync::Arc;

use scheduler_core::command::{Code, Rejection};
use scheduler_core::state::State;
use tonic::Status;

use crate::refusal;
use crate::shared::Read;
use crate::view::View;

/// Returns a read of another state at the same index.
fn with(read: &Read, state: State) -> Read {
    let (index, term) = (read.view.index, read.view.term);
    Read { view: Arc::new(View { index, term, state }), is_stale: read.is_stale }
}

/// Whether a budget's path is another's or below it.
#[must_use]
pub fn is_below(budget: Option<&str>, above: &str) -> bool {
    let of = budget.unwrap_or("");
    of == above || of.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Says that a record of the history cannot be read: a newer version wrote it.
fn unreadable(cause: &proto::Error) -> Status {
    refusal::status(&Rejection::new(
        Code::Internal,
        format!("a record of the history cannot be read: {cause}"),
        "a newer version wrote it; nothing is lost",
        "ask a replica of the newer version".to_owned(),
    ))
}
