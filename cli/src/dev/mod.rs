//! `bursar dev`: a real control plane on this machine, with real processes on simulated GPUs.
//!
//! ```text
//!   bursar dev (supervises, reaps orphans) --+-- bursar server x 3
//!        ^                                   +-- bursar agent x N -- shims -- jobs
//!        | control socket in its folder
//!   bursar dev kill-leader, status, ...
//! ```
//!
//! Everything is in one temporary folder and listens on loopback only. The end of `dev` is the one place where jobs
//! are ended because their control plane ends: it cancels them first, by committed stops like any other.

mod args;
mod cluster;
mod control;
mod end;
mod gpus;
mod lock;
mod part;
mod place;
mod preempt_demo;
mod processes;
mod raise;
mod run;
mod screen;
mod state;
mod supervise;
mod tour;

pub use args::Args;
pub use run::run;
