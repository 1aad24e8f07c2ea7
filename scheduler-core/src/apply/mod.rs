//! The replicated state machine: one entry of the log takes effect.
//!
//! ```text
//!  entry ─> advance(time): what changes by time alone, in order
//!             ├─> request id known? ──────────────────────────────────────────> first answer
//!             ├─> rights of the actor ─> the command (checks first, then changes)
//!             └─> cheap invariants: broken? the command's changes are dropped whole, safe mode
//! ```
//!
//! Every replica computes the same from the same log: time is the entry's, collections are ordered, numbers are
//! integers. A command that is refused has changed nothing. One file a command.

mod adopt;
mod adopt_dates;
mod advance;
mod batch;
mod budgets;
mod cancel;
mod contact;
mod context;
mod cordon;
mod drain;
mod entry;
mod facts;
mod found;
mod hold;
mod join;
mod join_tokens;
mod node_word;
mod over_array;
mod over_job;
mod principals;
mod release;
mod reports;
mod requests;
mod requeue;
mod resume_time;
mod rights;
mod safe_mode;
mod saves;
mod set_node;
mod set_pool;
mod set_time;
mod submit;
mod uncordon;
mod undrain;

pub use advance::{advance, next_change};
pub(crate) use entry::run;
pub use entry::{apply, broken};
pub(crate) use principals::PRINCIPALS_MAX;
pub use set_time::check as check_set_time;
