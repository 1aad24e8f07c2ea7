//! Reports on small clusters.

mod bill;
pub mod capacity;
mod dry_run;
mod empty;
mod hours;
