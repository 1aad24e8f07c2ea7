//! The way of a job and of its attempts through their states: each file one step, called by [`apply`](crate::apply)
//! after the command was checked.
//!
//! ```text
//!  held <-> waiting ── place ──> live: placed ─ started ─ (stop) ─ ended ── end::next ──> waiting | held | ended
//!                                                             └── freed: the GPUs are proven empty
//! ```
//!
//! A job moves on at the end of its attempt; the attempt stays in its table, and its GPUs with it, until they are
//! proven empty.

pub mod book;
pub mod end;
pub mod ending;
pub mod forget;
pub mod freed;
pub mod gpu;
pub mod need;
pub mod phase;
pub mod place;
pub mod started;
pub mod stop;
pub mod stray;
