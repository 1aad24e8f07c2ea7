//! What the leader does: a pure machine over the state that its replica has applied.
//!
//! ```text
//!   agents' links ──> Reports, Facts, Beat ──┐                        ┌──> Propose (one batch, one plan at a time)
//!   the log       ──> Applied, Committed   ──┼──> Leader::handle ──>──┼──> Plan (on a thread), answered by Planned
//!   a timer       ──> Woke                 ──┘                        └──> Send, Ack, Close, WakeAt
//! ```
//!
//! Effects are only hints for speed: everything that must happen follows from State again, so [`Leader::start`] on
//! another replica goes on where this one stopped. What lives here and nowhere else is who was heard of when, and
//! what ranks said of their progress since it was last written.

mod contact;
mod event;
mod facts;
mod machine;
mod planning;
mod saves;
mod sends;
mod ticks;

pub use event::{Effect, Event, Session, Ticket};
pub use machine::Leader;
