//! Jobs that do what real ones do: save, resume, listen to notices or do not, meet as a gang, and leave children behind.
//!
//! Each process of one writes into a journal that no fault touches: who it is, on which GPUs, and at which moment of the
//! boot clock it was there. What the control plane says is compared with that.

mod journal;
mod worker;

pub use journal::{Line, lines_in, overlaps, whole_lines};
pub use worker::{Work, boot_ms, run};
