//! An NVML library for machines without a GPU.
//!
//! The `cdylib` exports the C functions of NVML that the agent's probe calls, and answers them from a JSON state file.
//! The `rlib` side ([`State`], [`write`](fn@write)) makes such files, for tests and for `bursar dev`.
//!
//! ```text
//!   test or dev --write (rename)--> state.json --stat/read--> libbursar_fake_nvml.so <--dlopen-- probe
//!                                                   /proc/PID/environ --^
//! ```
//!
//! - The state file is the one that `BURSAR_FAKE_NVML_STATE` names; without that variable it is the file beside the
//!   library with `.json` added to its name (so copies of the library in one process can have different states). It is
//!   read again when its inode, size or modification time change. No readable file: initialising fails.
//! - A GPU's processes are those in its state, and every live process that was started with the GPU's UUID in
//!   `CUDA_VISIBLE_DEVICES`. So a job that the agent starts "uses" its GPUs with no help from a test.
//! - The driver version always ends in `-simulated`, and the symbol `bursar_fake_nvml_marker` exists: a node that runs on
//!   this library can't pass for a real one.
//! - Handles are index + 1, never a pointer: a stale one is an error, not a crash. No function unwinds into C.
//!
//! What the library must never do: answer "fine" when it can't read its state.

mod abi;
mod calls;
mod events;
mod live;
mod processes;
mod state;

pub use state::{Error, Event, Fault, Gpu, Process, STATE_VARIABLE, State, read, write};

/// The event type that NVML gives to XID errors.
pub const EVENT_XID: u64 = 8;
