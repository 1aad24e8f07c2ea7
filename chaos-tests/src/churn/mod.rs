//! A year of churn in virtual time: jobs by the million through `apply`, on a small cluster, and state stays what it
//! was: bounded.
//!
//! ```text
//!   clock ─> people: submissions, cancels, holds, requeues, drains, trees, retries, nonsense ──┐
//!         ─> agents: ready, started, saved, ended, freed, lost, restarted, strays ─────────────┼─> apply ─> laws
//!         ─> planner: plans, adopted ──────────────────────────────────────────────────────────┘     └─> snapshots
//! ```
//!
//! Every so many entries all invariants are checked, charge is compared with what jobs paid, and a snapshot is written
//! and read: the run goes on from what was read, so a record that a snapshot forgets would be missed. From the snapshot
//! before, the entries since are applied again, and the digest must be the same.

mod agents;
mod machine;
mod people;
mod random;
mod run;
#[cfg(test)]
mod tests;

pub use machine::Peaks;
pub use run::{Churn, Report, churn, settings_of_a_short_year};
