//! The way of a job and of its attempts through their states: each file one step, called by [`apply`](crate::apply)
//! after the command was checked.
//!
//! ```text
//!  held <-> waiting ── place ──> live: placed ─ go ─ started ─ (stop) ─ ended ── end::next ──> waiting | held | ended
//!                        │             (waits for GPUs)         ranks ┘  └── freed: the GPUs are proven empty
//!                        └── stop: what gives way to it                                 └── go of whoever they are for
//! ```
//!
//! A job moves on at the end of its attempt; the attempt stays in its table, and its GPUs with it, until they are
//! proven empty. An attempt without go never had a process: when it ends nothing of it stays.

pub mod array;
pub mod before;
pub mod billing;
pub mod book;
pub mod burst;
pub mod dates;
pub mod drain;
pub mod end;
pub mod ending;
pub mod forget;
pub mod freed;
pub mod go;
pub mod gpu;
pub mod lane;
pub mod leaving;
pub mod need;
pub mod phase;
pub mod place;
pub mod progress;
pub mod rank;
pub mod reserve;
pub mod retain;
pub mod service;
pub mod started;
pub mod stop;
pub mod stray;
pub mod want;
pub mod watch;
