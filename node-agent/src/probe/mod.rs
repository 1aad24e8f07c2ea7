//! The probe: the only process that loads NVML, and the agent's side of it.
//!
//! A call into a sick driver can hang for minutes or for ever. So NVML lives in a process of its own, one thread a GPU,
//! with a deadline for each answer. The agent asks by lines of JSON; an answer that doesn't come is "unknown", which is
//! neither healthy nor empty, and never a reason to touch a job.
//!
//! ```text
//!   agent: Client --{"n":7}--> stdin  probe: serve -> a thread per GPU -> NVML
//!                 <--{"answer":...} or {"xid":...}-- stdout
//! ```
//!
//! The probe ends when its standard input does: no probe outlives its agent for long.

mod client;
mod gpu;
mod line;
mod serve;

pub use client::{Client, Command, Unknown};
pub use line::{Answer, Gpu, Line, Question, Xid};
pub use serve::main;
