//! Simulated futures: when a waiting job is likely to start. A guess, with how it was made; never a promise.
//!
//! ```text
//!   frozen state ──> only what matters ──> [ plan ─> apply ─> agents that do at once what they are told ] x futures
//!        │                                        ▲ how long each job runs: drawn, from what ended jobs did
//!        └──> ended jobs: run time in parts of their minimum                          starts ──> 10th to 90th percentile
//! ```
//!
//! A future is the state run forward by the same `apply` and `plan` as the cluster's own. What is drawn, and all that is:
//! how long jobs run, and how much of its grace who leaves uses. What a future leaves out: jobs that are submitted later,
//! nodes that fail or come back, budgets that are edited, jobs far behind in line, what is lost at a preemption.
//! Everything follows from the state, the seed and the number of the future.

mod course;
mod draw;
mod lengths;
mod likely;
mod view;

pub use lengths::Lengths;
pub use likely::{FUTURES_MIN, Likely, Question, Range, likely};
